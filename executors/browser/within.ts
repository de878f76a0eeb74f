/** Why a wait came to no end. */
export class LimitError extends Error {
  override name = 'LimitError';
}

/** The action's own limit is reached, but for what is kept back. */
export class OutOfTimeError extends LimitError {
  override name = 'OutOfTimeError';
}

/**
 * The promise, or a rejection after `limitMs` or when the signal aborts. What the promise becomes later is nobody's concern.
 * @throws LimitError
 */
export function within<T>(limitMs: number, promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
    const onAbort = (): void => {
      end();
      reject(new LimitError('stopped'));
    };
    const timer = setTimeout(
      () => {
        end();
        reject(new LimitError(`not within ${Math.round(limitMs)} ms`));
      },
      Math.max(0, limitMs),
    );
    promise.then(
      (value) => {
        end();
        resolve(value);
      },
      (error: Error) => {
        end();
        reject(error);
      },
    );
    if (signal?.aborted) onAbort();
    else signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** The promise, or undefined when it fails or is not there in time. */
export function ifWithin<T>(limitMs: number, promise: Promise<T>, signal?: AbortSignal): Promise<T | undefined> {
  return within(limitMs, promise, signal).catch(() => undefined);
}

/** The promise, or a rejection when the signal aborts. @throws LimitError */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return within(LONGEST_TIMER_MS, promise, signal);
}

/** Node's timers know no longer wait. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Of an action with a short limit, so much at most is kept back. */
const MAX_RESERVE_SHARE = 0.3;

/** When an action must be answered. */
export class Deadline {
  readonly #endsAt: number;
  readonly #maxReserveMs: number;
  readonly signal: AbortSignal;
  /** What was asked for, in seconds; for messages. */
  readonly limitSeconds: number;

  /** @param endsAt `performance.now()` of the answer */
  constructor(endsAt: number, signal: AbortSignal, limitMs = endsAt - performance.now()) {
    this.limitSeconds = limitMs / 1000;
    this.#endsAt = endsAt;
    this.#maxReserveMs = (endsAt - performance.now()) * MAX_RESERVE_SHARE;
    this.signal = signal;
  }

  /** Milliseconds that are left, at most `limitMs`, at least 1; `reserveMs` is kept back. */
  left(limitMs: number, reserveMs = 0): number {
    return Math.max(1, Math.min(limitMs, this.#endsAt - performance.now() - Math.min(reserveMs, this.#maxReserveMs)));
  }

  get isOver(): boolean {
    return this.isUp(0);
  }

  /** Whether nothing is left but what is kept back. */
  isUp(reserveMs: number): boolean {
    return this.signal.aborted || performance.now() >= this.#endsAt - Math.min(reserveMs, this.#maxReserveMs);
  }

  /** Why it is over, as the agent reads it. */
  get reason(): string {
    return this.signal.aborted
      ? 'Error: cancelled'
      : `TimeoutError: timed out (${this.limitSeconds.toFixed(1)} seconds)`;
  }

  /** Bounded by the limit, the deadline and the signal. */
  within<T>(limitMs: number, promise: Promise<T>, reserveMs = 0): Promise<T> {
    return within(this.left(limitMs, reserveMs), promise, this.signal);
  }

  ifWithin<T>(limitMs: number, promise: Promise<T>, reserveMs = 0): Promise<T | undefined> {
    return ifWithin(this.left(limitMs, reserveMs), promise, this.signal);
  }
}
