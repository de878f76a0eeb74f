import { pythonFloat } from '../../src/protocol/observations.ts';

/** Advice that closes every report of a command that has not completed (V0 §5.3, "T"). */
export const TIMEOUT_ADVICE =
  "You may wait longer to see additional output by sending empty command '', send other commands to interact with " +
  'the current process, send keys ("C-c", "C-z", "C-d") to interrupt/kill the previous command before sending your ' +
  'new command, or use the timeout parameter in execute_bash for future commands.';

export const BELOW_PREFIX = '[Below is the output of the previous command.]\n';
export const NO_PREVIOUS_LOGS = 'ERROR: No previous running command to retrieve logs from.';
export const NO_PREVIOUS_INTERACTION = 'ERROR: No previous running command to interact with.';

export function completedSuffix(exitCode: number, key?: string): string {
  const sent = key === undefined ? '' : ` CTRL+${key.slice(-1).toUpperCase()} was sent.`;
  return `\n[The command completed with exit code ${exitCode}.${sent}]`;
}

export const OUT_OF_MEMORY_HINT =
  '\n[The sandbox ran out of memory, and the kernel killed processes in it. Use less memory at a time.]';

/** What a shell that could not be started without it adds to the note of its start. */
export const CLEARED_NOTE =
  '\n[No more processes could be started, so what earlier commands of this shell had left running was ended.]';

export function truncatedPrefix(lines: number): string {
  return `[Previous command outputs are truncated. Showing the last ${lines} lines of the output below.]\n`;
}

/** @param seconds whole seconds, printed as an integer (V0 §5.3) */
export function silenceSuffix(seconds: number): string {
  return `\n[The command has no new output after ${seconds} seconds. ${TIMEOUT_ADVICE}]`;
}

/** @param seconds printed as Python prints a float: 1 is `1.0` (V0 §5.3) */
export function hardTimeoutSuffix(seconds: number): string {
  return `\n[The command timed out after ${pythonFloat(seconds)} seconds. ${TIMEOUT_ADVICE}]`;
}

export function notExecutedSuffix(command: string): string {
  return (
    `\n[Your command "${command}" is NOT executed. The previous command is still running - You CANNOT send new ` +
    'commands until the previous command is completed. By setting `is_input` to `true`, you can interact with the ' +
    `current process: ${TIMEOUT_ADVICE}]`
  );
}

export function multipleCommands(commands: readonly string[]): string {
  const list = commands.map((command, index) => `(${index + 1}) ${command}`).join('\n');
  return (
    'ERROR: Cannot execute multiple commands at once.\n' +
    'Please run each command separately OR chain them into a single command via && or ;\n' +
    `Provided commands:\n${list}`
  );
}

export const SHUTDOWN_SUFFIX = '\n[The server is shutting down; the command was ended.]';
export const CANCELLED_NOTE = '\n[The command was cancelled.]';
export const STOPPED_SUFFIX = '\n[The session was closed while the command ran; the command was ended.]';
export const CLOSED_BEFORE_SUFFIX = '\n[The session was closed before the command began; it was not run.]';
export const SHELL_NOT_READY =
  'Not run: the shell was still starting when the action was ended or its time was over. If ~/.bashrc is slow, make it faster or give a longer timeout.';
export const INPUT_NOT_SENT = '\n[Your input was not sent: the command had already completed.]';
export const STUBBORN_HINT = '\n[The program ignores C-c. Send C-c once more to kill it (SIGKILL).]';
export const KILLED_HINT = '\n[The program ignored C-c and was killed (SIGKILL).]';

/** Says that the shell itself is gone and what the new one still has. */
export function restartedNote(why: string, cwd: string, lostDirectory?: string): string {
  const moved = lostDirectory === undefined ? '' : ` (${lostDirectory} is no longer there)`;
  return (
    `\n[${why} A new shell was started in ${cwd}${moved}: exported variables were kept; shell functions, aliases, ` +
    'options and variables that were not exported are gone.]'
  );
}

export function fullOutputNote(path: string, bytes: number, isWhole: boolean): string {
  return `\n[${isWhole ? 'Full output' : `First ${bytes} bytes of the output`}: ${path}]`;
}
