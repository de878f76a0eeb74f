import type { AbortReason, ActionContext, ActionResult } from '../../src/dispatch/executor.ts';
import type { RunAction } from '../../src/protocol/actions.ts';
import {
  DEFAULT_METADATA,
  errorObservation,
  refusalObservation,
  type RunMetadata,
  runObservation,
  truncateContent,
} from '../../src/protocol/observations.ts';
import type { Secrets } from '../../src/sandbox/secrets.ts';
import { OomWatch } from '../../src/sandbox/out-of-memory.ts';
import { endProcesses, type ProcessInfo, readProcess } from '../../src/sandbox/processes.ts';
import { existingDirectory, findPython, logicalDirectory } from './directories.ts';
import { keyBytes } from './keys.ts';
import { Output, type OutputPart } from './output.ts';
import { NoProcessLeftError, Shell, type ShellOptions, type ShellOutcome } from './shell.ts';
import type { SpillOptions } from '../../src/sandbox/spill.ts';
import { splitCommands } from './split.ts';
import * as texts from './texts.ts';
import { quote, type ShellReport } from './wire.ts';

export interface SessionOptions {
  readonly shell: Omit<ShellOptions, 'cwd' | 'preamble' | 'hasStartupFiles' | 'onOutput'>;
  readonly spill: SpillOptions;
  /** Masked in all output. */
  readonly secrets: Secrets;
  readonly username: string;
  /** Short host name (`\h`). */
  readonly hostname: string;
  /** Whole seconds without visible output after which a command that may not block is reported (V0 §5.2). */
  readonly silenceSeconds: number;
  /** What newline-separated commands in one action lead to. */
  readonly multiCommand: 'reject' | 'run';
  /** How to look at all processes. */
  readonly list: () => Promise<ProcessInfo[]>;
}

type SettledOutcome = Exclude<ShellOutcome, { readonly kind: 'lost' }>;

/** The command whose completion has not been reported yet. */
interface Command {
  readonly isHidden: boolean;
  outcome: SettledOutcome | undefined;
  /** How often it has been reported as not completed. */
  reports: number;
  /** Typed since the last report: its echo is not output. */
  typed: string | undefined;
  lastKey: string | undefined;
  interrupts: number;
  isCancelled: boolean;
  settled: Promise<void>;
}

/** What a command printed after its last report: it comes with the next answer. */
interface Earlier {
  readonly text: string;
  readonly isHidden: boolean;
  /** Lines of it are lost. */
  readonly isShort: boolean;
}

/** What an answer shows. */
interface Part extends OutputPart {
  /** Some of it is of a hidden command. */
  readonly isHidden: boolean;
  readonly isShort: boolean;
}

type WaitEnd = 'completed' | 'silent' | 'timeout' | 'aborted';

/** An answer is due within this time after the limit, even if the action had to queue (V0 §9.3: the client waits 5 s longer). */
const QUEUE_GRACE_MS = 4000;
/** `setTimeout` takes no more. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const STOP_GRACE_MS = 700;
/** What a cancelled command gets to end by itself, before the next stronger means. */
const CANCEL_STEP_MS = 300;
const CANCEL_INTERRUPTS = 5;
/** Exit code of a command that no shell would take (as of one that cannot be executed). */
const NOT_RUN = 126;
/** Exit code of a command that C-c ended. */
const INTERRUPTED = 130;
/** What a shell gets to go on when its program was killed; and to say so when it is back at its prompt already. */
const KILL_STEP_MS = 1000;
const RETURN_LIMIT_MS = 4000;
/** The C-c that kills a program which ignored those before. */
const KILLING_INTERRUPT = 3;
/** Text put into the history list of the shell, in characters. */
const MAX_HISTORY_CHARS = 16_384;

/** One named shell and the command in it (V0 §5). Actions come one at a time. */
export class Session {
  readonly created = new Date();
  lastUsed = new Date();
  readonly #options: SessionOptions;
  readonly #output: Output;
  #shell: Shell | undefined;
  #starting: Promise<Shell> | undefined;
  /** Any start of a shell, also in place of one that a command has ended. */
  #launching: Promise<Shell> | undefined;
  #cwd: string;
  #exports = '';
  #command: Command | undefined;
  #earlier: Earlier | undefined;
  #restartNote = '';
  #clearedNote = '';
  readonly #oomWatch = new OomWatch();
  #isClosed = false;
  /** Shells of this session, dead ones too while something they started lives: session id → start time. */
  readonly #leaders = new Map<number, string>();

  constructor(options: SessionOptions, cwd: string) {
    this.#options = options;
    this.#cwd = cwd;
    this.#output = new Output(options.spill, options.secrets, {
      pause: () => this.#shell?.pause(),
      resume: () => this.#shell?.resume(),
    });
  }

  /** The working directory after the last command that completed. */
  get cwd(): string {
    return this.#cwd;
  }

  /** Its exported variables as shell text; empty before the first shell. */
  get exports(): string {
    return this.#shell?.exports ?? this.#exports;
  }

  get pid(): number | undefined {
    return this.#shell?.pid;
  }

  get isRunning(): boolean {
    return this.#command !== undefined && this.#command.outcome === undefined;
  }

  get isStarting(): boolean {
    return this.#starting !== undefined;
  }

  /** Starts the shell before the first command. */
  async start(): Promise<void> {
    await this.#readyShell();
  }

  async execute(action: RunAction, context: ActionContext): Promise<ActionResult> {
    this.lastUsed = new Date();
    const { args } = action;
    const trimmed = args.command.trim();
    const isText = args.is_input && trimmed !== '' && keyBytes(trimmed) === undefined;
    const text = isText ? args.command.replace(/[\r\n]+$/, '') : trimmed;
    if (this.#command === undefined) return this.#executeIdle(action, text, context);
    if (this.#command.outcome !== undefined) return this.#executeAfterCompletion(action, text, context);
    if (text !== '' && !args.is_input) return this.#notExecuted(text, args.hidden);
    const failure = text === '' ? undefined : this.#type(this.#command, text);
    if (failure !== undefined) return { observation: errorObservation(failure) };
    this.#output.listen(this.#command.isHidden ? undefined : context.emit);
    return this.#waitAndReport(this.#command, action, text, context);
  }

  /** Ends the shell and everything that was started from it. */
  async stop(): Promise<void> {
    this.#isClosed = true;
    await this.#launching?.catch(() => undefined);
    this.#shell?.kill();
    const { list } = this.#options;
    await endProcesses({ sessions: livingSessions(this.#leaders, await list()) }, STOP_GRACE_MS, list);
    await this.#shell?.exited;
  }

  #executeIdle(action: RunAction, text: string, context: ActionContext): Promise<ActionResult> | ActionResult {
    const { args } = action;
    if (text === '') return { observation: answer(texts.NO_PREVIOUS_LOGS, args.hidden) };
    if (args.is_input) return { observation: answer(texts.NO_PREVIOUS_INTERACTION, args.hidden) };
    if (keyBytes(text) !== undefined) return { observation: this.#keyAtPrompt(text, args.hidden) };
    return this.#refusal(text, args.hidden) ?? this.#run(action, text, context);
  }

  /** The command ended after its last report: nothing of it is lost, and input meant for it is not taken for a command. */
  #executeAfterCompletion(
    action: RunAction,
    text: string,
    context: ActionContext,
  ): Promise<ActionResult> | ActionResult {
    const command = this.#command as Command;
    if (text === '' || action.args.is_input || keyBytes(text) !== undefined) {
      this.#output.listen(command.isHidden ? undefined : context.emit);
      return this.#completed(command, text, action.args.hidden, text === '' ? '' : texts.INPUT_NOT_SENT);
    }
    const refusal = this.#refusal(text, action.args.hidden);
    if (refusal) return refusal;
    const { text: rest, droppedLines } = this.#output.take(command.typed, true);
    this.#command = undefined;
    this.#earlier = { text: rest, isHidden: command.isHidden, isShort: droppedLines > 0 };
    this.#output.end(rest !== '');
    return this.#run(action, text, context);
  }

  /** V0 refuses several commands in one action (V0 §5.4). */
  #refusal(text: string, isHidden: boolean): ActionResult | undefined {
    if (this.#options.multiCommand === 'run') return undefined;
    const commands = splitCommands(text);
    if (commands.length <= 1) return undefined;
    const message = texts.multipleCommands(commands);
    return { observation: isHidden ? answer(message, true) : errorObservation(message) };
  }

  async #run(action: RunAction, text: string, context: ActionContext): Promise<ActionResult> {
    const { args } = action;
    const shell = this.#shell?.isAlive ? this.#shell : await this.#shellInTime(action, context);
    if (!shell) return { observation: refusalObservation(texts.SHELL_NOT_READY, args.hidden) };
    this.#output.begin(context.actionId, args.hidden ? undefined : context.emit, args.hidden);
    const command: Command = {
      isHidden: args.hidden,
      outcome: undefined,
      reports: 0,
      typed: undefined,
      lastKey: undefined,
      interrupts: 0,
      isCancelled: false,
      settled: Promise.resolve(),
    };
    this.#command = command;
    const isRemembered = !args.hidden && text.length <= MAX_HISTORY_CHARS;
    command.settled = this.#perform(shell, command, text, isRemembered).then((outcome) =>
      this.#settle(command, outcome),
    );
    return this.#waitAndReport(command, action, text, context);
  }

  /** Undefined when nobody waits for the action any more before there is a shell. */
  #shellInTime({ timeout }: RunAction, context: ActionContext): Promise<Shell | undefined> {
    const limitMs = timeout === undefined ? undefined : answerDueMs(timeout, context);
    return unlessAborted(this.#readyShell(), context.signal, limitMs);
  }

  /** A command that its shell never began is given to a new one, once, unless it is because it was cancelled. */
  async #perform(shell: Shell, command: Command, text: string, isRemembered: boolean): Promise<SettledOutcome> {
    const outcome = await shell.run(text, isRemembered);
    if (outcome.kind !== 'lost') return outcome;
    if (command.isCancelled || command.interrupts > 0) return interruptedBefore(outcome.report);
    if (this.#isClosed) return { kind: 'ended', exitCode: NOT_RUN };
    shell.kill();
    this.#restartNote = await this.#restart(shell, await shell.exited);
    const again = this.#shell?.isAlive ? await this.#shell.run(text, isRemembered) : outcome;
    return again.kind === 'lost' ? { kind: 'ended', exitCode: NOT_RUN } : again;
  }

  #settle(command: Command, outcome: SettledOutcome): void {
    command.outcome = outcome;
    const { pid } = this;
    if (outcome.kind === 'reported' && pid !== undefined) this.#cwd = logicalDirectory(pid, outcome.report.pwd);
  }

  /** Types text or a key for the running program. @returns why it could not be typed */
  #type(command: Command, text: string): string | undefined {
    const key = keyBytes(text);
    const isInterrupt = key === '\u0003';
    command.interrupts = isInterrupt ? command.interrupts + 1 : 0;
    command.lastKey = key === undefined ? undefined : text;
    command.typed = key === undefined ? text : undefined;
    if (command.interrupts >= KILLING_INTERRUPT) {
      void this.#killForeground(command);
      return undefined;
    }
    const bytes = key ?? `${text.replaceAll('\n', '\r')}\r`;
    if (this.#shell?.type(Buffer.from(bytes, 'utf8')) !== false) return undefined;
    return 'The program does not read its input: what was typed before is still waiting, and more does not fit. Send C-c to interrupt it.';
  }

  /** What is in the foreground goes; if that does not end the command, as in a loop that ignores interrupts, the shell goes too. */
  async #killForeground(command: Command): Promise<void> {
    const isKilled = this.#shell?.signalForeground('SIGKILL');
    if (!isKilled || !(await settledWithin(command.settled, KILL_STEP_MS))) await this.#killShell(command);
  }

  /** Not one that has left the command and only has to say so. */
  async #killShell(command: Command): Promise<void> {
    if (this.#shell?.isAtPrompt && (await settledWithin(command.settled, RETURN_LIMIT_MS))) return;
    this.#shell?.kill();
  }

  async #waitAndReport(
    command: Command,
    action: RunAction,
    text: string,
    context: ActionContext,
  ): Promise<ActionResult> {
    const end = await this.#wait(command, action, context);
    const { hidden } = action.args;
    switch (end) {
      case 'completed':
        return this.#completed(command, text, hidden, '');
      case 'silent':
        return this.#unfinished(command, text, texts.silenceSuffix(this.#options.silenceSeconds));
      case 'timeout':
        return this.#unfinished(command, text, texts.hardTimeoutSuffix(action.timeout ?? 0));
      case 'aborted':
        return (context.signal.reason as AbortReason) === 'cancel'
          ? this.#cancel(command, text, hidden)
          : this.#unfinished(command, text, texts.SHUTDOWN_SUFFIX);
    }
  }

  /** Interrupts, then TERM, then KILL for what is in the foreground; the shell itself only if nothing else helps. */
  async #cancel(command: Command, label: string, isHidden: boolean): Promise<ActionResult> {
    command.isCancelled = true;
    const interrupt = (): unknown => this.#shell?.type(Buffer.from('\u0003'));
    // The terminal has nobody to interrupt between two programs of a loop: then it is the shell's turn.
    const interruptAgain = (): void => {
      interrupt();
      this.#shell?.interrupt();
    };
    const steps: readonly (readonly [act: () => unknown, waitMs: number])[] = [
      [interrupt, CANCEL_STEP_MS],
      ...Array.from({ length: CANCEL_INTERRUPTS - 1 }, () => [interruptAgain, CANCEL_STEP_MS] as const),
      [() => this.#shell?.signalForeground('SIGTERM'), CANCEL_STEP_MS],
      [() => this.#shell?.signalForeground('SIGKILL'), KILL_STEP_MS],
      [() => this.#killShell(command), CANCEL_STEP_MS],
    ];
    for (const [act, waitMs] of steps) {
      await act();
      if (await settledWithin(command.settled, waitMs)) break;
    }
    await command.settled;
    await this.#shell?.echoed();
    return this.#completed(command, label, isHidden, texts.CANCELLED_NOTE);
  }

  #wait(command: Command, action: RunAction, context: ActionContext): Promise<WaitEnd> {
    return new Promise((resolve) => {
      const timers: NodeJS.Timeout[] = [];
      const finish = (end: WaitEnd): void => {
        for (const timer of timers) clearTimeout(timer);
        silence?.stop();
        context.signal.removeEventListener('abort', onAbort);
        resolve(end);
      };
      const onAbort = (): void => finish('aborted');
      const silence = action.args.blocking
        ? undefined
        : this.#output.watchSilence(this.#options.silenceSeconds * 1000, () => finish('silent'));
      if (action.timeout !== undefined)
        timers.push(setTimeout(() => finish('timeout'), hardLimit(action.timeout, context)));
      void command.settled.then(() => finish('completed'));
      if (context.signal.aborted) onAbort();
      else context.signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  async #completed(command: Command, label: string, isHidden: boolean, note: string): Promise<ActionResult> {
    const outcome = command.outcome as SettledOutcome;
    const shell = this.#shell as Shell;
    const part = this.#take(command, true);
    this.#command = undefined;
    const exitCode = outcome.kind === 'reported' ? outcome.report.exitCode : outcome.exitCode;
    let suffix = texts.completedSuffix(exitCode, controlKey(command.lastKey));
    if (command.interrupts >= KILLING_INTERRUPT) suffix += texts.KILLED_HINT;
    if (exitCode !== 0 && this.#oomWatch.sawKill()) suffix += texts.OUT_OF_MEMORY_HINT;
    if (outcome.kind === 'ended') suffix += await this.#restart(shell, outcome.exitCode, outcome.isCutOff);
    suffix += this.#restartNote + note;
    this.#restartNote = '';
    const report = outcome.kind === 'reported' ? outcome.report : undefined;
    const metadata = this.#metadata(
      exitCode,
      report,
      suffix,
      part.droppedLines > 0 ? texts.truncatedPrefix(part.keptLines) : '',
    );
    const result = this.#result(command, label, part, metadata, isHidden);
    this.#output.end();
    return result;
  }

  #unfinished(command: Command, label: string, suffix: string): ActionResult {
    const part = this.#take(command, false);
    this.#output.release();
    command.typed = undefined;
    const prefix = command.reports > 0 ? texts.BELOW_PREFIX : '';
    command.reports += 1;
    const hint = command.interrupts === KILLING_INTERRUPT - 1 ? texts.STUBBORN_HINT : '';
    const metadata = { ...DEFAULT_METADATA, prefix, suffix: suffix + hint };
    return this.#result(command, label, part, metadata, false);
  }

  #notExecuted(text: string, isHidden: boolean): ActionResult {
    const command = this.#command as Command;
    const part = this.#take(command, false);
    command.typed = undefined;
    const prefix = command.reports > 0 ? texts.BELOW_PREFIX : '';
    command.reports += 1;
    const metadata = { ...DEFAULT_METADATA, prefix, suffix: texts.notExecutedSuffix(isHidden ? '' : text) };
    return this.#result(command, isHidden ? '' : text, part, metadata, isHidden);
  }

  /** What is new, behind what the command before left. */
  #take(command: Command, isLast: boolean): Part {
    const part = this.#output.take(command.typed, isLast);
    const earlier = this.#earlier;
    this.#earlier = undefined;
    return {
      ...part,
      text: joinParts(earlier?.text ?? '', part.text),
      isHidden: command.isHidden || (earlier?.isHidden ?? false),
      isShort: part.droppedLines > 0 || (earlier?.isShort ?? false),
    };
  }

  /** Cuts the content to V0's limit and names the file that has all of it. */
  #result(command: Command, label: string, part: Part, metadata: RunMetadata, hidden: boolean): ActionResult {
    const isUncut = command.isHidden || hidden;
    const cut = isUncut ? { text: part.text, truncated: false } : truncateContent(part.text);
    const isShort = cut.truncated || part.isShort;
    const file = isShort ? this.#output.file : undefined;
    const suffix = file ? metadata.suffix + texts.fullOutputNote(file.path, file.bytes, file.isWhole) : metadata.suffix;
    const observation = runObservation({
      command: label,
      content: cut.text,
      metadata: { ...metadata, suffix },
      hidden,
    });
    return {
      observation,
      ...(isShort ? { truncated: true } : {}),
      ...(file ? { output_file: file.path } : {}),
      ...(part.isHidden ? { hidden: true } : {}),
    };
  }

  #metadata(exitCode: number, report: ShellReport | undefined, suffix: string, prefix: string): RunMetadata {
    const { username, hostname } = this.#options;
    return {
      exit_code: exitCode,
      pid: report?.backgroundPid ?? -1,
      username,
      hostname,
      working_dir: this.#cwd,
      py_interpreter_path: findPython(report?.path ?? this.#options.shell.env['PATH'] ?? '', this.#cwd),
      prefix,
      suffix,
    };
  }

  /** Nothing runs, so nothing is interrupted: the answer is what a prompt would give, and the shell is left alone. */
  #keyAtPrompt(key: string, hidden: boolean): ReturnType<typeof runObservation> {
    const exitCode = key === 'C-c' ? INTERRUPTED : 0;
    const metadata = this.#metadata(exitCode, undefined, texts.completedSuffix(exitCode, controlKey(key)), '');
    return runObservation({ command: key, content: '', metadata, hidden });
  }

  #readyShell(): Promise<Shell> {
    const shell = this.#shell;
    if (shell?.isAlive) return Promise.resolve(shell);
    this.#starting ??= (shell ? this.#replaceDead(shell) : this.#startShell()).finally(
      () => (this.#starting = undefined),
    );
    return this.#starting;
  }

  /** The shell ended while nothing ran in it: the next answer says so. */
  async #replaceDead(dead: Shell): Promise<Shell> {
    this.#restartNote = await this.#restart(dead, await dead.exited);
    if (!this.#shell?.isAlive) throw new Error(this.#restartNote.trim());
    return this.#shell;
  }

  /** @returns the note that tells the agent */
  async #restart(old: Shell, exitCode: number, isCutOff = false): Promise<string> {
    if (this.#isClosed) return exitCode === NOT_RUN ? texts.CLOSED_BEFORE_SUFFIX : texts.STOPPED_SUFFIX;
    this.#exports = old.exports;
    const lost = this.#cwd;
    try {
      await this.#startShell();
    } catch (error) {
      return `\n[The shell itself has ended and no new one could be started: ${String(error)}. It is tried again with the next command.]`;
    }
    const ending = exitCode > 128 ? `killed by signal ${exitCode - 128}` : `exit code ${exitCode}`;
    const why = isCutOff
      ? 'The shell was replaced by another one (exec), or closed its connection to the server.'
      : `The shell itself has ended (${ending}).`;
    return texts.restartedNote(why, this.#cwd, lost === this.#cwd ? undefined : lost) + this.#takeClearedNote();
  }

  /** Ends what the shells before have left running. @returns whether there was anything */
  async #endLeftOvers(): Promise<boolean> {
    const { list } = this.#options;
    const sessions = livingSessions(this.#leaders, await list());
    if (sessions.size === 0) return false;
    await endProcesses({ sessions }, STOP_GRACE_MS, list);
    return true;
  }

  #takeClearedNote(): string {
    const note = this.#clearedNote;
    this.#clearedNote = '';
    return note;
  }

  async #forgetEmptySessions(): Promise<void> {
    const living = livingSessions(this.#leaders, await this.#options.list());
    for (const pid of this.#leaders.keys()) if (!living.has(pid)) this.#leaders.delete(pid);
  }

  #startShell(): Promise<Shell> {
    const launching = this.#launch().finally(() => (this.#launching = undefined));
    this.#launching = launching;
    return launching;
  }

  async #launch(): Promise<Shell> {
    this.#cwd = existingDirectory(this.#cwd);
    const preamble = `${PREAMBLE}${restoreExports(this.#exports)}\\builtin cd -- ${quote(this.#cwd)}`;
    let isUp = false;
    const options = {
      ...this.#options.shell,
      cwd: this.#cwd,
      preamble,
      // What a shell prints while it starts is output of no command.
      onOutput: (chunk: Buffer) => (isUp ? this.#output.write(chunk) : undefined),
    };
    const start = (): Promise<Shell> =>
      Shell.start({ ...options, hasStartupFiles: true }).catch(() =>
        // A start-up file that ends the shell must not cost the session.
        Shell.start({ ...options, hasStartupFiles: false }),
      );
    const shell = await start().catch(async (error: unknown) => {
      // Nobody could end them without a shell.
      if (!(error instanceof NoProcessLeftError) || !(await this.#endLeftOvers())) throw error;
      this.#clearedNote = texts.CLEARED_NOTE;
      return start();
    });
    this.#leaders.set(shell.pid, readProcess(shell.pid)?.startTime ?? '');
    if (this.#leaders.size > 1) await this.#forgetEmptySessions();
    isUp = true;
    this.#shell = shell;
    return shell;
  }
}

/** The end of a command that was interrupted before the shell began it. */
function interruptedBefore(report: ShellReport | undefined): SettledOutcome {
  if (report) return { kind: 'reported', report: { ...report, exitCode: INTERRUPTED } };
  return { kind: 'ended', exitCode: INTERRUPTED };
}

/** Undefined once nobody waits any more: after so many milliseconds, if there is a limit, or when the signal says so. */
async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal, limitMs?: number): Promise<T | undefined> {
  const settled = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<undefined>((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener('abort', () => resolve(undefined), { once: true, signal: settled.signal });
    if (limitMs !== undefined) timer = setTimeout(() => resolve(undefined), limitMs);
  });
  try {
    const result = await Promise.race([over, promise]);
    return signal.aborted ? undefined : result;
  } finally {
    settled.abort();
    clearTimeout(timer);
  }
}

async function settledWithin(settled: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
  const isSettled = await Promise.race([settled.then(() => true), late]);
  clearTimeout(timer);
  return isSettled;
}

/** Sessions that still have members, without those whose id another process has taken over since. */
function livingSessions(leaders: ReadonlyMap<number, string>, processes: readonly ProcessInfo[]): Set<number> {
  const living = new Set<number>();
  for (const { session } of processes) {
    const startTime = leaders.get(session);
    if (startTime === undefined) continue;
    const leader = readProcess(session);
    if (leader === undefined || leader.startTime === startTime) living.add(session);
  }
  return living;
}

/** V0 §1.4 step 6. */
const PREAMBLE = 'alias git="git --no-pager"\n';

/** Variables that belong to the shell that had them. */
const OWN_VARIABLES = /^(?:declare -[a-z]+|export) (?:PWD|OLDPWD|SHLVL|_|SHELLOPTS|BASHOPTS)(?:=|$)/;

function restoreExports(exports: string): string {
  const lines = exports.split('\n').filter((line) => !OWN_VARIABLES.test(line));
  return lines.length === 0 ? '' : `${lines.join('\n')}\n`;
}

function answer(content: string, hidden: boolean): ReturnType<typeof runObservation> {
  return runObservation({ command: '', content, metadata: DEFAULT_METADATA, hidden });
}

/** A key that V0 has words for. */
function controlKey(key: string | undefined): string | undefined {
  return key?.startsWith('C-') ? key : undefined;
}

function joinParts(first: string, second: string): string {
  return second === '' || first === '' ? first + second : `${first}\n${second}`;
}

/** Milliseconds from now to the hard limit; time spent in the queue shortens it only where the answer would come too late. */
function hardLimit(timeoutSeconds: number, context: ActionContext): number {
  return Math.min(MAX_TIMER_MS, timeoutSeconds * 1000, answerDueMs(timeoutSeconds, context));
}

/** Milliseconds from now to the moment when a client with this limit no longer waits for an answer. */
export function answerDueMs(timeoutSeconds: number, { arrivedAt }: ActionContext): number {
  const waited = performance.now() - arrivedAt;
  return Math.min(MAX_TIMER_MS, Math.max(0, Math.ceil(timeoutSeconds * 1000 + QUEUE_GRACE_MS - waited)));
}
