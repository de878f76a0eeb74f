import { setImmediate as nextTurn } from 'node:timers/promises';
import type { EventFeed } from './subscription-feed.ts';
import type { EventKind, StoredEvent } from './types.ts';

/** Which events are wanted; nothing: all. */
export interface EventFilter {
  readonly kinds?: ReadonlySet<EventKind>;
  readonly actionId?: string;
}

export interface SubscriptionRequest extends EventFilter {
  /** Events with a higher seq; none: only those that are not there yet. */
  readonly after?: number;
  /** The generation that `after` belongs to. */
  readonly stream?: string;
}

/** What is sent between events; `hello` and `resync` have no seq and so cannot be taken for one. */
export type ControlFrame =
  | { readonly kind: 'hello'; readonly stream: string; readonly oldest: number; readonly latest: number }
  | { readonly kind: 'resync'; readonly reason: ResyncReason; readonly stream: string; readonly oldest: number }
  | { readonly kind: 'caught_up'; readonly seq: number };

/** Why the events that follow are not those after the cursor: another log, they are gone, or they were never there. */
export type ResyncReason = 'generation' | 'trimmed' | 'ahead';

/** Where a subscriber's frames go; it never fails, and takes more than is good for it, so the subscription looks first. */
export interface Sink {
  sendEvent(event: StoredEvent): void;
  sendControl(frame: ControlFrame): void;
  /** What was sent and has not left yet. */
  readonly bufferedBytes: number;
  /** What has left since the beginning; never falls. */
  readonly flushedBytes: number;
  /** Resolves when nothing is buffered any more; may stay pending when the other side is gone. */
  drained(): Promise<void>;
}

export interface SubscriptionLimits {
  /** A subscriber that is live and takes nothing while this much of what it wants is appended is too slow. */
  readonly maxMissedBytes: number;
  /** A subscriber that has something in its buffer, of which nothing leaves for so long, is too slow. */
  readonly stallMs: number;
}

export const SUBSCRIPTION_LIMITS: SubscriptionLimits = { maxMissedBytes: 8 * 1024 * 1024, stallMs: 30_000 };

/**
 * More is read only while less than this is buffered. One batch comes on top, so that a sink holds less than 1 MiB with all
 * framing.
 */
export const PULL_BELOW_BYTES = 256 * 1024;

/** `gone`: the signal; `slow`: the reader did not keep up, and may come back with its cursor. */
export type SubscriptionEnd = 'gone' | 'slow';

/**
 * One reader of the log: greets it, replays what it has missed, then follows (DESIGN §4). It pulls, at the pace of its sink and
 * from its own cursor, so nothing is lost or sent twice whenever it begins, and nobody else waits for it.
 */
export class Subscription {
  readonly #feed: EventFeed;
  readonly #request: SubscriptionRequest;
  readonly #sink: Sink;
  readonly #signal: AbortSignal;
  readonly #limits: SubscriptionLimits;
  /** Generation of the cursor, and the last seq that was looked at, whether it was wanted or not. */
  #stream = '';
  #cursor = 0;
  /** The seq up to which events are replay; undefined: live. */
  #replayTo: number | undefined;
  /** What was appended since the buffer became full, as far as it was looked at. */
  #missed: { seq: number; bytes: number } | undefined;
  #flushedBytes = 0;
  #progressAt = 0;
  #isWoken = false;
  #isAwaitingDrain = false;
  #resume: (() => void) | undefined;

  constructor(
    feed: EventFeed,
    request: SubscriptionRequest,
    sink: Sink,
    signal: AbortSignal,
    limits: SubscriptionLimits = SUBSCRIPTION_LIMITS,
  ) {
    this.#feed = feed;
    this.#request = request;
    this.#sink = sink;
    this.#signal = signal;
    this.#limits = limits;
  }

  /** Sends frames until the signal or until the reader is too slow. Rejects when the log cannot be read. */
  async run(): Promise<SubscriptionEnd> {
    const following = this.#feed.follow(this.poke);
    this.#signal.addEventListener('abort', this.poke);
    this.#progressAt = performance.now();
    try {
      this.#begin();
      return await this.#pump();
    } finally {
      this.#signal.removeEventListener('abort', this.poke);
      following.dispose();
    }
  }

  /** To look around again: whoever sends something else through the same buffer says so, and progress is watched. */
  readonly poke = (): void => {
    this.#isWoken = true;
    this.#resume?.();
  };

  #begin(): void {
    const { stream, oldest, latest } = this.#feed.extent;
    const { after, stream: wanted } = this.#request;
    this.#sink.sendControl({ kind: 'hello', stream, oldest, latest });
    this.#stream = stream;
    this.#replayTo = latest;
    if (wanted !== undefined && wanted !== stream) this.#resync('generation', oldest);
    else if (after === undefined) this.#startLive(latest);
    else if (after > latest) this.#resync('ahead', oldest);
    else if (after < oldest - 1) this.#resync('trimmed', oldest);
    else this.#cursor = after;
    this.#announceLive();
  }

  #startLive(latest: number): void {
    this.#cursor = latest;
    this.#replayTo = undefined;
  }

  #resync(reason: ResyncReason, oldest: number): void {
    this.#sink.sendControl({ kind: 'resync', reason, stream: this.#stream, oldest });
    this.#cursor = Math.max(0, oldest - 1);
  }

  async #pump(): Promise<SubscriptionEnd> {
    while (!this.#signal.aborted) {
      this.#isWoken = false;
      if (this.#isStalled()) return 'slow';
      if (this.#isFull()) {
        if (await this.#hasMissedTooMuch()) return 'slow';
        await this.#sleep();
        continue;
      }
      this.#missed = undefined;
      const events = await this.#feed.read(this.#cursor);
      if (this.#signal.aborted) break;
      this.#deliver(events);
      this.#announceLive();
      // An append after the look at `latest` wakes.
      if (events.length > 0 && this.#cursor < this.#feed.extent.latest) await nextTurn();
      else await this.#sleep();
    }
    return 'gone';
  }

  #deliver(events: readonly StoredEvent[]): void {
    const { stream, oldest, latest } = this.#feed.extent;
    if (stream !== this.#stream) {
      this.#stream = stream;
      if (this.#replayTo !== undefined) this.#replayTo = latest;
      this.#resync('generation', oldest);
      return;
    }
    const kept = events[0]?.seq ?? oldest;
    if (kept > this.#cursor + 1) this.#resync('trimmed', kept);
    for (const event of events) {
      if (this.#isWanted(event)) this.#sink.sendEvent(event);
      this.#cursor = event.seq;
    }
  }

  #isWanted({ kind, actionId }: StoredEvent): boolean {
    return matchesFilter(this.#request, kind, actionId);
  }

  #announceLive(): void {
    if (this.#replayTo === undefined || this.#cursor < this.#replayTo) return;
    this.#replayTo = undefined;
    this.#sink.sendControl({ kind: 'caught_up', seq: this.#cursor });
  }

  #isFull(): boolean {
    return this.#sink.bufferedBytes >= PULL_BELOW_BYTES;
  }

  /** Whether nothing has left the buffer for too long although there is something in it. */
  #isStalled(): boolean {
    const { bufferedBytes, flushedBytes } = this.#sink;
    const now = performance.now();
    if (bufferedBytes === 0 || flushedBytes !== this.#flushedBytes) {
      this.#flushedBytes = flushedBytes;
      this.#progressAt = now;
    }
    return now - this.#progressAt >= this.#limits.stallMs;
  }

  /** Looks at what is appended while the buffer is full, and keeps none of it. */
  async #hasMissedTooMuch(): Promise<boolean> {
    if (this.#replayTo !== undefined) return false;
    this.#missed ??= { seq: this.#feed.extent.latest, bytes: 0 };
    const missed = this.#missed;
    while (missed.seq < this.#feed.extent.latest && this.#isFull() && !this.#signal.aborted) {
      const events = await this.#feed.read(missed.seq);
      if (events.length === 0) break;
      for (const event of events) {
        if (this.#isWanted(event)) missed.bytes += event.json.length;
        missed.seq = event.seq;
      }
      if (missed.bytes > this.#limits.maxMissedBytes) return true;
    }
    return false;
  }

  /** Until the next poke, append, empty buffer or limit; not at all when one came since the pump last looked around. */
  async #sleep(): Promise<void> {
    if (this.#isWoken || this.#signal.aborted) return;
    const woken = new Promise<void>((resolve) => (this.#resume = resolve));
    if (this.#isFull()) this.#awaitDrain();
    const timer = this.#sink.bufferedBytes > 0 ? this.#watchStall() : undefined;
    await woken;
    clearTimeout(timer);
    this.#resume = undefined;
  }

  #awaitDrain(): void {
    if (this.#isAwaitingDrain) return;
    this.#isAwaitingDrain = true;
    void this.#sink.drained().then(() => {
      this.#isAwaitingDrain = false;
      this.poke();
    });
  }

  /** After a pause of the whole process, what left meanwhile is known only once the sockets had their turn. */
  #watchStall(): NodeJS.Timeout {
    const leftMs = this.#progressAt + this.#limits.stallMs - performance.now();
    return setTimeout(() => setImmediate(this.poke), Math.max(0, Math.ceil(leftMs)) + 1);
  }
}

/** Whether an event is one of those that are wanted. */
export function matchesFilter({ kinds, actionId: wanted }: EventFilter, kind: EventKind, actionId?: string): boolean {
  return (kinds === undefined || kinds.has(kind)) && (wanted === undefined || wanted === actionId);
}
