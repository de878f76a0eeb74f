import { spawnSync } from 'node:child_process';
import {
  chownSync,
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readSync,
  rmSync,
  write,
} from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { type IPty, spawn } from 'node-pty';
import {
  descriptorTarget,
  hasChildren,
  isInteractiveShell,
  isProcessAlive,
  type ProcessInfo,
  readProcess,
  signalProcess,
} from '../../src/sandbox/processes.ts';
import { processRoom } from '../../src/sandbox/process-room.ts';
import { makeExpendable } from '../../src/sandbox/out-of-memory.ts';
import { Barriers } from './barriers.ts';
import { CommandPipe } from './command-pipe.ts';
import {
  barrierLine,
  commandLine,
  launchArguments,
  PIPES_MADE,
  REPORT_FD,
  ReportReader,
  reportLine,
  setupLines,
  type ShellFiles,
  type ShellReport,
  STARTUP_HISTIGNORE,
} from './wire.ts';

export interface ShellOptions {
  /** Must exist; the caller falls back to another directory. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Account to switch to; undefined keeps the server's own. */
  readonly account: { readonly uid: number; readonly gid: number; readonly name: string } | undefined;
  /** Directory for the pipes' names, which exist only while the shell starts. */
  readonly runtimeDir: string;
  readonly columns: number;
  readonly rows: number;
  /** Shell text run once, after the start-up files; its output is not shown. */
  readonly preamble: string;
  /** Whether /etc/bash.bashrc and ~/.bashrc are read. */
  readonly hasStartupFiles: boolean;
  readonly onOutput: (chunk: Buffer) => void;
}

/** How a command, or the shell with it, ended. */
export type ShellOutcome =
  | { readonly kind: 'reported'; readonly report: ShellReport }
  /** `isCutOff`: it lived, but could not be given commands any more, as after `exec bash`; it was ended. */
  | { readonly kind: 'ended'; readonly exitCode: number; readonly isCutOff?: boolean }
  /** Something at the prompt, such as a PROMPT_COMMAND that reads or never ends, took the command's line: it was not run. */
  | { readonly kind: 'lost'; readonly report: ShellReport | undefined };

/** Start-up files that take longer are interrupted. */
const STARTUP_LIMIT_MS = 10_000;
/** What node-pty says on the terminal when there is no such program, or none that may be run. */
const EXEC_FAILURE = /execvp\(3\) failed\.: ([^\r\n]*)/;
/**
 * After the report, the rest of the output is on its way: when for so long none of it came, something keeps the terminal from passing it
 * on. As long as some comes, it is waited for so many times: behind a background job that floods, the barrier may be missing.
 */
const BARRIER_LIMIT_MS = 1000;
const BARRIER_WAITS = 10;
/** For the echo of keys that were typed when the command had already ended. */
const ECHO_LIMIT_MS = 200;
const ECHO_ATTEMPTS = 3;
/** When the shell is looked at to see whether it is back at its prompt without having reported: soon, then more rarely (one look costs microseconds). */
const FIRST_LOOK_MS = 10;
const LAST_LOOK_MS = 250;
/** A shell that idles at its prompt for so long has lost the command, or the question for its report. */
const ASK_AGAIN_MS = 400;
const ASK_AGAIN_LOOKS = 4;
/** One that has begun the command and reads its pipe: once may be just before its report. */
const UNWOUND_LOOKS = 2;
/** A shell that was asked for its report and does nothing for so long cannot give it; one that has children may be at a slow prompt. */
const IDLE_REPORT_LIMIT_MS = 2000;
const BUSY_REPORT_LIMIT_MS = 8000;
/** A shell that waits for the user, not for the server, for so long is taken for cut off. */
const CUT_OFF_MS = 500;
const INPUT_RETRY_MS = 10;
const STTY_LIMIT_MS = 1000;
/** What a terminal takes without anybody reading it, about. */
const TERMINAL_INPUT_BYTES = 3500;
/** Input that the program does not read: beyond this it is refused. */
const MAX_INPUT_QUEUE_BYTES = 1024 * 1024;

/** Of what stands in a terminal when it is closed: more than its buffers take comes from a background job that goes on. */
const MAX_REST_BYTES = 1024 * 1024;
/** More is never given at once. */
const TERMINAL_READ_BYTES = 4096;

const REPORT_BUFFER_BYTES = 64 * 1024;
/** Of what a shell that does not start says. */
const MAX_STARTUP_TEXT = 1000;
/** A larger environment is not carried over whole. */
const MAX_EXPORTS_BYTES = 4 * 1024 * 1024;

/** One that the image must have. */
interface Program {
  readonly file: string;
  readonly package: string;
}

const BASH: Program = { file: '/bin/bash', package: 'bash' };
const SWITCHER: Program = { file: 'setpriv', package: 'util-linux' };

/** No process can be started any more. */
export class NoProcessLeftError extends Error {
  constructor() {
    super(
      'no more processes can be started: the limit of the sandbox (docker run --pids-limit, ulimit -u) is reached. End some',
    );
  }
}

/** What bash says, in every language, before it waits and tries again; it does so for longer than anybody would wait. */
const FORK_FAILURE = ': fork: retry: ';

interface Running {
  readonly token: string;
  readonly isCommand: boolean;
  readonly finish: (outcome: ShellOutcome) => void;
  report: ShellReport | undefined;
  isBarrierSeen: boolean;
  nextLookMs: number;
  /** Since when it has been seen at the prompt, doing nothing there, or cut off. */
  promptSince: number | undefined;
  idleSince: number | undefined;
  /** How often in a row it was seen asleep at the prompt: on a busy machine two looks can be far apart, with much between them. */
  asleepLooks: number;
  /** Bytes of commands that it had not taken yet at the last look. */
  untakenBytes: number;
  cutOffSince: number | undefined;
  /** Whether the report was asked for; an interrupt may throw the question away. */
  isAsked: boolean;
  timer: NodeJS.Timeout | undefined;
}

/** One interactive bash on a terminal of its own. It runs one command at a time. */
export class Shell {
  readonly #options: ShellOptions;
  readonly #pty: IPty;
  readonly #commands: CommandPipe;
  readonly #reports: Socket;
  readonly #reportPipe: number;
  readonly #decoder = new StringDecoder('utf8');
  readonly #reader = new ReportReader();
  readonly #input: Buffer[] = [];
  #inputBytes = 0;
  /** During the running command. */
  #typedBytes = 0;
  #isWriting = false;
  /** Keys that a program in raw mode gets as they are. */
  readonly #plainKeys = new WeakSet<Buffer>();
  #running: Running | undefined;
  readonly #barriers = new Barriers();
  /** Waits for a barrier of its own. */
  #echoes: { readonly token: string; readonly seen: () => void } | undefined;
  #status = 0;
  #hasTypeAhead = false;
  #isCutOff = false;
  #isPaused = false;
  /** Pieces of output so far. */
  #chunks = 0;
  #exit: number | undefined;
  readonly #pipeName: string;
  readonly #exports: number;
  #lastExports = '';
  readonly #exited: Promise<number>;

  private constructor(options: ShellOptions, pty: IPty, pipes: Pipes) {
    this.#options = options;
    this.#pty = pty;
    this.#pipeName = pipes.directory;
    this.#exports = pipes.exports;
    this.#commands = new CommandPipe(pipes.command);
    this.#reports = new Socket({ fd: pipes.report, readable: true, writable: false });
    this.#reports.on('error', () => this.#reports.destroy());
    this.#reportPipe = pipes.report;
    this.#reports.on('data', (chunk) => this.#onReports(this.#decoder.write(chunk)));
    // node-pty's types know only strings; with a null encoding it hands over buffers.
    pty.onData((chunk) => this.#onOutput(chunk as unknown as Buffer));
    this.#readRestBeforeClose();
    this.#exited = new Promise((resolve) => {
      pty.onExit(({ exitCode, signal }) => resolve(this.#onExit(signal ? 128 + signal : exitCode)));
    });
  }

  /** Starts bash and waits until it takes commands. Rejects when it cannot be started or ends at once. */
  static async start(options: ShellOptions): Promise<Shell> {
    const files = makeFiles(options);
    let pty: IPty | undefined;
    let shell: Shell | undefined;
    try {
      pty = spawnBash(options, files);
      await pipesMade(pty, options.account ? SWITCHER : BASH);
      shell = new Shell(options, pty, openPipes(files));
      await shell.#setUp();
      return shell;
    } catch (error) {
      pty?.kill('SIGKILL');
      if (!shell) closeSync(files.exports);
      throw error;
    } finally {
      rmSync(files.directory, { recursive: true, force: true });
    }
  }

  get pid(): number {
    return this.#pty.pid;
  }

  /** False as soon as the process is gone, which may be a moment before `exited` resolves. */
  get isAlive(): boolean {
    if (this.#exit !== undefined) return false;
    return isProcessAlive(this.pid);
  }

  /** Exported variables as shell text, for a successor. */
  get exports(): string {
    return this.#exit === undefined ? readAll(this.#exports) : this.#lastExports;
  }

  /** Resolves with the exit code when bash is gone: 128 plus the number of a signal. */
  get exited(): Promise<number> {
    return this.#exited;
  }

  /** Runs a command; its output has all gone to `onOutput` when this resolves. Never rejects. */
  run(command: string, isRemembered: boolean): Promise<ShellOutcome> {
    const token = this.#barriers.newToken();
    const hasTypeAhead = this.#hasTypeAhead;
    this.#hasTypeAhead = false;
    return this.#await(token, commandLine(command, { token, status: this.#status, isRemembered, hasTypeAhead }));
  }

  /** Types bytes on the terminal. @returns false when the program has not read what it got before and no more fits */
  type(bytes: Buffer): boolean {
    const isStuck = this.#input.length > 0 || this.#typedBytes > TERMINAL_INPUT_BYTES;
    if (isStuck && this.#signalInstead(bytes)) return true;
    if (this.#inputBytes + bytes.length > MAX_INPUT_QUEUE_BYTES) return false;
    this.#input.push(bytes);
    this.#inputBytes += bytes.length;
    this.#typedBytes += bytes.length;
    this.#hasTypeAhead = true;
    this.#writeInput();
    this.#lookSoon();
    return true;
  }

  /**
   * Resolves when what the terminal echoes of typed keys has gone to `onOutput`, while no command runs: keys that came too late for a
   * command would show in the output of the next one.
   */
  async echoed(): Promise<void> {
    for (let attempt = 0; attempt < ECHO_ATTEMPTS && this.isAlive; attempt += 1) {
      if (await this.#isEchoed()) return;
    }
  }

  /** @returns whether there is something in the foreground beside the shell, which has got the signal then */
  signalForeground(signal: NodeJS.Signals): boolean {
    const group = this.#foregroundGroup();
    if (group === undefined) return false;
    signalProcess(-group, signal);
    this.#lookSoon();
    return true;
  }

  /** Whether it reads its next command, whatever became of the one before. */
  get isAtPrompt(): boolean {
    return descriptorTarget(this.pid, 0)?.startsWith(this.#pipeName) === true;
  }

  /** The process group that owns the terminal, undefined when it is the shell's own. */
  #foregroundGroup(): number | undefined {
    const info = readProcess(this.pid);
    return info && info.foreground > 1 && info.foreground !== info.group ? info.foreground : undefined;
  }

  /** Stops or resumes reading the terminal, which stops a program that prints. */
  pause(): void {
    this.#isPaused = true;
    this.#pty.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#pty.resume();
  }

  /** Interrupts bash itself: a loop ends with the program that runs in it. */
  interrupt(): void {
    signalProcess(this.pid, 'SIGINT');
    this.#lookSoon();
  }

  /** Ends bash itself at once; what it started may live on. */
  kill(): void {
    signalProcess(this.pid, 'SIGKILL');
  }

  async #setUp(): Promise<void> {
    const lines = setupLines({ ...this.#options, historyIgnore: this.#options.env['HISTIGNORE'] });
    const interrupt = setTimeout(() => this.type(Buffer.from('\u0003')), STARTUP_LIMIT_MS);
    let isLate = false;
    const kill = setTimeout(() => {
      isLate = true;
      this.kill();
    }, 2 * STARTUP_LIMIT_MS);
    const token = this.#barriers.newToken();
    const outcome = await this.#await(token, lines + reportLine(token, true), false);
    clearTimeout(interrupt);
    clearTimeout(kill);
    if (outcome.kind === 'ended')
      throw new Error(startupEnd(outcome.exitCode, isLate ? 2 * STARTUP_LIMIT_MS : undefined, ''));
    if (outcome.kind !== 'reported') throw new Error('bash did not answer while it started');
    this.#status = 0;
  }

  #await(token: string, lines: string, isCommand = true): Promise<ShellOutcome> {
    if (this.#exit !== undefined) {
      const lost: ShellOutcome = { kind: 'lost', report: undefined };
      return Promise.resolve(isCommand ? lost : { kind: 'ended', exitCode: this.#exit });
    }
    return new Promise((resolve) => {
      const finish = (outcome: ShellOutcome): void => {
        clearTimeout(running.timer);
        // Nobody is left whom it was meant for.
        this.#dropInput();
        if (outcome.kind === 'reported' && outcome.report.jobs !== '') this.#tell(outcome.report.jobs);
        this.#running = undefined;
        if (outcome.kind === 'reported') this.#status = Math.max(0, outcome.report.exitCode);
        resolve(outcome);
      };
      const running: Running = {
        token,
        isCommand,
        finish,
        report: undefined,
        isBarrierSeen: false,
        nextLookMs: FIRST_LOOK_MS,
        promptSince: undefined,
        idleSince: undefined,
        asleepLooks: 0,
        untakenBytes: 0,
        cutOffSince: undefined,
        isAsked: false,
        timer: isCommand ? setTimeout(() => this.#look(), FIRST_LOOK_MS) : undefined,
      };
      this.#running = running;
      this.#typedBytes = 0;
      this.#commands.write(lines);
    });
  }

  /** False when an interrupt that came late has thrown the question away. */
  #isEchoed(): Promise<boolean> {
    const token = this.#barriers.newToken();
    return new Promise((resolve) => {
      const finish = (isSeen: boolean): void => {
        clearTimeout(timer);
        this.#echoes = undefined;
        resolve(isSeen);
      };
      const timer = setTimeout(() => finish(false), ECHO_LIMIT_MS);
      this.#echoes = { token, seen: () => finish(true) };
      this.#commands.write(barrierLine(token));
    });
  }

  #tell(lines: string): void {
    this.#options.onOutput(Buffer.from(lines.replaceAll('\n', '\r\n')));
  }

  #onReports(text: string): void {
    const report = this.#reader.read(text).get(this.#running?.token ?? '');
    const running = this.#running;
    if (!running || !report) return;
    if (running.isCommand && this.#reader.begun !== running.token) {
      running.finish({ kind: 'lost', report });
      return;
    }
    running.report = report;
    clearTimeout(running.timer);
    if (running.isBarrierSeen) running.finish({ kind: 'reported', report });
    else this.#awaitBarrier(running, report, BARRIER_WAITS);
  }

  #awaitBarrier(running: Running, report: ShellReport, waits: number): void {
    const before = this.#chunks;
    const decide = (): void => {
      if (this.#running !== running) return;
      if (this.#isPaused) this.#awaitBarrier(running, report, waits);
      else if (this.#chunks !== before && waits > 1) this.#awaitBarrier(running, report, waits - 1);
      else running.finish({ kind: 'reported', report });
    };
    // After a turn of the loop that was long, timers come before what has arrived meanwhile.
    running.timer = setTimeout(() => setImmediate(decide), BARRIER_LIMIT_MS);
  }

  #onOutput(chunk: Buffer): void {
    this.#chunks += 1;
    for (const part of this.#barriers.split(chunk)) {
      if (typeof part === 'string') this.#onBarrier(part);
      else this.#options.onOutput(part);
    }
  }

  /**
   * When the last program has left the terminal, libuv takes what one read gives for the end, and node-pty closes a terminal 200 ms after
   * its shell has ended, read or not: what then still stands in it is read first.
   */
  #readRestBeforeClose(): void {
    const { _socket: socket } = this.#pty as IPty & { readonly _socket: Socket };
    const destroy = socket.destroy.bind(socket);
    socket.destroy = (error?: Error): Socket => {
      if (!socket.destroyed) this.#readRest(socket);
      return destroy(error);
    };
  }

  #readRest(socket: Socket): void {
    // What the stream has read already goes to `onData` with that.
    while (socket.read() !== null);
    const terminal = terminalDescriptor(this.#pty);
    try {
      for (let total = 0; total < MAX_REST_BYTES;) {
        const buffer = Buffer.allocUnsafe(TERMINAL_READ_BYTES);
        const count = readSync(terminal, buffer, 0, buffer.length, null);
        if (count === 0) return;
        this.#onOutput(buffer.subarray(0, count));
        total += count;
      }
    } catch {
      // EAGAIN, or EIO when nobody holds the other side any more: that was all.
    }
  }

  #onBarrier(token: string): void {
    if (token === this.#echoes?.token) this.#echoes.seen();
    const running = this.#running;
    if (token !== running?.token) return;
    running.isBarrierSeen = true;
    const { report } = running;
    if (report) running.finish({ kind: 'reported', report });
  }

  #onExit(exitCode: number): number {
    this.#drainReports();
    this.#exit = exitCode;
    this.#lastExports = readAll(this.#exports);
    closeSync(this.#exports);
    const rest = this.#barriers.rest();
    if (rest) this.#options.onOutput(rest);
    this.#commands.destroy();
    this.#reports.destroy();
    this.#running?.finish(this.#endOf(this.#running, exitCode));
    return exitCode;
  }

  /** The end may be told before what the shell said last: whether it had begun a command decides whether that is run again. */
  #drainReports(): void {
    if (this.#reports.destroyed) return;
    const buffer = Buffer.alloc(REPORT_BUFFER_BYTES);
    try {
      for (let count = 1; count > 0;) {
        count = readSync(this.#reportPipe, buffer, 0, buffer.length, null);
        this.#onReports(this.#decoder.write(buffer.subarray(0, count)));
      }
    } catch {
      // EAGAIN: that was all.
    }
  }

  #endOf(running: Running, exitCode: number): ShellOutcome {
    if (this.#isCutOff) return { kind: 'ended', exitCode: 0, isCutOff: true };
    const hasBegun = !running.isCommand || this.#reader.begun === running.token;
    return hasBegun ? { kind: 'ended', exitCode } : { kind: 'lost', report: undefined };
  }

  /** Looks whether the shell is where it can no longer report by itself. */
  #look(): void {
    const running = this.#running;
    if (!running) return;
    const info = readProcess(this.pid);
    // Nobody else would wake a shell that stopped itself.
    if (info?.state === 'T') signalProcess(this.pid, 'SIGCONT');
    const now = performance.now();
    if (this.isAtPrompt) this.#lookAtPrompt(running, info, now);
    else {
      running.promptSince = running.idleSince = undefined;
      running.asleepLooks = 0;
      running.isAsked = false;
      if (descriptorTarget(this.pid, 0) !== undefined) this.#lookWhetherCutOff(running, info, now);
    }
    running.timer = setTimeout(() => this.#look(), running.nextLookMs);
    running.nextLookMs = Math.min(LAST_LOOK_MS, running.nextLookMs * 2);
  }

  /**
   * A shell that reads its command pipe again without having reported was unwound to its prompt, or cannot report (restricted mode):
   * ask once more, then give it up. One that has not begun may be at a slow prompt: each question would cost it another prompt.
   */
  #lookAtPrompt(running: Running, info: ProcessInfo | undefined, now: number): void {
    // A command of many megabytes takes its time to be read.
    const { untakenBytes } = this.#commands;
    if (untakenBytes < running.untakenBytes) running.promptSince = running.idleSince = undefined;
    running.untakenBytes = untakenBytes;
    const promptMs = now - (running.promptSince ??= now);
    const isAsleep = info?.state === 'S';
    const isIdle = isAsleep && !hasChildren(this.pid);
    const idleMs = isIdle ? now - (running.idleSince ??= now) : 0;
    running.asleepLooks = isAsleep ? running.asleepLooks + 1 : 0;
    if (!isIdle) running.idleSince = undefined;
    const hasBegun = !running.isCommand || this.#reader.begun === running.token;
    if (promptMs > BUSY_REPORT_LIMIT_MS || (running.isAsked && idleMs > IDLE_REPORT_LIMIT_MS)) this.kill();
    else if (
      !running.isAsked &&
      (hasBegun
        ? running.asleepLooks >= UNWOUND_LOOKS
        : running.asleepLooks >= ASK_AGAIN_LOOKS && idleMs > ASK_AGAIN_MS)
    ) {
      running.isAsked = true;
      running.idleSince = undefined;
      this.#commands.write(reportLine(running.token));
    }
  }

  /** Another shell in its place, or one that closed its own descriptors, would wait for a user for ever. */
  #lookWhetherCutOff(running: Running, info: ProcessInfo | undefined, now: number): void {
    const isCutOff =
      descriptorTarget(this.pid, REPORT_FD) === undefined &&
      info?.state === 'S' &&
      info.foreground === info.group &&
      isInteractiveShell(this.pid) &&
      !hasChildren(this.pid);
    if (!isCutOff) running.cutOffSince = undefined;
    else if (now - (running.cutOffSince ??= now) > CUT_OFF_MS) {
      this.#isCutOff = true;
      this.kill();
    }
  }

  /** Something has just happened that may end the command: do not wait for the next regular look. */
  #lookSoon(): void {
    const running = this.#running;
    if (!running || running.timer === undefined || running.report) return;
    clearTimeout(running.timer);
    running.nextLookMs = FIRST_LOOK_MS;
    running.isAsked = false;
    running.timer = setTimeout(() => this.#look(), FIRST_LOOK_MS);
  }

  #writeInput(): void {
    const next = this.#input[0];
    if (this.#isWriting || next === undefined || this.#exit !== undefined) return;
    this.#isWriting = true;
    // Not through node-pty: it spins on EAGAIN while the program does not read.
    write(terminalDescriptor(this.#pty), next, (error, written) => {
      this.#isWriting = false;
      if (this.#exit !== undefined || this.#input[0] !== next) {
        this.#writeInput();
        return;
      }
      if (error && error.code !== 'EAGAIN') {
        this.#dropInput();
        return;
      }
      const done = error ? 0 : written;
      this.#inputBytes -= done;
      if (done === next.length) this.#input.shift();
      else this.#input[0] = next.subarray(done);
      if (done > 0) this.#writeInput();
      else if (!this.#signalInstead(next)) setTimeout(() => this.#writeInput(), INPUT_RETRY_MS).unref();
    });
  }

  #dropInput(): void {
    this.#input.length = 0;
    this.#inputBytes = 0;
  }

  /**
   * A key that is a signal would wait in the terminal behind input that nobody reads: it is sent as that signal, and the input
   * is thrown away as far as it can be.
   * @returns false when it is another key, or no signal to the program: ssh and editors want the key itself
   */
  #signalInstead(bytes: Buffer): boolean {
    const signal = bytes.length === 1 ? SIGNAL_KEYS.get(bytes[0] ?? 0) : undefined;
    if (signal === undefined || this.#plainKeys.has(bytes)) return false;
    if (!makesSignals(terminalDescriptor(this.#pty), this.#options.env)) {
      this.#plainKeys.add(bytes);
      return false;
    }
    this.#dropInput();
    this.#hasTypeAhead = true;
    const group = this.#foregroundGroup();
    signalProcess(group === undefined ? this.pid : -group, signal);
    this.#lookSoon();
    return true;
  }
}

/** C-c, C-z, C-\\ as the terminal's line discipline takes them. */
const SIGNAL_KEYS: ReadonlyMap<number, NodeJS.Signals> = new Map([
  [0x03, 'SIGINT'],
  [0x1a, 'SIGTSTP'],
  [0x1c, 'SIGQUIT'],
]);

/** Whether the terminal makes signals of keys (ISIG), which raw mode switches off. */
function makesSignals(terminal: number, env: Readonly<Record<string, string>>): boolean {
  const { stdout } = spawnSync('stty', ['-a'], {
    env,
    stdio: [terminal, 'pipe', 'ignore'],
    timeout: STTY_LIMIT_MS,
    encoding: 'utf8',
  });
  return !/(?:^|\s)-isig\b/.test(stdout ?? '');
}

/** Named only while the shell starts. */
interface Files extends ShellFiles {
  readonly directory: string;
  readonly exports: number;
}

interface Pipes extends Files {
  readonly command: number;
  readonly report: number;
}

function makeFiles({ runtimeDir, account }: ShellOptions): Files {
  // A command may have emptied /tmp.
  mkdirSync(runtimeDir, { recursive: true, mode: 0o711 });
  const directory = mkdtempSync(join(runtimeDir, 'shell-'));
  const [commandPipe, reportPipe, exportsFile] = ['commands', 'reports', 'exports'].map((name) =>
    join(directory, name),
  ) as [string, string, string];
  const exports = openSync(exportsFile, 'wx+', 0o600);
  if (account) for (const path of [directory, exportsFile]) chownSync(path, account.uid, account.gid);
  return { directory, commandPipe, reportPipe, exportsFile, exports };
}

/**
 * Resolves when bash has made its pipes; rejects when it ends before, with what it said.
 *
 * @param program what is executed first
 */
function pipesMade(pty: IPty, program: Program): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = '';
    let lateMs: number | undefined;
    const timer = setTimeout(() => {
      lateMs = STARTUP_LIMIT_MS;
      pty.kill('SIGKILL');
    }, STARTUP_LIMIT_MS);
    const listeners = [
      pty.onData((chunk) => {
        said = (said + chunk).slice(-MAX_STARTUP_TEXT);
        if (said.includes(FORK_FAILURE)) pty.kill('SIGKILL');
        if (!said.includes(PIPES_MADE)) return;
        finish();
        resolve();
      }),
      pty.onExit(({ exitCode, signal }) => {
        finish();
        if (said.includes(FORK_FAILURE)) return reject(new NoProcessLeftError());
        const refused = EXEC_FAILURE.exec(said)?.[1];
        if (refused === undefined) reject(new Error(startupEnd(signal ? 128 + signal : exitCode, lateMs, said)));
        else reject(new Error(`${program.file} cannot be executed (${refused}): install ${program.package}`));
      }),
    ];
    const finish = (): void => {
      clearTimeout(timer);
      for (const listener of listeners) listener.dispose();
    };
  });
}

function startupEnd(exitCode: number, lateMs: number | undefined, said: string): string {
  const text = said.replaceAll(/\s+/g, ' ').trim();
  const why = lateMs === undefined ? endingOf(exitCode) : `not ready within ${lateMs / 1000} s`;
  return `bash ended while it started (${why})${text === '' ? '' : `: ${text}`}`;
}

function endingOf(exitCode: number): string {
  return exitCode > 128 ? `killed by signal ${exitCode - 128}` : `exit code ${exitCode}`;
}

/** Opened for both ways, a pipe neither blocks here nor ends when the other side closes it. */
function openPipes(files: Files): Pipes {
  const flags = constants.O_RDWR | constants.O_NONBLOCK;
  const command = openSync(files.commandPipe, flags);
  try {
    return { ...files, command, report: openSync(files.reportPipe, flags) };
  } catch (error) {
    closeSync(command);
    throw error;
  }
}

function readAll(descriptor: number): string {
  const buffer = Buffer.alloc(Math.min(MAX_EXPORTS_BYTES, fstatSync(descriptor).size));
  return buffer.toString('utf8', 0, readSync(descriptor, buffer, 0, buffer.length, 0));
}

function spawnBash(options: ShellOptions, files: ShellFiles): IPty {
  const { account, cwd, env, columns, rows } = options;
  const args = launchArguments(files);
  const switched = account
    ? [SWITCHER.file, `--reuid=${account.uid}`, `--regid=${account.gid}`, '--init-groups', '--', BASH.file, ...args]
    : [BASH.file, ...args];
  const [file = '', ...rest] = switched;
  const pty = spawnOnTerminal(file, rest, {
    cwd,
    env: { ...env, HISTIGNORE: STARTUP_HISTIGNORE },
    cols: columns,
    rows,
    name: env['TERM'] ?? 'xterm-256color',
    encoding: null,
  });
  makeExpendable(pty.pid);
  if (account) giveTerminal(pty, account.uid, account.gid);
  return pty;
}

/** node-pty takes a thread for each terminal, and ends the whole server where there is none left for it. */
const MIN_PROCESS_ROOM = 8;

const spawnOnTerminal: typeof spawn = (...args) => {
  if ((processRoom() ?? Infinity) < MIN_PROCESS_ROOM) throw new NoProcessLeftError();
  try {
    return spawn(...args);
  } catch (error) {
    if (error instanceof Error && error.message.startsWith('forkpty')) throw new NoProcessLeftError();
    throw error;
  }
};

/** The user must be able to open the terminal by its name. */
function giveTerminal(pty: IPty, uid: number, gid: number): void {
  const { ptsName } = pty as IPty & { readonly ptsName?: string };
  if (ptsName) chownSync(ptsName, uid, gid);
}

function terminalDescriptor(pty: IPty): number {
  return (pty as IPty & { readonly fd: number }).fd;
}
