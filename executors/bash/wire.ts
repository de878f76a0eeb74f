/**
 * What is said to the shell and how its reports read.
 *
 * Bash reads these lines from a pipe, not from the terminal: its own stdin is the pipe, its stdout and stderr are /dev/null, and
 * only the evaluated command is connected to the terminal. So nothing here is echoed, edited, expanded or put into the history,
 * prompts and traces of these lines are never seen, and text left over on the terminal is never run as a command.
 */

/** Descriptors in the shell: the report pipe and the terminal. High enough for scripts not to use them, below 50-63 (process substitution). */
const REPORT_FD = 44;
const TERMINAL_FD = 45;

/** Descriptors are closed in the command, so no child inherits them; bash puts them back afterwards, whatever the command did to 0, 1, 2. */
const COMMAND_REDIRECTIONS = `<&${TERMINAL_FD} >&${TERMINAL_FD} 2>&${TERMINAL_FD} ${REPORT_FD}>&- ${TERMINAL_FD}>&-`;

/** Kinds of frames on the report pipe. Fields end with NUL, which no value of bash can contain. */
const REPORT = 'R';
const EXPORTS = 'X';
const FIELDS_AFTER_KIND: Readonly<Record<string, number>> = { [REPORT]: 6, [EXPORTS]: 1 };

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
}

/** Arguments for `/bin/sh` that turn it into the shell of a session; the pipes are opened here and can be unlinked afterwards. */
export function launchArguments(commandPipe: string, reportPipe: string): string[] {
  const script =
    'echo 300 2>/dev/null >/proc/self/oom_score_adj; exec 8>"$1" 9<&1 <"$0"; exec /bin/bash --noediting --norc -i';
  return ['-c', script, commandPipe, reportPipe];
}

/** Nothing is connected to the terminal while start-up files run: what they print is not output of a command. */
const STARTUP_REDIRECTIONS = `</dev/null ${REPORT_FD}>&- ${TERMINAL_FD}>&-`;

/**
 * The first lines for a new shell: its channels; no history of these lines, no history expansion, no logout for want of input; start-up
 * files as an interactive bash reads them; then the preamble.
 */
export function setupLines({ preamble, hasStartupFiles }: { preamble: string; hasStartupFiles: boolean }): string {
  const channels = `exec ${REPORT_FD}>&8 ${TERMINAL_FD}<&9 8>&- 9<&- >/dev/null 2>&1\nset +o history +H\nunset TMOUT\n`;
  const files = hasStartupFiles ? ['/etc/bash.bashrc', '~/.bashrc'] : [];
  const sources = files.map((file) => `[ -r ${file} ] && \\builtin . ${file} ${STARTUP_REDIRECTIONS}\n`).join('');
  // Start-up files may have set them again.
  const again = 'set +o history +H\nunset TMOUT\n';
  return `${channels}${sources}${again}\\builtin eval ${quote(preamble)} ${STARTUP_REDIRECTIONS}\n`;
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
}

/**
 * The lines that run one command and report. The report stands on a line of its own: an interrupt unwinds the command's line to the
 * prompt, and bash goes on with the next one. It must not begin with a reserved word, which bash 5.2 does not recognise after a
 * syntax error inside `eval`.
 */
export function commandLines(command: string, { token, status, isRemembered }: CommandOptions): string {
  const quoted = quote(command);
  const history = isRemembered ? `\\builtin history -s -- ${quoted}; ` : '';
  // On the left of `||` a failure sets `$?` without ending a shell that has errexit, and without its ERR trap.
  const setStatus = status === 0 ? '' : `(\\builtin exit ${status}) || `;
  return `${history}${setStatus}\\builtin eval ${quoted} ${COMMAND_REDIRECTIONS}\n${reportLine(token)}`;
}

/** Asks for the report alone, for a shell that is back at its prompt without having reported. */
export function reportLine(token: string): string {
  const fields = '"$?" "${!-}" "${PWD-}" "$-" "${PATH-}"';
  const report = `\\builtin printf '${REPORT}\\000${token}\\000%s\\000%s\\000%s\\000%s\\000%s\\000' ${fields} >&${REPORT_FD}`;
  const barrierText = `\\builtin printf '\\e]${token}\\a' >&${TERMINAL_FD}`;
  const exports =
    `\\builtin printf '${EXPORTS}\\000' >&${REPORT_FD}; \\builtin declare -px >&${REPORT_FD}; ` +
    `\\builtin printf '\\000' >&${REPORT_FD}`;
  return `${report}; ${barrierText}; ${exports}\n`;
}

/** The bytes on the terminal after which no output of the command follows. */
export function barrier(token: string): Buffer {
  return Buffer.from(`\u001b]${token}\u0007`, 'latin1');
}

/** Takes the report pipe's text apart. */
export class ReportReader {
  #pending: string[] = [''];
  #pendingChars = 0;

  /** Exported variables as `declare -x` lines, as of the last command that finished. */
  exports = '';

  /** @returns the reports that are complete with this text, by token */
  read(chunk: string): Map<string, ShellReport> {
    const parts = chunk.split('\0');
    this.#pending[this.#pending.length - 1] += parts[0] ?? '';
    this.#pending.push(...parts.slice(1));
    this.#pendingChars += chunk.length;
    const reports = new Map<string, ShellReport>();
    while (this.#takeFrame(reports));
    if (this.#pendingChars > MAX_PENDING_CHARS) this.#drop();
    return reports;
  }

  #takeFrame(reports: Map<string, ShellReport>): boolean {
    // The last element is an unfinished field.
    if (this.#pending.length < 2) return false;
    const count = FIELDS_AFTER_KIND[this.#pending[0] ?? ''];
    if (count === undefined) {
      this.#pending.shift();
      return true;
    }
    if (this.#pending.length < count + 2) return false;
    const [kind, first = '', ...rest] = this.#pending.splice(0, count + 1);
    if (kind === REPORT) reports.set(first, parseReport(rest));
    else this.exports = first;
    this.#pendingChars = this.#pending.reduce((sum, part) => sum + part.length, 0);
    return true;
  }

  #drop(): void {
    this.#pending = [''];
    this.#pendingChars = 0;
  }
}

/** An environment beyond this is not carried over into a new shell. */
const MAX_PENDING_CHARS = 8_000_000;

function parseReport(fields: readonly string[]): ShellReport {
  const [exitCode = '', backgroundPid = '', pwd = '', options = '', path = ''] = fields;
  return { exitCode: integer(exitCode), backgroundPid: integer(backgroundPid), pwd, options, path };
}

function integer(text: string): number {
  return /^\d+$/.test(text) ? Number(text) : -1;
}
