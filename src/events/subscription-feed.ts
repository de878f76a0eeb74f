import type { EventReader, LogExtent, StoredEvent } from './types.ts';

/** What a subscriber takes at once; together with what may still be in its buffer, well under what that may hold. */
const BATCH = { maxEvents: 2048, maxBytes: 256 * 1024 } as const;

/**
 * Waking a subscriber costs a system call and its reading about as much again. So that following costs the server a small
 * share of its time whatever the number of followers, wake-ups of many come no closer than this; those of one or two at once.
 */
const WAKE_SPACING_MS_EACH = 0.4;
const MAX_WAKE_SPACING_MS = 40;

/** What the subscribers of one log share: each stretch of it is read once for all who wait for it, and one listener wakes them. */
export class EventFeed {
  readonly #reader: EventReader;
  readonly #reads = new Map<number, Promise<readonly StoredEvent[]>>();
  readonly #followers = new Set<() => void>();
  readonly #wakeAll = (): void => this.#wakeFollowers();
  #listening: { dispose(): void } | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #timer: NodeJS.Timeout | undefined;
  #wokenAt = -Infinity;

  constructor(reader: EventReader) {
    this.#reader = reader;
  }

  get extent(): LogExtent {
    return this.#reader.extent;
  }

  /** The next batch after a seq; whoever asks for the same while it is being read gets the same buffers. */
  read(after: number): Promise<readonly StoredEvent[]> {
    const pending = this.#reads.get(after);
    if (pending) return pending;
    const reading = this.#reader.read(after, BATCH).finally(() => this.#reads.delete(after));
    this.#reads.set(after, reading);
    return reading;
  }

  /** Calls back some time after events were appended, once for many of them, until disposed. */
  follow(wake: () => void): { dispose(): void } {
    this.#followers.add(wake);
    this.#listening ??= this.#reader.onAppend(() => this.#scheduleWake());
    return { dispose: () => this.#unfollow(wake) };
  }

  #unfollow(wake: () => void): void {
    this.#followers.delete(wake);
    if (this.#followers.size > 0) return;
    this.#listening?.dispose();
    this.#listening = undefined;
    clearImmediate(this.#immediate);
    clearTimeout(this.#timer);
    this.#immediate = this.#timer = undefined;
  }

  /** Never in the writer's own turn: whoever waits for the append goes first. */
  #scheduleWake(): void {
    if (this.#immediate ?? this.#timer) return;
    const size = this.#followers.size;
    const spacingMs = size < 3 ? 0 : Math.min(MAX_WAKE_SPACING_MS, size * WAKE_SPACING_MS_EACH);
    const waitMs = this.#wokenAt + spacingMs - performance.now();
    if (waitMs > 0) this.#timer = setTimeout(this.#wakeAll, waitMs);
    else this.#immediate = setImmediate(this.#wakeAll);
  }

  #wakeFollowers(): void {
    this.#immediate = this.#timer = undefined;
    this.#wokenAt = performance.now();
    for (const wake of this.#followers) wake();
  }
}
