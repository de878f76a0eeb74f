/**
 * What is said to the shell and how its reports read.
 *
 * Bash reads these lines from a pipe, not from the terminal: its own stdin is the pipe, its stdout and stderr are /dev/null, and
 * only the evaluated command is connected to the terminal. So nothing here is echoed, edited, expanded or put into the history,
 * prompts and traces of these lines are never seen, and text left over on the terminal is never run as a command.
 */

/**
 * Descriptors in the shell: the report pipe, the file that the exported variables are kept in, /dev/null and the terminal. Bash saves
 * what a duplication replaces above the descriptor duplicated, so it keeps its own 0, 1 and 2 above these: all that scripts use (from 3
 * up, from 10 with `{name}>`) is theirs. They close on exec, so that no program inherits them.
 */
export const REPORT_FD = 240;
const EXPORTS_FD = 241;
const NULL_FD = 242;
const TERMINAL_FD = 243;

/** Bash puts its own descriptors back afterwards, whatever the command did to 0, 1 and 2. */
const COMMAND_REDIRECTIONS = `<&${TERMINAL_FD} >&${TERMINAL_FD} 2>&${TERMINAL_FD}`;

/** In front of a token that stands alone: the command's line has been read and is being carried out. */
const BEGUN = '!';

/** More than any field has. */
const MAX_FIELD_CHARS = 4 * 1024 * 1024;

/** A report is this many fields, each ended by NUL, which no value of bash can contain. */
const REPORT_FIELDS = 7;

/** What bash says after each command. */
export interface ShellReport {
  readonly exitCode: number;
  /** `$!`, -1 when no job was ever put into the background. */
  readonly backgroundPid: number;
  /** `$PWD`: a hint only, the command may have assigned it. */
  readonly pwd: string;
  /** `$-`: the option letters in force. */
  readonly options: string;
  readonly path: string;
  /** Lines about jobs that ended or stopped since the last report. */
  readonly jobs: string;
}

/** Names that exist only while a shell starts. */
export interface ShellFiles {
  readonly commandPipe: string;
  readonly reportPipe: string;
  readonly exportsFile: string;
}

/** Says on the terminal that the pipes are there: made by the shell, since every program that the server starts holds it up. */
export const PIPES_MADE = '\u0006';

/**
 * Arguments for bash that turn it into the shell of a session; everything named is opened here and can be unlinked afterwards. Whatever
 * else the server has open, such as other sessions' terminals, is closed.
 */
export function launchArguments({ commandPipe, reportPipe, exportsFile }: ShellFiles): string[] {
  const script = [
    'for fd in /proc/self/fd/*; do fd=${fd##*/}; if [ "$fd" -gt 2 ]; then eval "exec $fd>&-"; fi; done',
    'unset fd',
    `command -p mkfifo -m 600 "$0" "$1" && printf '\\006'`,
    'exec 7<>"$2" 8>"$1" 9<&1 <"$0"',
    'exec /bin/bash --noediting --norc -i',
  ].join('; ');
  return ['--norc', '--noprofile', '-c', script, commandPipe, reportPipe, exportsFile];
}

/** Nothing is connected to the terminal while start-up files run: what they print is not output of a command. */
const STARTUP_REDIRECTIONS = `<&${NULL_FD}`;

/** The descriptor in which bash saves one that it replaces for the length of a command; such a copy closes on exec. */
const SAVING_FD = 10;

/**
 * Makes a copy of `source` that closes on exec. Bash has no word for that, but a copy of a descriptor that closes on exec closes
 * too, and what it saves does.
 */
function closingOnExec(fd: number, source: number): string {
  return `exec >&${source}; { exec ${fd}>&${SAVING_FD}; } >/dev/null`;
}

export interface SetupOptions {
  readonly preamble: string;
  readonly hasStartupFiles: boolean;
  /** HISTIGNORE of the sandbox: while the shell starts another one keeps these lines out of the history. */
  readonly historyIgnore: string | undefined;
}

/** HISTIGNORE for a shell that starts. */
export const STARTUP_HISTIGNORE = '*';

/**
 * The first lines for a new shell: its channels; no history of these lines, no history expansion, no logout for want of input; start-up
 * files as an interactive bash reads them; then the preamble.
 */
export function setupLines({ preamble, hasStartupFiles, historyIgnore }: SetupOptions): string {
  const channels = [
    closingOnExec(EXPORTS_FD, 7),
    closingOnExec(REPORT_FD, 8),
    closingOnExec(TERMINAL_FD, 9),
    'exec 6<>/dev/null',
    closingOnExec(NULL_FD, 6),
    'exec 6>&- 7>&- 8>&- 9>&- 2>&1\n',
  ].join('; ');
  const settings = 'set +o history +H\nunset TMOUT\n';
  const files = hasStartupFiles ? ['/etc/bash.bashrc', '~/.bashrc'] : [];
  const sources = files.map((file) => `[ -r ${file} ] && \\builtin . ${file} ${STARTUP_REDIRECTIONS}\n`).join('');
  const restored = historyIgnore === undefined ? 'unset HISTIGNORE' : `export HISTIGNORE=${quote(historyIgnore)}`;
  const ignore = `[ "$HISTIGNORE" = '${STARTUP_HISTIGNORE}' ] && ${restored}\n`;
  // Twice, since start-up files may have undone it.
  return `${channels}${settings}${sources}${settings}${ignore}\\builtin eval ${quote(preamble)} ${STARTUP_REDIRECTIONS}\n`;
}

/** Text for bash that evaluates to exactly `text`; a `!` in it never meets history expansion. */
export function quote(text: string): string {
  return `$'${text.replace(/[\\'!\n\r]/g, (character) => QUOTED[character] ?? character)}'`;
}

const QUOTED: Readonly<Record<string, string>> = { '\\': '\\\\', "'": "\\'", '!': '\\x21', '\n': '\\n', '\r': '\\r' };

/** What to do around a command. */
export interface CommandOptions {
  /** Unguessable; comes back in the report and in the terminal barrier. */
  readonly token: string;
  /** `$?` that the command finds, when not 0. */
  readonly status: number;
  readonly isRemembered: boolean;
  /** Whether something was typed that no program may have read: then it is thrown away first. */
  readonly hasTypeAhead: boolean;
}

/**
 * The line that runs one command and reports. Whatever unwinds bash to its prompt, an interrupt or an error in an expansion, takes the
 * report with it: then `reportLine` asks for it. One line is one prompt, which start-up files may have made costly (PROMPT_COMMAND).
 */
export function commandLine(command: string, options: CommandOptions): string {
  const { token, status } = options;
  const quoted = quote(command);
  const steps = [
    // A command may have switched it off.
    '\\builtin enable eval',
    `\\builtin printf '${BEGUN}${token}\\000' >&${REPORT_FD}`,
    ...(options.hasTypeAhead ? [DISCARD_TYPE_AHEAD] : []),
    ...(options.isRemembered ? [`\\builtin history -s -- ${quoted}`] : []),
    // On the left of `||` a failure sets `$?` without ending a shell that has errexit, and without its ERR trap.
    `${status === 0 ? '' : `(\\builtin exit ${status}) || `}\\builtin eval -- ${quoted} ${COMMAND_REDIRECTIONS}`,
  ];
  return `${steps.join('; ')}; ${reportLine(token, true)}`;
}

/**
 * Reads what is there, an unfinished line too, without an echo even of what the terminal has yet to take in. In a subshell, so that no
 * variable is set, and which no interrupt among it ends.
 */
const DISCARD_TYPE_AHEAD = [
  "(\\builtin trap '' INT QUIT TSTP",
  'state=$(\\command stty -g) && \\command stty -echo -icanon',
  'while \\builtin read -rs -n 4096 -t 0.01; do :; done',
  `\\command stty "$state") <&${TERMINAL_FD}`,
].join('; ');

/**
 * Asks for the report alone. It must not begin with a reserved word, which bash 5.2 does not recognise after a syntax error inside
 * `eval`.
 * @param hasExports whether the exported variables are kept first: not when only asked besides, a kill could then cut them off
 */
export function reportLine(token: string, hasExports = false): string {
  const keepExports = hasExports ? `\\builtin declare -px >|/proc/self/fd/${EXPORTS_FD}; ` : '';
  const fields = '"$?" "${!-}" "${PWD-}" "$-" "${PATH-}"';
  const report = `\\builtin printf '${token}\\000%s\\000%s\\000%s\\000%s\\000%s\\000' ${fields} >&${REPORT_FD}`;
  // What bash would tell at its prompt, where nobody sees it.
  const jobs = `\\builtin jobs -n >&${REPORT_FD}; \\builtin printf '\\000' >&${REPORT_FD}`;
  return `${report}; ${jobs}; ${keepExports}${barrierLine(token)}`;
}

/** Writes the bytes to the terminal after which no output of the command follows. */
export function barrierLine(token: string): string {
  return `\\builtin printf '\\e]${token}\\a' >&${TERMINAL_FD}\n`;
}

/** Takes the report pipe's text apart. */
export class ReportReader {
  /** The last one is unfinished. */
  #fields: string[] = [''];

  #reported = '';

  /** Token of the command that was begun last. */
  begun = '';

  /** @returns the reports that are complete with this text, by token */
  read(text: string): Map<string, ShellReport> {
    const [first = '', ...rest] = text.split('\0');
    this.#fields[this.#fields.length - 1] += first;
    this.#fields.push(...rest);
    // What a command itself writes there ends nowhere; a report that goes with it is asked for again.
    if ((this.#fields.at(-1) ?? '').length > MAX_FIELD_CHARS) this.#fields = [''];
    const reports = new Map<string, ShellReport>();
    while (this.#takeBegun() || this.#fields.length > REPORT_FIELDS) {
      if (this.#fields.length <= REPORT_FIELDS) continue;
      const [token = '', ...values] = this.#fields.splice(0, REPORT_FIELDS);
      // A report that was asked for besides comes later, perhaps in another piece, and knows less.
      if (token === this.#reported) continue;
      this.#reported = token;
      reports.set(token, parseReport(values));
    }
    return reports;
  }

  #takeBegun(): boolean {
    const [first = '', second] = this.#fields;
    if (second === undefined || !first.startsWith(BEGUN)) return false;
    this.begun = first.slice(BEGUN.length);
    this.#fields.shift();
    return true;
  }
}

function parseReport(fields: readonly string[]): ShellReport {
  const [exitCode = '', backgroundPid = '', pwd = '', options = '', path = '', jobs = ''] = fields;
  return {
    exitCode: integer(exitCode),
    backgroundPid: integer(backgroundPid),
    pwd,
    options,
    path,
    jobs: jobs.replace(RUNNING_JOBS, ''),
  };
}

/** A job that was begun counts as news for bash; the command's own output tells it already. Its text may have several lines. */
const RUNNING_JOBS = /^\[\d+\][+-]? +Running (?:.*\n)(?:(?!\[\d+\]).*\n)*/gm;

function integer(text: string): number {
  return /^\d+$/.test(text) ? Number(text) : -1;
}
