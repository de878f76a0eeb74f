import { statSync } from 'node:fs';
import type { AbortReason, ActionContext, ActionResult } from '../../src/dispatch/executor.ts';
import type { RunIpythonAction } from '../../src/protocol/actions.ts';
import type { SessionInfo } from '../../src/protocol/http.ts';
import { errorObservation } from '../../src/protocol/observations.ts';
import { workingDirectory } from '../../src/sandbox/processes.ts';
import type { ShellState } from '../../src/sandbox/shell-state.ts';
import type { Secrets } from '../../src/sandbox/secrets.ts';
import type { SpillOptions } from '../../src/sandbox/spill.ts';
import { type CellOutput, CellRun } from './cell-run.ts';
import { Environment } from './environment.ts';
import type { CellEnd, Kernel } from './kernel.ts';
import { isObject, type JsonObject, textOf } from './messages.ts';
import { enterRequest, stateOf } from './python-side.ts';
import { JupyterError } from './rest.ts';
import { answer, type CellReport } from './result.ts';
import type { PreparedKernel } from './kernel-pool.ts';
import * as texts from './texts.ts';
import { Widgets } from './widgets.ts';

export interface SessionOptions {
  readonly name: string;
  readonly lane: string;
  /** Kernel specification; undefined takes the server's default. */
  readonly kernelName: string | undefined;
  readonly spill: SpillOptions;
  readonly secrets: Secrets;
  readonly shell: () => ShellState;
  /** Variables that every kernel has from the start. */
  readonly baseEnv: Readonly<Record<string, string>>;
  readonly startKernel: (name: string | undefined) => Promise<PreparedKernel>;
}

/** An answer is due within this time after the limit, even if the action had to queue (V0 §9.3: the client waits 5 s longer). */
const ANSWER_GRACE_MS = 4000;
/** What an interrupted cell gets to end; half-way it is interrupted once more. */
const INTERRUPT_GRACE_MS = 2000;
/** As long for a cancelled one, and less when the server stops. */
const STOP_GRACE_MS = 300;
/** `setTimeout` takes no more. */
const MAX_TIMER_MS = 2 ** 31 - 1;
/** A kernel that lived shorter may die again: its successor waits for the next cell. */
const STABLE_MS = 5000;
/** Entering a directory is quick; one on a dead network share must not hold the cell up for ever. */
const ENTER_LIMIT_MS = 10_000;

type Stop = 'timeout' | AbortReason | 'input';

/** What ends the cells of one action early. */
interface StopSignal {
  readonly raised: Promise<Stop>;
  readonly raise: (why: Stop) => void;
  /** Releases timers and listeners. */
  readonly clear: () => void;
}

/** One named kernel and its successors. Actions come one at a time. */
export class KernelSession {
  readonly created = new Date();
  lastUsed = new Date();
  readonly #options: SessionOptions;
  readonly #environment: Environment;
  #kernel: PreparedKernel | undefined;
  #starting: Promise<PreparedKernel> | undefined;
  #widgets = new Widgets();
  #isRunning = false;
  #isClosed = false;
  /** The shell's directory that the kernel was taken to last. */
  #enteredDirectory: string | undefined;
  #cwd: string | null = null;
  /** Told with the next answer. */
  #note = '';

  constructor(options: SessionOptions) {
    this.#options = options;
    this.#environment = new Environment(options.baseEnv);
  }

  get kernelName(): string | undefined {
    return this.#kernel?.kernel.name ?? this.#options.kernelName;
  }

  info(): SessionInfo {
    const { name, lane } = this.#options;
    return {
      name,
      lane,
      kind: 'jupyter',
      state: this.#isRunning ? 'running' : this.#starting ? 'starting' : 'idle',
      cwd: this.#directory(),
      pid: this.#kernel?.kernel.pid ?? null,
      created: this.created.toISOString(),
      last_used: this.lastUsed.toISOString(),
    };
  }

  /** Has a kernel ready before the first cell. @throws JupyterError */
  async start(): Promise<void> {
    await this.#readyKernel();
  }

  async execute(action: RunIpythonAction, context: ActionContext): Promise<ActionResult> {
    this.lastUsed = new Date();
    this.#isRunning = true;
    try {
      return await this.#execute(action, context);
    } finally {
      this.#isRunning = false;
      this.lastUsed = new Date();
    }
  }

  /** Interrupts what runs. @returns false when nothing does */
  async interrupt(): Promise<boolean> {
    if (!this.#isRunning || !this.#kernel) return false;
    await this.#kernel.kernel.interrupt();
    return true;
  }

  /** Ends the kernel with a cause that the running cell's answer tells; the session goes on with a new one. */
  async restart(): Promise<void> {
    const { kernel } = this.#kernel ?? {};
    this.#kernel = undefined;
    await kernel?.kill('it was restarted on request');
    void this.#readyKernel().catch(ignore);
  }

  async stop(): Promise<void> {
    this.#isClosed = true;
    const prepared = this.#kernel ?? (await this.#starting?.catch(() => undefined));
    this.#kernel = undefined;
    await prepared?.kernel.close();
  }

  async #execute(action: RunIpythonAction, context: ActionContext): Promise<ActionResult> {
    const due = dueTime(action, context);
    const prepared = await within(this.#readyKernel(), Math.max(0, due - performance.now()), context.signal);
    if (prepared === undefined) {
      return { observation: errorObservation(stopText(context.signal) ?? STILL_STARTING) };
    }
    const notes = [this.#note];
    this.#note = '';
    const followMs = Math.min(ENTER_LIMIT_MS, Math.max(0, due - INTERRUPT_GRACE_MS - performance.now()));
    notes.push((await within(this.#follow(prepared), followMs, context.signal)) ?? '');
    const codes = cellsOf(action);
    const limit = Math.min(
      action.timeout === undefined ? MAX_TIMER_MS : action.timeout * 1000,
      due - INTERRUPT_GRACE_MS / 2 - performance.now(),
    );
    const stop = stopSignal(limit, context.signal);
    const reports: CellReport[] = [];
    for (const [index, code] of codes.entries()) {
      const report = await this.#runCell(code, index, prepared.kernel, action, context, stop);
      reports.push(report);
      if (report.isLast || (report.status !== 'ok' && action.args.stop_on_error)) break;
    }
    stop.clear();
    this.#cwd = this.#directory() ?? this.#cwd;
    return answer({
      action,
      codes,
      reports,
      notes: notes.filter((note) => note !== ''),
      cwd: this.#directory() ?? this.#options.shell().cwd,
      interpreter: prepared.interpreter,
    });
  }

  async #runCell(
    code: string,
    index: number,
    kernel: Kernel,
    action: RunIpythonAction,
    context: ActionContext,
    stop: StopSignal,
  ): Promise<CellReport> {
    const started = performance.now();
    const run = new CellRun({
      spill: this.#options.spill,
      secrets: this.#options.secrets,
      name: index === 0 ? context.actionId : `${context.actionId}-${index + 1}`,
      emit: context.emit,
      pause: () => kernel.pause(),
      resume: () => kernel.resume(),
      onEnvironment: (changes) => this.#environment.remember(changes),
      onInputRequest: () => stop.raise('input'),
      widgets: this.#widgets,
    });
    const cell = kernel.execute({ code, silent: false }, run.onMessage);
    const first = await Promise.race([cell.ended, stop.raised]);
    const notes: string[] = [];
    let end: CellEnd | undefined;
    if (typeof first === 'string') {
      const { end: last, note } = await this.#endCell(cell.ended, kernel, first);
      end = last;
      notes.push(stopNote(first, action.timeout ?? 0), ...note);
    } else {
      end = first;
    }
    if (end?.kind === 'died') notes.push(end.isServerGone ? texts.serverGone(end.cause) : texts.kernelDied(end.cause));
    if (end?.kind === 'unknown' || (end?.kind === 'replied' && end.isIncomplete)) notes.push(texts.OUTPUT_LOST);
    if (end?.kind === 'replied' && endsKernel(end.reply)) {
      notes.push(texts.KERNEL_EXITED);
      this.#kernel = undefined;
      await kernel.close();
    }
    if (!kernel.isAlive) this.#replace(kernel);
    if (end?.kind === 'replied') for (const content of pagesOf(end.reply)) run.page(content);
    const status = end?.kind === 'replied' ? (end.status === 'ok' ? 'ok' : 'error') : 'error';
    const output: CellOutput = run.finish();
    return {
      index,
      status,
      output,
      notes,
      durationMs: performance.now() - started,
      isLast: typeof first === 'string' || !kernel.isAlive,
    };
  }

  /** Interrupts, and after a while ends the kernel. @returns no end but a note when the kernel had to be ended */
  async #endCell(ended: Promise<CellEnd>, kernel: Kernel, why: Stop): Promise<{ end?: CellEnd; note: string[] }> {
    const graceMs = why === 'shutdown' ? STOP_GRACE_MS : INTERRUPT_GRACE_MS;
    let isAnswered = false;
    for (const _ of ['interrupt', 'once more']) {
      void kernel.interrupt().then((answered) => (isAnswered ||= answered));
      const end = await within(ended, graceMs / 2);
      if (end) return { end, note: [] };
    }
    if (why !== 'shutdown') await kernel.kill('it did not react to an interrupt');
    return { note: [isAnswered ? texts.NOT_INTERRUPTED : texts.serverGone(UNANSWERED)] };
  }

  /** A successor is started at once, so that the next cell need not wait. */
  #replace(dead: Kernel): void {
    // It may have one already, as after a restart.
    if (this.#kernel?.kernel === dead) this.#kernel = undefined;
    if (!this.#isClosed) void this.#readyKernel().catch(ignore);
  }

  #readyKernel(): Promise<PreparedKernel> {
    if (this.#kernel?.kernel.isAlive) return Promise.resolve(this.#kernel);
    this.#starting ??= this.#startKernel().finally(() => (this.#starting = undefined));
    return this.#starting;
  }

  async #startKernel(): Promise<PreparedKernel> {
    const dead = this.#kernel;
    this.#kernel = undefined;
    if (dead) this.#note = texts.diedBefore(await dead.kernel.died);
    const prepared = await this.#options.startKernel(this.#options.kernelName);
    if (this.#isClosed) {
      await prepared.kernel.close();
      throw new JupyterError('The session was closed while its kernel started.');
    }
    this.#environment.forgetKernel();
    this.#widgets = new Widgets();
    // Where Python code had gone, unless the shell has moved on since.
    const hasShellMoved = this.#options.shell().cwd !== this.#enteredDirectory;
    const left = hasShellMoved || this.#cwd === null ? undefined : this.#cwd;
    this.#enteredDirectory = undefined;
    this.#kernel = prepared;
    const startedAt = performance.now();
    void prepared.kernel.died.then((cause) => this.#onDeath(prepared, cause, performance.now() - startedAt));
    await this.#follow(prepared, left);
    return prepared;
  }

  /** It died between two cells: a cell that runs tells it by itself. */
  #onDeath(prepared: PreparedKernel, cause: string, livedMs: number): void {
    if (this.#kernel !== prepared || this.#isRunning || this.#isClosed) return;
    this.#note = texts.diedBefore(cause);
    this.#kernel = undefined;
    if (livedMs > STABLE_MS) this.#replace(prepared.kernel);
  }

  /**
   * Takes the kernel to the shell's directory when that has changed, with what the shell exports.
   * @param instead where the kernel before this one was
   * @returns a note
   */
  async #follow({ kernel, isPrepared }: PreparedKernel, instead?: string): Promise<string> {
    if (!isPrepared) return '';
    const { cwd, exports } = this.#options.shell();
    const changes = this.#environment.update(exports);
    const directory = instead ?? (cwd === this.#enteredDirectory ? undefined : cwd);
    if (directory === undefined && changes === undefined) return '';
    const cell = kernel.execute(enterRequest(directory, changes ?? {}), ignore);
    const end = await within(cell.ended, ENTER_LIMIT_MS);
    const state = end?.kind === 'replied' ? stateOf(end.reply) : undefined;
    this.#enteredDirectory = cwd;
    if (state === undefined) return '';
    this.#cwd = textOf(state['cwd']) || this.#cwd;
    return textOf(state['problem']) === '' ? '' : texts.directoryGone(directory ?? cwd, this.#cwd ?? '');
  }

  /** Where the kernel is, by the shell's name for it where that is the same. */
  #directory(): string | null {
    const pid = this.#kernel?.kernel.pid;
    const physical = pid === undefined ? undefined : workingDirectory(pid);
    if (physical === undefined) return this.#cwd;
    const entered = this.#enteredDirectory;
    return entered !== undefined && isSameDirectory(entered, `/proc/${pid}/cwd`) ? entered : physical;
  }
}

const UNANSWERED = 'the Jupyter server does not answer: it has not taken the interrupt';
const STILL_STARTING = 'The kernel is still starting. It goes on doing so: run the cell again.';

/** V0's `code`, then the extension's cells. */
function cellsOf({ args }: RunIpythonAction): string[] {
  if (args.cells === undefined) return [args.code];
  return args.code === '' ? [...args.cells] : [args.code, ...args.cells];
}

/** `performance.now()` of the moment at which the client gives up. */
function dueTime({ timeout }: RunIpythonAction, { arrivedAt }: ActionContext): number {
  return timeout === undefined ? Infinity : arrivedAt + timeout * 1000 + ANSWER_GRACE_MS;
}

function stopSignal(limitMs: number, signal: AbortSignal): StopSignal {
  let raise: (why: Stop) => void = ignore;
  const raised = new Promise<Stop>((resolve) => (raise = resolve));
  const timer = limitMs >= MAX_TIMER_MS ? undefined : setTimeout(() => raise('timeout'), Math.max(0, limitMs));
  const onAbort = (): void => raise(signal.reason as AbortReason);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  return {
    raised,
    raise,
    clear: () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    },
  };
}

function stopText({ aborted, reason }: AbortSignal): string | undefined {
  if (!aborted) return undefined;
  return (reason as AbortReason) === 'cancel' ? texts.CANCELLED : texts.STOPPED;
}

function stopNote(why: Stop, timeoutSeconds: number): string {
  switch (why) {
    case 'timeout':
      return texts.timedOut(timeoutSeconds);
    case 'cancel':
      return texts.CANCELLED;
    case 'shutdown':
      return texts.STOPPED;
    case 'input':
      return texts.ASKED_INPUT;
  }
}

/** What `name?` and other magics show in a notebook's pager. */
function pagesOf(reply: JsonObject): JsonObject[] {
  const payload = Array.isArray(reply['payload']) ? reply['payload'] : [];
  return payload.flatMap((item) => {
    const data = isObject(item) && item['source'] === 'page' ? item['data'] : undefined;
    return isObject(data) ? [{ data, metadata: {} }] : [];
  });
}

/** `exit` and `quit` ask for the kernel's end in the reply; it comes a moment later. */
function endsKernel(reply: Readonly<Record<string, unknown>>): boolean {
  const payload = Array.isArray(reply['payload']) ? reply['payload'] : [];
  return payload.some((item) => isObject(item) && item['source'] === 'ask_exit' && item['keepkernel'] !== true);
}

/** @returns undefined when it takes longer, or the signal is aborted */
async function within<T>(promise: Promise<T>, ms: number, signal?: AbortSignal): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  let onAbort = ignore;
  const late = new Promise<undefined>((resolve) => {
    onAbort = () => resolve(undefined);
    if (ms < MAX_TIMER_MS) timer = setTimeout(onAbort, ms);
    if (signal?.aborted) onAbort();
    signal?.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
  }
}

function isSameDirectory(a: string, b: string): boolean {
  try {
    const [first, second] = [statSync(a), statSync(b)];
    return first.ino === second.ino && first.dev === second.dev;
  } catch {
    return false;
  }
}

function ignore(): void {
  // Nothing to do.
}
