import { EventFeed } from '../src/events/subscription-feed.ts';
import { type Subscription, SUBSCRIPTION_LIMITS, type SubscriptionEnd } from '../src/events/subscription.ts';
import type { EventReader } from '../src/events/types.ts';
import type { Guard } from '../src/guard.ts';
import type { Logger } from '../src/telemetry/logger.ts';

export interface EventStreamOptions {
  readonly reader: EventReader;
  readonly guard: Guard;
  readonly log: Logger;
  /** Subscribers at a time; as many connections again may be waiting to show their key. */
  readonly maxSubscribers?: number;
  readonly authLimitMs?: number;
  /** Between pings; the answer must come before the next. */
  readonly pingMs?: number;
  /**
   * How long a connection that is told to close may take to do so, and while the server shuts down. A reader that had stalled
   * learns why it was closed only if it reads again before that.
   */
  readonly closeLimitMs?: number;
  readonly shutdownLimitMs?: number;
  readonly maxMissedBytes?: number;
  readonly stallMs?: number;
}

const DEFAULTS = {
  maxSubscribers: 256,
  authLimitMs: 10_000,
  pingMs: 20_000,
  closeLimitMs: 30_000,
  shutdownLimitMs: 300,
  ...SUBSCRIPTION_LIMITS,
} as const;

/** One connection, whatever its transport. */
export interface Peer {
  /** Sends a sign of life, and ends when the other side gave none. */
  beat(): void;
  /** Says that the server goes, and closes. */
  leave(): void;
  /** Ends at once. */
  cut(): void;
}

/** All readers of the event stream of one server. */
export class EventStreams {
  readonly options: Required<EventStreamOptions>;
  readonly feed: EventFeed;
  /** For the metrics: how many follow now, and how many were closed because they did not keep up. */
  readonly counters = { subscribers: 0, droppedReaders: 0 };
  readonly #peers = new Set<Peer>();
  #ticker: NodeJS.Timeout | undefined;
  #whenEmpty: (() => void) | undefined;
  #isClosing = false;

  constructor(options: EventStreamOptions) {
    this.options = { ...DEFAULTS, ...options };
    this.feed = new EventFeed(options.reader);
  }

  get isClosing(): boolean {
    return this.#isClosing;
  }

  get isFull(): boolean {
    return this.counters.subscribers >= this.options.maxSubscribers;
  }

  /** Whether too many connections are there that do not follow. */
  get isCrowded(): boolean {
    return this.#peers.size - this.counters.subscribers >= this.options.maxSubscribers;
  }

  /** From now until `remove` it is pinged, and closed with the server. */
  add(peer: Peer): void {
    this.#peers.add(peer);
    this.#ticker ??= setInterval(() => this.#beat(), this.options.pingMs).unref();
  }

  remove(peer: Peer): void {
    this.#peers.delete(peer);
    if (this.#peers.size > 0) return;
    clearInterval(this.#ticker);
    this.#ticker = undefined;
    this.#whenEmpty?.();
  }

  /** Lets a subscription run, and counts it meanwhile. */
  async follow(subscription: Subscription): Promise<SubscriptionEnd | 'failed'> {
    this.counters.subscribers += 1;
    try {
      const end = await subscription.run();
      if (end === 'slow') this.counters.droppedReaders += 1;
      return end;
    } catch (error) {
      this.options.log.error({ err: error }, 'events could not be read');
      return 'failed';
    } finally {
      this.counters.subscribers -= 1;
    }
  }

  /** Closes all connections, and refuses new ones; those that do not go in time are cut. */
  async closeAll(): Promise<void> {
    this.#isClosing = true;
    if (this.#peers.size === 0) return;
    const gone = new Promise<void>((resolve) => (this.#whenEmpty = resolve));
    for (const peer of this.#peers) peer.leave();
    const limit = setTimeout(() => this.#cut(), this.options.shutdownLimitMs);
    await gone;
    clearTimeout(limit);
  }

  #cut(): void {
    for (const peer of this.#peers) peer.cut();
  }

  #beat(): void {
    for (const peer of this.#peers) peer.beat();
  }
}
