import { randomUUID } from 'node:crypto';
import type { Action } from '../protocol/actions.ts';
import { DEFAULT_METADATA, errorObservation, runObservation } from '../protocol/observations.ts';
import type { ActionContext, ActionResult, AnyExecutor } from './executor.ts';
import { Lanes } from './lane.ts';

/** One action on its way. */
export interface Call {
  readonly id: string;
  readonly action: Action;
  readonly lane: string | undefined;
  readonly isHidden: boolean;
  readonly created: Date;
}

/** How a call ended, for logs and metrics. */
export interface CallSummary {
  readonly call: Call;
  readonly outcome: 'ok' | 'error' | 'crashed';
  /** Milliseconds in the queue, and at work. */
  readonly queuedMs: number;
  readonly durationMs: number;
  readonly cause?: unknown;
}

/**
 * What is told of every call, in this order: `started`, any number of `output`, `finished`. Execution waits for `started`, the answer
 * for `finished`.
 */
export interface CallRecorder {
  started(call: Call): Promise<void> | void;
  output(call: Call, text: string): void;
  finished(call: Call, result: ActionResult): Promise<void> | void;
}

export interface DispatcherOptions {
  readonly executors: readonly AnyExecutor[];
  /** Actions that run or wait, all lanes together. */
  readonly maxInFlight: number;
  readonly recorder?: CallRecorder;
  readonly onSummary?: (summary: CallSummary) => void;
  /** What is answered for an action type that no executor serves. */
  readonly unavailable: (actionType: string) => string;
}

export interface Reply extends ActionResult {
  readonly action_id: string;
  readonly duration_ms: number;
}

/** Why an action was not even queued; the caller may try again. */
export type Refusal = 'too-many' | 'shutting-down';

/** Brings every action to its executor, in the order of its lane, and answers whatever happens. */
export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #byType = new Map<string, AnyExecutor>();
  readonly #lanes = new Lanes();
  readonly #inFlight = new Map<string, AbortController>();
  #running = 0;
  #lastEnd = performance.now();
  #isStopping = false;
  #onEmpty: (() => void) | undefined;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    for (const executor of options.executors) for (const type of executor.actionTypes) this.#byType.set(type, executor);
  }

  /** Actions at work, without those that wait. */
  get running(): number {
    return this.#running;
  }

  /** Seconds since the last action ended; 0 while one runs or waits. */
  get idleSeconds(): number {
    return this.#inFlight.size > 0 ? 0 : (performance.now() - this.#lastEnd) / 1000;
  }

  /** Never rejects: a fault of an executor is an `error` observation. The caller's going away changes nothing. */
  dispatch(action: Action): Promise<Reply> | Refusal {
    if (this.#isStopping) return 'shutting-down';
    if (this.#inFlight.size >= this.#options.maxInFlight) return 'too-many';
    const executor = this.#byType.get(action.action);
    const call: Call = {
      id: randomUUID(),
      action,
      lane: executor?.laneOf(action),
      isHidden: isHidden(action),
      created: new Date(),
    };
    const controller = new AbortController();
    this.#inFlight.set(call.id, controller);
    const arrivedAt = performance.now();
    return this.#lanes.run(call.lane, () => this.#perform(call, executor, controller.signal, arrivedAt));
  }

  /** Refuses new actions, tells the ones at work to end and resolves when all have, or after `limitMs`. */
  async stop(limitMs: number): Promise<void> {
    this.#isStopping = true;
    if (this.#inFlight.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, limitMs);
      this.#onEmpty = () => {
        clearTimeout(timer);
        resolve();
      };
      for (const controller of this.#inFlight.values()) controller.abort('shutdown');
    });
  }

  async #perform(
    call: Call,
    executor: AnyExecutor | undefined,
    signal: AbortSignal,
    arrivedAt: number,
  ): Promise<Reply> {
    const startedAt = performance.now();
    this.#running += 1;
    const { recorder } = this.#options;
    let cause: unknown;
    let result: ActionResult;
    try {
      await recorder?.started(call);
      result = executor
        ? await executor.execute(call.action, this.#context(call, signal, arrivedAt))
        : refusal(call, this.#options.unavailable(call.action.action));
    } catch (error) {
      cause = error;
      result = refusal(call, `The ${call.action.action} action failed inside the server: ${messageOf(error)}`);
    }
    await recorder?.finished(call, result);
    const endedAt = performance.now();
    this.#running -= 1;
    this.#lastEnd = endedAt;
    this.#inFlight.delete(call.id);
    if (this.#inFlight.size === 0) this.#onEmpty?.();
    const durationMs = endedAt - startedAt;
    this.#options.onSummary?.({
      call,
      outcome: outcomeOf(result, cause),
      queuedMs: startedAt - arrivedAt,
      durationMs,
      cause,
    });
    return { ...result, action_id: call.id, duration_ms: Math.round(durationMs * 1000) / 1000 };
  }

  #context(call: Call, signal: AbortSignal, arrivedAt: number): ActionContext {
    const { recorder } = this.#options;
    const emit = recorder && !call.isHidden ? (text: string): void => recorder.output(call, text) : undefined;
    return { actionId: call.id, signal, arrivedAt, emit };
  }
}

function isHidden(action: Action): boolean {
  return action.action === 'run' && action.args.hidden;
}

/** An `error` in answer to a hidden `run` would crash V0's client (V0 §4.1). */
function refusal({ isHidden: hidden }: Call, message: string): ActionResult {
  if (!hidden) return { observation: errorObservation(message) };
  return {
    observation: runObservation({
      command: '',
      content: `ERROR: ${message}`,
      metadata: DEFAULT_METADATA,
      hidden: true,
    }),
  };
}

function outcomeOf({ observation }: ActionResult, cause: unknown): CallSummary['outcome'] {
  if (cause !== undefined) return 'crashed';
  return observation.observation === 'error' ? 'error' : 'ok';
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
