import type { StarvationWatch } from './starvation.ts';
import { LimitError, within } from './within.ts';

export interface Patience {
  /** Of time in which the machine lets the browser work. */
  readonly limitMs: number;
  /** Of any time. */
  readonly maxMs: number;
  readonly signal: AbortSignal;
  readonly watch: () => StarvationWatch;
}

/** What is there within this is not worth a look at the machine. */
const QUICK_MS = 1500;
/** Less is no reason to wait on. */
const MIN_STARVED_MS = 50;

/**
 * The promise, or a rejection after the limit: what the browser does not do because the machine is busy with other things is not held
 * against it.
 * @throws LimitError
 */
export async function patiently<T>(promise: Promise<T>, { limitMs, maxMs, signal, watch }: Patience): Promise<T> {
  const endsAt = performance.now() + maxMs;
  let leftMs = Math.min(limitMs, maxMs);
  if (leftMs > QUICK_MS) {
    const [isThere, value] = await ifThere(promise, QUICK_MS, signal);
    if (isThere) return value;
    leftMs -= QUICK_MS;
  }
  const starvedMs = watch();
  for (let granted = 0; ;) {
    const [isThere, value] = await ifThere(promise, Math.min(leftMs, endsAt - performance.now()), signal);
    if (isThere) return value;
    const starved = starvedMs();
    leftMs = starved - granted;
    granted = starved;
    if (leftMs < MIN_STARVED_MS || performance.now() >= endsAt)
      throw new LimitError(`not within ${Math.round(limitMs)} ms`);
  }
}

/** @throws what the promise is rejected with, and LimitError when the signal aborts */
async function ifThere<T>(
  promise: Promise<T>,
  limitMs: number,
  signal: AbortSignal,
): Promise<[true, T] | [false, undefined]> {
  try {
    return [true, await within(limitMs, promise, signal)];
  } catch (error) {
    if (!(error instanceof LimitError) || signal.aborted) throw error;
    return [false, undefined];
  }
}
