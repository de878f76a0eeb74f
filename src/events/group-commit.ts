/** Between two writes of what nobody waits for. */
const LAZY_INTERVAL_MS = 20;
/** Between two attempts after a failure, when nobody asks earlier. */
const RETRY_INTERVAL_MS = 1000;

export interface CommitItem {
  readonly seq: number;
  readonly bytes: number;
  /** Goes out at once, and takes all before it along. */
  readonly isUrgent: boolean;
}

interface Waiter {
  readonly seq: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/**
 * A queue before a slow medium: one write at a time, and what comes meanwhile goes out together as the next. After a failed
 * write all stays queued; it is tried again on the next urgent item, on the next `flush`, and once a second.
 */
export class GroupCommit<T extends CommitItem> {
  /** Makes items from the head of the queue durable, at least one; resolves with how many. */
  readonly #write: (queue: readonly T[]) => Promise<number>;
  readonly #onStateChange: (error: Error | undefined) => void;
  readonly #queue: T[] = [];
  readonly #waiters: Waiter[] = [];
  #queuedBytes = 0;
  #queuedSeq: number;
  #durableSeq: number;
  #urgentSeq = 0;
  #lastStart = -Infinity;
  #isRunning = false;
  #error: Error | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    lastSeq: number,
    write: (queue: readonly T[]) => Promise<number>,
    onStateChange: (error: Error | undefined) => void,
  ) {
    this.#queuedSeq = lastSeq;
    this.#durableSeq = lastSeq;
    this.#write = write;
    this.#onStateChange = onStateChange;
  }

  /** Why the last write failed; undefined when it did not. */
  get error(): Error | undefined {
    return this.#error;
  }

  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  get queuedItems(): number {
    return this.#queue.length;
  }

  push(item: T): void {
    this.#queue.push(item);
    this.#queuedBytes += item.bytes;
    this.#queuedSeq = item.seq;
    if (item.isUrgent) this.#urgentSeq = item.seq;
    if (!this.#error || item.isUrgent) this.#schedule();
  }

  /** Resolves when all up to a seq is durable, rejects when a write fails before. */
  flush(seq: number): Promise<void> {
    const wanted = Math.min(seq, this.#queuedSeq);
    if (wanted <= this.#durableSeq) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#waiters.push({ seq: wanted, resolve, reject });
      this.#schedule();
    });
  }

  /** No further attempts; what is queued is given up. */
  stop(): void {
    this.#stopTimer();
    this.#queue.length = 0;
    this.#queuedBytes = 0;
  }

  get #isUrgent(): boolean {
    return this.#waiters.length > 0 || this.#urgentSeq > this.#durableSeq;
  }

  #schedule(): void {
    if (this.#isRunning || this.#queue.length === 0) return;
    const delay = this.#isUrgent ? 0 : this.#lastStart + LAZY_INTERVAL_MS - performance.now();
    if (delay > 0) {
      this.#timer ??= setTimeout(() => this.#start(), delay);
    } else {
      this.#start();
    }
  }

  #start(): void {
    this.#stopTimer();
    if (this.#isRunning) return;
    this.#isRunning = true;
    // After the code that appends now, which may append more.
    queueMicrotask(() => void this.#run());
  }

  async #run(): Promise<void> {
    let isFailed = false;
    while (this.#queue.length > 0) {
      this.#lastStart = performance.now();
      try {
        this.#remove(await this.#write(this.#queue));
      } catch (error) {
        isFailed = true;
        this.#fail(error instanceof Error ? error : new Error(String(error)));
      }
      if (isFailed || !this.#isUrgent) break;
    }
    this.#isRunning = false;
    if (!isFailed) this.#schedule();
  }

  #remove(count: number): void {
    const done = this.#queue.splice(0, count);
    for (const { bytes } of done) this.#queuedBytes -= bytes;
    this.#durableSeq = done.at(-1)?.seq ?? this.#durableSeq;
    if (this.#error) {
      this.#error = undefined;
      this.#onStateChange(undefined);
    }
    const waiting = this.#waiters.splice(0);
    for (const waiter of waiting) {
      if (waiter.seq <= this.#durableSeq) waiter.resolve();
      else this.#waiters.push(waiter);
    }
  }

  #fail(error: Error): void {
    const isNew = this.#error === undefined;
    this.#error = error;
    if (isNew) this.#onStateChange(error);
    for (const { reject } of this.#waiters.splice(0)) reject(error);
    this.#stopTimer();
    this.#timer = setTimeout(() => this.#start(), RETRY_INTERVAL_MS).unref();
  }

  #stopTimer(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
