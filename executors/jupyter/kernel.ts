import { randomUUID } from 'node:crypto';
import { OomWatch } from '../../src/sandbox/out-of-memory.ts';
import { endProcesses, exitText, findByCommandLine, readProcess } from '../../src/sandbox/processes.ts';
import { KernelChannel } from './channel.ts';
import {
  type ExecuteRequest,
  executeRequest,
  isObject,
  type JsonObject,
  kernelInfoRequest,
  type KernelMessage,
  textOf,
} from './messages.ts';
import {
  authorization,
  deleteKernel,
  type Endpoint,
  interruptKernel,
  JupyterError,
  startKernel,
  UnreachableError,
} from './rest.ts';

export interface KernelOptions {
  readonly endpoint: Endpoint;
  /** Of the kernel specification, such as `python3`. */
  readonly name: string;
  /** Where a local kernel starts; absolute. */
  readonly directory: string | undefined;
  /** Whether its process is on this machine and ours to end. */
  readonly isLocal: boolean;
  readonly onProblem: (text: string) => void;
}

export type CellEnd =
  | {
      readonly kind: 'replied';
      readonly status: 'ok' | 'error' | 'aborted';
      readonly reply: JsonObject;
      /** Whether some of its output may have been lost on the way, with a connection that broke or in a message that cannot be read. */
      readonly isIncomplete: boolean;
    }
  /** The kernel has finished it, and its end was lost with a broken connection. */
  | { readonly kind: 'unknown' }
  /** It is gone, or its server is and nobody knows. */
  | { readonly kind: 'died'; readonly cause: string; readonly isServerGone: boolean };

/** One request at work. */
export interface Cell {
  readonly ended: Promise<CellEnd>;
}

interface Running {
  readonly onMessage: (message: KernelMessage) => void;
  readonly end: (end: CellEnd) => void;
  reply: JsonObject | undefined;
  isIdle: boolean;
  isIncomplete: boolean;
  isEnded: boolean;
}

/** How often a local kernel's process is looked at: while a cell runs, and otherwise. */
const BUSY_LOOK_MS = 100;
const IDLE_LOOK_MS = 1000;
/** What a dead kernel has sent has come through its server when nothing more came for so long, and the server answers. */
const LAST_OUTPUT_MS = 200;
/** For a server that does not answer, or goes on sending. */
const LAST_OUTPUT_LIMIT_MS = 5000;
/** Outputs may come so long after the reply, without a sign that any was lost. */
const IDLE_LIMIT_MS = 2000;
/** Questions whether a kernel has come to the end of what was asked before; more than this are not open at a time. */
const MAX_OPEN_QUESTIONS = 8;
/** A kernel that does not answer within this has failed to start. */
const READY_LIMIT_MS = 60_000;
const ASK_AGAIN_MS = 1000;
/** Cells whose late output, such as that of threads, is still told apart. */
const REMEMBERED_CELLS = 256;
const END_GRACE_MS = 300;

/** One kernel on a Jupyter server. It runs requests one after another, and can die. */
export class Kernel {
  readonly id: string;
  readonly name: string;
  readonly #options: KernelOptions;
  readonly #session = randomUUID();
  readonly #channel: KernelChannel;
  readonly #requests = new Map<string, Running>();
  readonly #died: Promise<string>;
  #die: (cause: string) => void = ignore;
  #isAlive = true;
  #isDying = false;
  #isServerGone = false;
  #pid: number | undefined;
  #watch: NodeJS.Timeout | undefined;
  #runningCells = 0;
  #openQuestions = 0;
  #questionTimer: NodeJS.Timeout | undefined;
  #received = 0;
  readonly #oomWatch = new OomWatch();

  /** From `kernel_info_reply`, such as `python`. */
  language = '';

  private constructor(options: KernelOptions, id: string) {
    this.id = id;
    this.name = options.name;
    this.#options = options;
    this.#died = new Promise((resolve) => (this.#die = resolve));
    // The connection file is named after the kernel, and every kernel is told its name.
    this.#pid = options.isLocal ? findByCommandLine(`kernel-${id}.json`) : undefined;
    const address = new URL(`${options.endpoint.url}/api/kernels/${encodeURIComponent(id)}/channels`);
    address.protocol = address.protocol === 'https:' ? 'wss:' : 'ws:';
    address.searchParams.set('session_id', this.#session);
    this.#channel = new KernelChannel({
      url: address.href,
      headers: authorization(options.endpoint),
      onMessage: (message) => this.#onMessage(message),
      onReconnect: () => {
        this.#missOutput();
        this.#resynchronize();
      },
      onLost: (reason, isServerGone) => {
        this.#isServerGone = isServerGone;
        this.#end(reason);
      },
      onProblem: (text) => {
        this.#missOutput();
        options.onProblem(text);
      },
    });
    this.#look();
  }

  /** Starts a kernel and waits until it answers. @throws JupyterError */
  static async start(options: KernelOptions): Promise<Kernel> {
    const { endpoint, name, isLocal, directory } = options;
    // The root of our own gateway is that of the file system.
    const path = isLocal ? directory?.replace(/^\/+/, '') : undefined;
    const kernel = new Kernel(options, await startKernel(endpoint, name, path));
    try {
      await kernel.#ready();
      return kernel;
    } catch (error) {
      await kernel.close();
      throw error;
    }
  }

  /** As it is now: a local kernel is looked at. */
  get isAlive(): boolean {
    this.#look();
    return this.#isAlive && !this.#isDying;
  }

  /** Resolves with the cause when it is gone. */
  get died(): Promise<string> {
    return this.#died;
  }

  /** Of a local kernel. */
  get pid(): number | undefined {
    return this.#pid;
  }

  /**
   * Runs code.
   * @param onMessage gets what belongs to it, in order, also what comes after its end
   */
  execute(request: ExecuteRequest, onMessage: (message: KernelMessage) => void): Cell {
    const { id, frame } = executeRequest(request, this.#session);
    this.#oomWatch.sawKill();
    return this.#send(id, frame, onMessage);
  }

  /** Asks the kernel to stop what it runs. @returns whether its server has answered; never rejects */
  async interrupt(): Promise<boolean> {
    try {
      await interruptKernel(this.#options.endpoint, this.id);
      return true;
    } catch (error) {
      this.#options.onProblem(`interrupt: ${error instanceof Error ? error.message : String(error)}`);
      return !(error instanceof UnreachableError);
    }
  }

  /** Stops reading output, so that the kernel's server has to keep it. */
  pause(): void {
    this.#channel.pause();
  }

  resume(): void {
    this.#channel.resume();
  }

  /** Ends the kernel at once, with everything it has started. */
  async kill(cause: string): Promise<void> {
    this.#end(cause);
    await this.#endProcess(0);
  }

  /** As {@link kill}, but it may say goodbye. */
  async close(): Promise<void> {
    this.#end('it was ended');
    await this.#endProcess(END_GRACE_MS);
  }

  /** The server is gone: nothing can be asked of it any more. */
  abandon(cause: string): void {
    void this.#endLater(cause);
  }

  async #endProcess(graceMs: number): Promise<void> {
    const pid = this.#pid;
    if (pid !== undefined) await endProcesses({ sessions: new Set([pid]), root: pid }, graceMs);
    const { endpoint, onProblem } = this.#options;
    // The server waits for the kernel to go; nobody has to wait with it.
    const deleted = deleteKernel(endpoint, this.id).catch((error: unknown) => {
      if (!(error instanceof JupyterError) || error.status !== 404) onProblem(`ending a kernel: ${String(error)}`);
    });
    if (pid === undefined) await Promise.race([deleted, this.#timer(END_GRACE_MS)]);
  }

  /** A kernel is ready when it has answered on both channels: before that, output could be lost. */
  async #ready(): Promise<void> {
    const started = performance.now();
    let isHeard = false;
    let answer: JsonObject | undefined;
    const answered = new Promise<void>((resolve) => {
      const ask = (): void => {
        if (!this.#isAlive || answer) return;
        const { id, frame } = kernelInfoRequest(this.#session);
        const { ended } = this.#send(id, frame, () => (isHeard = true));
        void ended.then((end) => {
          if (end.kind === 'replied' && isHeard) answer = end.reply;
          if (end.kind !== 'replied' || isHeard) resolve();
        });
        setTimeout(ask, ASK_AGAIN_MS).unref();
      };
      ask();
    });
    await Promise.race([answered, this.#timer(READY_LIMIT_MS)]);
    if (answer === undefined) {
      const why = this.#isAlive
        ? `did not answer within ${Math.round((performance.now() - started) / 1000)} s`
        : `ended while it started (${await this.#died})`;
      throw new JupyterError(`The kernel ${this.name} ${why}.`);
    }
    const language = answer['language_info'];
    this.language = isObject(language) ? textOf(language['name']) : '';
    for (const running of this.#requests.values()) this.#settle(running, { kind: 'unknown' });
    this.#requests.clear();
  }

  #timer(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms).unref());
  }

  #send(id: string, frame: string, onMessage: (message: KernelMessage) => void): Cell {
    let end: (end: CellEnd) => void = ignore;
    const ended = new Promise<CellEnd>((resolve) => (end = resolve));
    const running: Running = { onMessage, end, reply: undefined, isIdle: false, isIncomplete: false, isEnded: false };
    if (!this.#isAlive) {
      void this.#died.then((cause) => end(this.#deathOf(cause)));
      return { ended };
    }
    this.#requests.set(id, running);
    this.#forgetOldest();
    this.#runningCells += 1;
    this.#look();
    this.#channel.send(frame);
    return { ended };
  }

  #forgetOldest(): void {
    for (const [id, { isEnded }] of this.#requests) {
      if (this.#requests.size <= REMEMBERED_CELLS) return;
      if (isEnded) this.#requests.delete(id);
    }
  }

  /** What runs may have sent something that never arrived. */
  #missOutput(): void {
    for (const running of this.#requests.values()) running.isIncomplete = true;
  }

  #onMessage(message: KernelMessage): void {
    const { type, content } = message;
    this.#received += 1;
    if (type === 'status') {
      const state = content['execution_state'];
      if (state === 'restarting' || state === 'dead') void this.#endLater('its server found it dead');
    }
    const running = this.#requests.get(message.parent);
    if (!running) return;
    if (type === 'status') running.isIdle ||= content['execution_state'] === 'idle';
    if (type.endsWith('_reply')) running.reply ??= content;
    if (!type.endsWith('_reply')) running.onMessage(message);
    if (type.endsWith('_reply') && !running.isIdle) this.#expectIdle();
    if (running.isEnded || !running.isIdle || running.reply === undefined) return;
    const status = textOf(running.reply['status']);
    this.#settle(running, {
      kind: 'replied',
      status: status === 'error' || status === 'aborted' ? status : 'ok',
      reply: running.reply,
      isIncomplete: running.isIncomplete,
    });
  }

  #settle(running: Running, end: CellEnd): void {
    if (running.isEnded) return;
    running.isEnded = true;
    this.#runningCells -= 1;
    running.end(end);
  }

  /** A kernel that has replied is idle at once, unless that message was lost on the way. */
  #expectIdle(): void {
    this.#questionTimer ??= setTimeout(() => {
      this.#questionTimer = undefined;
      const isExpected = [...this.#requests.values()].some(({ isEnded, reply }) => !isEnded && reply !== undefined);
      if (!isExpected || !this.#isAlive) return;
      if (this.#openQuestions < MAX_OPEN_QUESTIONS) this.#resynchronize();
      this.#expectIdle();
    }, IDLE_LIMIT_MS).unref();
  }

  /** The kernel answers in order: when it has answered a question asked now, what was asked before has ended. */
  #resynchronize(): void {
    const before = [...this.#requests.values()].filter(({ isEnded }) => !isEnded);
    if (before.length === 0) return;
    const { id, frame } = kernelInfoRequest(this.#session);
    this.#openQuestions += 1;
    void this.#send(id, frame, ignore).ended.then(() => {
      this.#openQuestions -= 1;
      for (const running of before) this.#settle(running, { kind: 'unknown' });
    });
  }

  /** Looks at the process: its server may take seconds to notice that it is gone. */
  #look(): void {
    clearTimeout(this.#watch);
    if (!this.#isAlive || this.#isDying || this.#pid === undefined) return;
    const info = readProcess(this.#pid);
    if (info === undefined || info.state === 'Z' || info.state === 'X') {
      void this.#endLater(this.#exitCause(this.#pid));
      return;
    }
    this.#watch = setTimeout(() => this.#look(), this.#runningCells > 0 ? BUSY_LOOK_MS : IDLE_LOOK_MS).unref();
  }

  #exitCause(pid: number): string {
    const cause = exitText(pid) ?? 'its process is gone';
    return this.#oomWatch.sawKill() ? `${cause}: the sandbox ran out of memory` : cause;
  }

  async #endLater(cause: string): Promise<void> {
    if (this.#isDying || !this.#isAlive) return;
    this.#isDying = true;
    await Promise.race([this.#lastOutput(), this.#timer(LAST_OUTPUT_LIMIT_MS)]);
    this.#end(cause);
    await this.#endProcess(0);
  }

  /** Until the server has passed on what it has of a dead kernel: it takes its time where the machine is busy. */
  async #lastOutput(): Promise<void> {
    let [before, isLate] = [-1, false];
    while ((before !== this.#received || isLate) && this.#isAlive) {
      before = this.#received;
      await this.#timer(LAST_OUTPUT_MS);
      const asked = performance.now();
      await this.#channel.answered();
      // One that stood still answers before it has looked for what came meanwhile.
      isLate = performance.now() - asked > LAST_OUTPUT_MS;
    }
  }

  #end(cause: string): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    clearTimeout(this.#watch);
    clearTimeout(this.#questionTimer);
    this.#channel.close();
    for (const running of this.#requests.values()) this.#settle(running, this.#deathOf(cause));
    this.#requests.clear();
    this.#die(cause);
  }

  #deathOf(cause: string): CellEnd {
    return { kind: 'died', cause, isServerGone: this.#isServerGone };
  }
}

function ignore(): void {
  // Nothing to do.
}
