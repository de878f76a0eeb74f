import { randomUUID } from 'node:crypto';
import type { Action } from '../protocol/actions.ts';
import { errorObservation, refusalObservation } from '../protocol/observations.ts';
import { abort, type Call, type IdempotencyKey } from './call.ts';
import type { ActionContext, ActionResult, AnyExecutor } from './executor.ts';
import type { History } from './history.ts';
import type { Journal } from './journal.ts';
import { Lanes } from './lane.ts';
import type { Reply } from './reply.ts';

/** How a call ended, for logs and metrics. */
export interface CallSummary {
  readonly call: Call;
  readonly outcome: 'ok' | 'error' | 'crashed' | 'cancelled' | 'unrecorded';
  /** Milliseconds in the queue, and at work. */
  readonly queuedMs: number;
  readonly durationMs: number;
  readonly cause?: unknown;
}

export interface DispatcherOptions {
  readonly executors: readonly AnyExecutor[];
  readonly journal: Journal;
  readonly history: History;
  /** Actions that run or wait, all lanes together. */
  readonly maxInFlight: number;
  /** Says why no action may start now; undefined when one may. */
  readonly overload?: () => string | undefined;
  readonly onSummary?: (summary: CallSummary) => void;
  /** What is answered for an action type that no executor serves. */
  readonly unavailable: (actionType: string) => string;
}

export interface Submission {
  readonly action: Action;
  readonly idempotency?: IdempotencyKey | undefined;
}

export type Outcome =
  /** `reply` never rejects; `accepted` resolves when the action is on disk. */
  | {
      readonly kind: 'accepted';
      readonly id: string;
      readonly isReplay: boolean;
      readonly reply: Promise<Reply>;
      readonly accepted: Promise<void>;
    }
  | { readonly kind: 'refused'; readonly why: Refusal; readonly detail?: string };

/** Why an action was not taken at all. */
export type Refusal = 'too-many' | 'overloaded' | 'shutting-down' | 'key-reused';

interface Flight {
  readonly call: Call;
  readonly reply: Promise<Reply>;
  readonly accepted: Promise<void>;
  /** Ends a call that still waits in its lane. */
  readonly settleEarly: (result: ActionResult) => void;
}

/** Brings every action to its executor once, in the order of its lane, records it, and answers whatever happens. */
export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #byType = new Map<string, AnyExecutor>();
  readonly #lanes = new Lanes();
  readonly #flights = new Map<string, Flight>();
  /** Calls in flight by their idempotency key. */
  readonly #byKey = new Map<string, Flight>();
  /** Whether an observation may still not be on the disk. */
  #isOwing = false;
  #running = 0;
  #lastEnd = performance.now();
  #isStopping = false;
  #onEmpty: (() => void) | undefined;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    for (const executor of options.executors) this.add(executor);
  }

  /** From now on the executor's actions go to it. */
  add(executor: AnyExecutor): void {
    for (const type of executor.actionTypes) this.#byType.set(type, executor);
  }

  /** Actions at work, without those that wait. */
  get running(): number {
    return this.#running;
  }

  /** Actions at work or waiting. */
  get inFlight(): number {
    return this.#flights.size;
  }

  /** Seconds since the last action ended; 0 while one runs or waits. */
  get idleSeconds(): number {
    return this.#flights.size > 0 ? 0 : (performance.now() - this.#lastEnd) / 1000;
  }

  /** The calls at work or waiting, oldest first. */
  calls(): Call[] {
    return Array.from(this.#flights.values(), ({ call }) => call);
  }

  /** Takes an action. A repeat joins the running one or gets the recorded answer. The caller's going away changes nothing. */
  dispatch({ action, idempotency }: Submission): Outcome {
    const repeated = idempotency === undefined ? undefined : this.#repeat(idempotency);
    if (repeated) return repeated;
    if (this.#isStopping) return { kind: 'refused', why: 'shutting-down' };
    if (this.#flights.size >= this.#options.maxInFlight) return { kind: 'refused', why: 'too-many' };
    const overload = this.#options.overload?.();
    if (overload !== undefined) return { kind: 'refused', why: 'overloaded', detail: overload };
    const flight = this.#take(action, idempotency);
    return { kind: 'accepted', id: flight.call.id, isReplay: false, reply: flight.reply, accepted: flight.accepted };
  }

  /** The reply of an action: awaited when it is in flight, from the record when it is over; undefined when it is unknown. */
  replyOf(actionId: string): Promise<Reply | undefined> {
    return this.#flights.get(actionId)?.reply ?? this.#options.history.reply(actionId);
  }

  /** A call that has not ended. */
  find(actionId: string): Call | undefined {
    return this.#flights.get(actionId)?.call;
  }

  /**
   * Ends an action: one that waits is answered at once, one at work is interrupted by its executor. Resolves when it is over.
   * @returns false when no such action is in flight
   */
  async cancel(actionId: string): Promise<boolean> {
    const flight = this.#flights.get(actionId);
    if (!flight) return false;
    const { call } = flight;
    const wasQueued = call.status === 'queued';
    abort(call, 'cancel');
    if (wasQueued) {
      call.status = 'cancelled';
      flight.settleEarly(refusal(call, CANCELLED_EARLY));
    }
    await flight.reply;
    return true;
  }

  /** Refuses new actions, tells the ones in flight to end and resolves when all have, or after `limitMs`. */
  async stop(limitMs: number): Promise<void> {
    this.#isStopping = true;
    if (this.#flights.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, limitMs);
      this.#onEmpty = () => {
        clearTimeout(timer);
        resolve();
      };
      for (const { call } of this.#flights.values()) abort(call, 'shutdown');
    });
  }

  #repeat({ key, hash }: IdempotencyKey): Outcome | undefined {
    const flight = this.#byKey.get(key);
    const known = flight
      ? { id: flight.call.id, hash: flight.call.idempotency?.hash }
      : this.#options.history.byKey(key);
    if (known === undefined) return undefined;
    if (known.hash !== hash) return { kind: 'refused', why: 'key-reused' };
    const reply = flight?.reply ?? this.#options.history.reply(known.id).then((found) => found ?? lostReply(known.id));
    return { kind: 'accepted', id: known.id, isReplay: true, reply, accepted: flight?.accepted ?? Promise.resolve() };
  }

  #take(action: Action, idempotency: IdempotencyKey | undefined): Flight {
    const { lane, execute } = route(this.#byType.get(action.action), action);
    const call: Call = {
      id: randomUUID(),
      action,
      lane,
      isHidden: isHidden(action),
      idempotency,
      created: new Date(),
      controller: new AbortController(),
      status: 'queued',
      started: undefined,
      finished: undefined,
    };
    const accepted = this.#options.journal.started(call);
    // Whoever performs the call sees the failure; without this it would also count as unhandled while the call waits.
    accepted.catch(ignore);
    let settleEarly: Flight['settleEarly'] = ignore;
    const early = new Promise<ActionResult>((resolve) => (settleEarly = resolve));
    const arrivedAt = performance.now();
    const ended = early.then((result) => this.#finish(call, result, arrivedAt, performance.now(), undefined));
    const queued = this.#lanes.run(call.lane, () => this.#perform(call, execute, accepted, ended, arrivedAt));
    const reply = Promise.race([queued, ended]);
    const flight: Flight = { call, reply, accepted, settleEarly };
    this.#flights.set(call.id, flight);
    if (idempotency) this.#byKey.set(idempotency.key, flight);
    return flight;
  }

  /** @param ended the reply of a call that is cancelled while it waits: its turn passes with it */
  async #perform(
    call: Call,
    execute: Execute | undefined,
    accepted: Promise<void>,
    ended: Promise<Reply>,
    arrivedAt: number,
  ): Promise<Reply> {
    if (call.status !== 'queued') return ended;
    call.status = 'running';
    call.started = new Date();
    this.#running += 1;
    const startedAt = performance.now();
    let cause: unknown;
    let result: ActionResult;
    try {
      const obstacle =
        (await obstacleOf(call, accepted)) ?? (this.#isOwing ? await this.#owedObservation() : undefined);
      if (obstacle === CANCELLED_EARLY) result = refusal(call, obstacle);
      else if (obstacle !== undefined) result = { ...refusal(call, obstacle), refused: true };
      else if (execute) result = await execute(this.#context(call, arrivedAt));
      else result = refusal(call, this.#options.unavailable(call.action.action));
      call.status = call.controller.signal.reason === 'cancel' ? 'cancelled' : 'finished';
    } catch (error) {
      cause = error;
      call.status = 'finished';
      result = refusal(call, `The ${call.action.action} action failed inside the server: ${messageOf(error)}`);
    }
    this.#running -= 1;
    return this.#finish(call, result, arrivedAt, startedAt, cause);
  }

  async #finish(
    call: Call,
    result: ActionResult,
    arrivedAt: number,
    startedAt: number,
    cause: unknown,
  ): Promise<Reply> {
    call.finished = new Date();
    const endedAt = performance.now();
    const durationMs = Math.round((endedAt - startedAt) * 1000) / 1000;
    const shown = this.#masked(call, result);
    let isRecorded = true;
    try {
      await this.#options.journal.finished(call, shown, durationMs);
    } catch (error) {
      // The action has happened: its answer is owed even if the disk cannot keep it.
      isRecorded = false;
      this.#isOwing = true;
      cause ??= error;
    }
    const reply: Reply = { ...shown, action_id: call.id, duration_ms: durationMs };
    this.#options.history.remember(reply, isRecorded ? undefined : call);
    this.#forget(call);
    const outcome = isRecorded ? outcomeOf(call, shown, cause) : 'unrecorded';
    this.#summarize({ call, outcome, queuedMs: startedAt - arrivedAt, durationMs, cause });
    return reply;
  }

  /** Whether or not it can be recorded, it is answered without secrets. */
  #masked(call: Call, result: ActionResult): ActionResult {
    try {
      return this.#options.journal.masked(result);
    } catch (error) {
      return refusal(call, `The action has run, but what it answered cannot be shown: ${messageOf(error)}`);
    }
  }

  /** While an observation waits for the disk nothing starts: after a crash the log must tell what had begun. */
  async #owedObservation(): Promise<string | undefined> {
    try {
      await this.#options.journal.flush();
      this.#isOwing = false;
      return undefined;
    } catch (error) {
      return unrecordedText(error);
    }
  }

  /** A log that cannot be written costs a line, not an answer. */
  #summarize(summary: CallSummary): void {
    try {
      this.#options.onSummary?.(summary);
    } catch {
      // There is nowhere left to say it.
    }
  }

  #forget(call: Call): void {
    this.#lastEnd = performance.now();
    this.#flights.delete(call.id);
    if (call.idempotency) this.#byKey.delete(call.idempotency.key);
    if (this.#flights.size === 0) this.#onEmpty?.();
  }

  #context(call: Call, arrivedAt: number): ActionContext {
    const { journal } = this.#options;
    const emit = call.isHidden ? undefined : (text: string): void => journal.output(call, text);
    return {
      actionId: call.id,
      signal: call.controller.signal,
      arrivedAt,
      mask: (text, isCut) => journal.mask(text, isCut),
      emit,
    };
  }
}

const CANCELLED_EARLY = 'The action was cancelled before it started.';

type Execute = (context: ActionContext) => Promise<ActionResult>;

/** Where an action goes; an executor that cannot even tell its lane fails the action, outside of any lane. */
function route(
  executor: AnyExecutor | undefined,
  action: Action,
): { lane: string | undefined; execute: Execute | undefined } {
  if (!executor) return { lane: undefined, execute: undefined };
  try {
    return { lane: executor.laneOf(action), execute: (context) => executor.execute(action, context) };
  } catch (error) {
    return { lane: undefined, execute: fails(error) };
  }
}

function fails(error: unknown): Execute {
  // oxlint-disable-next-line require-await -- throws what it was given, whatever that is
  return async () => {
    throw error;
  };
}

/** Why a call is answered without being carried out; undefined when nothing is in its way. */
async function obstacleOf({ controller: { signal } }: Call, accepted: Promise<void>): Promise<string | undefined> {
  try {
    await accepted;
  } catch (error) {
    return unrecordedText(error);
  }
  if (!signal.aborted) return undefined;
  return signal.reason === 'cancel' ? CANCELLED_EARLY : 'The server is shutting down; the action was not started.';
}

/** What a disk answers that has no room, or no room for this user. */
const NO_SPACE_CODES: ReadonlySet<unknown> = new Set(['ENOSPC', 'EDQUOT']);

function unrecordedText(error: unknown): string {
  const isFull = error instanceof Error && 'code' in error && NO_SPACE_CODES.has(error.code);
  const remedy = isFull
    ? 'free space on the disk of the state directory, then try again.'
    : 'the event log in the state directory cannot be written. Try again; if it stays so, mend what this says or restart the server.';
  return `The action was not started, because it could not be recorded: ${remedy} (${messageOf(error)})`;
}

function isHidden(action: Action): boolean {
  return action.action === 'run' && action.args.hidden;
}

function refusal({ isHidden: hidden }: Call, message: string): ActionResult {
  return { observation: refusalObservation(message, hidden) };
}

function lostReply(actionId: string): Reply {
  const message = `Action ${actionId} has run, but its observation is no longer in the event log.`;
  return { observation: errorObservation(message), action_id: actionId, duration_ms: 0 };
}

function outcomeOf({ status }: Call, { observation }: ActionResult, cause: unknown): CallSummary['outcome'] {
  if (cause !== undefined) return 'crashed';
  if (status === 'cancelled') return 'cancelled';
  return observation.observation === 'error' ? 'error' : 'ok';
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function ignore(): void {
  // Nothing to do.
}
