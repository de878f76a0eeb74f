import { mkdir } from 'node:fs/promises';
import type { ActionEntry, KeyEntry } from './action-index.ts';
import { hasCode } from './files.ts';
import { GroupCommit, type CommitItem } from './group-commit.ts';
import { acquireLock } from './lock.ts';
import { LogReader } from './log-reader.ts';
import { encodeEvent, type EncodedEvent } from './record.ts';
import { recover, type Recovered } from './recovery.ts';
import { FRAME_BYTES } from './segment.ts';
import { EventStore } from './store.ts';
import type { EventReader, LogExtent, LoggedEvent, NewEvent, StoredEvent } from './types.ts';

const DEFAULT_SEGMENT_BYTES = 16 * 1024 * 1024;
/** Live output that waits for a slow disk. */
const MAX_QUEUED_OUTPUT_BYTES = 32 * 1024 * 1024;
/** What waits for a disk that takes nothing; observations beyond it are still taken, but only cut. */
const MAX_STALLED_BYTES = 1024 * 1024;
const MAX_STALLED_EVENTS = 1000;
/** How often age is looked at when nothing is appended. */
const TRIM_INTERVAL_MS = 60_000;

export interface EventLogOptions {
  /** Made if it is missing; nobody else's. */
  readonly directory: string;
  readonly maxBytes: number;
  readonly maxAgeMs: number;
  /** At most a quarter of `maxBytes` is used. */
  readonly segmentBytes?: number;
  /** Damage found, a disk that fails and one that works again. For the log of the server. */
  readonly onProblem?: (text: string, error?: unknown) => void;
  /** Old events were dropped. */
  readonly onTrim?: (extent: LogExtent) => void;
  readonly now?: () => Date;
}

export interface EventLogStats {
  /** On disk, large events beside the log included. */
  readonly bytes: number;
  readonly segments: number;
  readonly lastSyncMs: number;
  readonly syncs: number;
  readonly appended: number;
  /** Appends answered with -1. */
  readonly refused: number;
  readonly queuedEvents: number;
  readonly queuedBytes: number;
  readonly isWritable: boolean;
}

interface QueuedEvent extends EncodedEvent, CommitItem {}

/** The durable log of everything that happens. One per directory; see docs/event-log.md. */
export class EventLog implements EventReader {
  /** What was found when it was opened. */
  readonly recovered: {
    /** Actions without an observation, oldest first. */
    readonly openActions: readonly { readonly action_id: string; readonly seq: number }[];
    readonly cutBytes: number;
    /** It had been closed, or was new. */
    readonly wasClean: boolean;
  };
  readonly #options: EventLogOptions;
  readonly #now: () => Date;
  readonly #lock: { release(): Promise<void> };
  readonly #store: EventStore;
  readonly #reader: LogReader;
  readonly #commit: GroupCommit<QueuedEvent>;
  readonly #trimTimer: NodeJS.Timeout;
  readonly #listeners = new Set<(extent: LogExtent) => void>();
  readonly #idPrefix: string;
  #isNotifying = false;
  #hasFreed = false;
  #lastSeq: number;
  #appended = 0;
  #refused = 0;
  #closing: Promise<void> | undefined;

  /**
   * Takes the directory and recovers what is in it. Rejects with a {@link DirectoryInUseError} when another server that lives has it,
   * and when the log is of a newer version.
   */
  static async open(options: EventLogOptions): Promise<EventLog> {
    await mkdir(options.directory, { recursive: true, mode: 0o700 });
    const lock = await acquireLock(options.directory);
    try {
      const recovered = await recover(options.directory, (text, error) => options.onProblem?.(text, error));
      const log = new EventLog(options, lock, recovered);
      await log.#saveGeneration();
      return log;
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  private constructor(options: EventLogOptions, lock: { release(): Promise<void> }, recovered: Recovered) {
    this.#options = options;
    this.#now = options.now ?? (() => new Date());
    this.#lock = lock;
    this.#store = new EventStore(recovered, {
      directory: options.directory,
      maxBytes: options.maxBytes,
      maxAgeMs: options.maxAgeMs,
      segmentBytes: options.segmentBytes ?? DEFAULT_SEGMENT_BYTES,
      now: this.#now,
      onProblem: (text, error) => this.#report(text, error),
      onTrim: () => options.onTrim?.(this.extent),
    });
    this.#reader = new LogReader(options.directory, this.#store, (text) => this.#report(text));
    this.#lastSeq = this.#store.latest;
    this.#idPrefix = this.#store.generation.slice(0, 8);
    this.#commit = new GroupCommit(
      this.#lastSeq,
      (queue) => this.#write(queue),
      (error) => this.#reportState(error),
    );
    const { cutBytes, wasClean } = recovered;
    this.recovered = { openActions: this.#store.index.open(), cutBytes, wasClean };
    this.#store.trim();
    this.#trimTimer = setInterval(() => this.#store.trim(), TRIM_INTERVAL_MS).unref();
  }

  /** On a full disk it is tried again with each write; reading needs no file. */
  async #saveGeneration(): Promise<void> {
    await this.#store.saveGeneration().catch((error: unknown) => this.#reportState(error as Error));
  }

  /**
   * Gives the event the next seq and queues it; it is durable and readable after `flush(seq)`. Never throws.
   * Returns -1 when the event is not taken: the log is closed; or it is live output, and the disk fails or is far behind; or it is
   * an action or a server event, the disk fails, and too much waits already. Observations are always taken.
   */
  append(event: NewEvent): number {
    if (!this.#takes(event)) {
      this.#refused += 1;
      return -1;
    }
    const seq = this.#lastSeq + 1;
    const isStalled = this.#commit.error !== undefined && this.#commit.queuedBytes > MAX_STALLED_BYTES;
    const stamp = { seq, id: `${this.#idPrefix}-${seq}`, time: this.#now().toISOString() };
    const encoded = encodeEvent(event, stamp, !isStalled);
    if (encoded.problem !== undefined) this.#report(`Event ${seq} lost its payload.`, encoded.problem);
    this.#lastSeq = seq;
    this.#appended += 1;
    const bytes = FRAME_BYTES + encoded.json.length + (encoded.blob?.length ?? 0);
    const isUrgent = event.kind === 'action' || event.kind === 'observation';
    this.#commit.push({ ...encoded, seq, bytes, isUrgent });
    return seq;
  }

  /**
   * Resolves when all events up to `seq` (all so far, if it is not given) are on disk. Rejects with the disk's error when they could not
   * be written now; they stay queued. Rejects for -1, so that `flush(append(event))` says whether it is safe.
   */
  flush(seq: number = this.#lastSeq): Promise<void> {
    if (seq >= 0) return this.#commit.flush(seq);
    return Promise.reject(this.#commit.error ?? new Error('The event log did not take the event.'));
  }

  get extent(): LogExtent {
    const { generation, oldest, latest } = this.#store;
    return { stream: generation, oldest, latest };
  }

  /**
   * As {@link EventReader.read}. A reader whose place is dropped meanwhile gets what it had read so far, and from then on the oldest: a
   * gap between `after` and the first event. Rejects when the disk cannot be read, or the segment in use is damaged.
   */
  read(
    after: number,
    limits: { readonly maxEvents: number; readonly maxBytes: number },
  ): Promise<readonly StoredEvent[]> {
    return this.#reader.read(after, limits);
  }

  onAppend(listener: (extent: LogExtent) => void): { dispose(): void } {
    // A wrapper, so that the same function may listen twice.
    const own = (extent: LogExtent): void => listener(extent);
    this.#listeners.add(own);
    return { dispose: () => this.#listeners.delete(own) };
  }

  async load(seq: number): Promise<LoggedEvent | undefined> {
    const [stored] = await this.read(seq - 1, { maxEvents: 1, maxBytes: 1 });
    if (stored?.seq !== seq) return undefined;
    const event = JSON.parse(stored.json.toString()) as LoggedEvent;
    const reference = event['payload_ref'] as { bytes: number; sha256: string } | undefined;
    if (!reference) return event;
    const whole = await this.#store.blobs.read(seq, reference);
    if (whole) return JSON.parse(whole.toString()) as LoggedEvent;
    if (seq >= this.extent.oldest)
      this.#report(`The whole of event ${seq} is missing or damaged beside the event log.`);
    return event;
  }

  /** Actions that the log keeps, by id, in the order of their first event. */
  actions(): ReadonlyMap<string, ActionEntry> {
    return this.#store.index.entries;
  }

  find(actionId: string): ActionEntry | undefined {
    return this.#store.index.find(actionId);
  }

  /** The action that was begun under an idempotency key, and the hash of its body. */
  byKey(key: string): KeyEntry | undefined {
    return this.#store.index.byKey(key);
  }

  stats(): EventLogStats {
    const { bytes, segmentCount: segments, lastSyncMs, syncs } = this.#store;
    const { queuedItems: queuedEvents, queuedBytes, error } = this.#commit;
    const isWritable = error === undefined && this.#closing === undefined;
    const [appended, refused] = [this.#appended, this.#refused];
    return { bytes, segments, lastSyncMs, syncs, appended, refused, queuedEvents, queuedBytes, isWritable };
  }

  /** Writes what is queued and lets the directory go; never rejects. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    clearInterval(this.#trimTimer);
    await this.flush().catch((error: unknown) => {
      this.#report(`The event log was closed without its last ${this.#commit.queuedItems} events.`, error);
    });
    this.#commit.stop();
    await this.#store.close();
    await this.#lock.release();
  }

  #takes({ kind }: NewEvent): boolean {
    if (this.#closing) return false;
    const { error, queuedBytes, queuedItems } = this.#commit;
    if (kind === 'observation') return true;
    if (!error) return kind !== 'output' || queuedBytes < MAX_QUEUED_OUTPUT_BYTES;
    return kind !== 'output' && queuedBytes < MAX_STALLED_BYTES && queuedItems < MAX_STALLED_EVENTS;
  }

  async #write(queue: readonly QueuedEvent[]): Promise<number> {
    let written: number;
    try {
      written = await this.#store.write(queue);
    } catch (error) {
      if (!hasCode(error, 'ENOSPC', 'EDQUOT')) throw error;
      // Room is made once until a write succeeds: whatever eats the disk must not eat the whole log.
      if (!this.#hasFreed) await this.#store.free();
      this.#hasFreed = true;
      written = await this.#store.write(queue, true);
    }
    this.#hasFreed = false;
    this.#notify();
    return written;
  }

  /** Listeners hear of many writes at once when they come fast. */
  #notify(): void {
    if (this.#isNotifying || this.#listeners.size === 0) return;
    this.#isNotifying = true;
    setImmediate(() => {
      this.#isNotifying = false;
      const { extent } = this;
      for (const listener of this.#listeners) {
        try {
          listener(extent);
        } catch (error) {
          this.#report('A listener of the event log failed.', error);
        }
      }
    });
  }

  #report(text: string, error?: unknown): void {
    this.#options.onProblem?.(text, error);
  }

  #reportState(error: Error | undefined): void {
    if (error) this.#report('The event log cannot be written; actions are refused until it can.', error);
    else this.#report('The event log can be written again.');
  }
}
