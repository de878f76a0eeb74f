import { rm } from 'node:fs/promises';
import path from 'node:path';
import { ActionIndex } from './action-index.ts';
import { MAX_ASIDE_BYTES, setAside, trimAside } from './aside.ts';
import { BlobStore } from './blob-store.ts';
import { indexName, segmentName } from './files.ts';
import { type Generations, saveGenerations } from './generation.ts';
import { RecentEvents } from './recent-events.ts';
import type { EncodedEvent } from './record.ts';
import { writeIndex, type Recovered } from './recovery.ts';
import { countExpired, type RetentionLimits } from './retention.ts';
import { FRAME_BYTES, frameRecords } from './segment.ts';
import { Segment } from './segment-index.ts';
import { SegmentWriter } from './segment-writer.ts';

const RECENT_BYTES = 1024 * 1024;
/** One write takes no more, unless a single event is larger. */
const MAX_BATCH_BYTES = 4 * 1024 * 1024;
/** So that retention, which goes by whole segments, can keep near its limit. */
const MIN_SEGMENTS = 4;

export interface StoreOptions extends RetentionLimits {
  readonly directory: string;
  readonly segmentBytes: number;
  readonly now: () => Date;
  readonly onProblem: (text: string, error?: unknown) => void;
  /** Events before `oldest` are no longer kept. */
  readonly onTrim: () => void;
}

/** The events on disk and what is known of them in memory. One call of `write` at a time. */
export class EventStore {
  readonly generation: string;
  readonly index = new ActionIndex();
  readonly recent = new RecentEvents(RECENT_BYTES);
  readonly blobs: BlobStore;
  readonly #options: StoreOptions;
  /** Oldest first; the last one is in use. */
  readonly #segments: Segment[];
  /** Undefined when they are on disk. */
  #unsaved: Generations | undefined;
  #writer: SegmentWriter | undefined;
  #latest: number;
  /** File removals and index writes, one after another. */
  #housekeeping: Promise<void> = Promise.resolve();
  lastSyncMs = 0;
  syncs = 0;

  constructor(recovered: Recovered, options: StoreOptions) {
    this.#options = options;
    this.generation = recovered.generations.current;
    this.#unsaved = recovered.isGenerationSaved ? undefined : recovered.generations;
    this.#segments = recovered.segments;
    this.blobs = new BlobStore(options.directory);
    this.#latest = this.#segments.at(-1)?.last ?? 0;
    for (const segment of this.#segments) this.index.addSegment(segment);
    const last = this.#segments.at(-1);
    if (last) this.#do(() => this.#removeFile(indexName(last.first)));
  }

  get latest(): number {
    return this.#latest;
  }

  /** 0 while there has been no event; `latest + 1` when none is left. */
  get oldest(): number {
    return this.#latest === 0 ? 0 : (this.#segments[0]?.first ?? this.#latest + 1);
  }

  get bytes(): number {
    return this.#segments.reduce((sum, { weight }) => sum + weight, 0);
  }

  get segmentCount(): number {
    return this.#segments.length;
  }

  /** The segment that holds a seq. */
  segmentOf(seq: number): Segment | undefined {
    return this.#segments.findLast(({ first }) => first <= seq);
  }

  /** Whether a segment has not been dropped. */
  holds(segment: Segment): boolean {
    return this.#segments.includes(segment);
  }

  /**
   * Makes the first events of a queue durable and readable, as many as go in one write; resolves with their number. With
   * `mayLoseBlobs` a whole large event for which there is no room is given up; its cut record is not.
   */
  async write(queue: readonly EncodedEvent[], mayLoseBlobs = false): Promise<number> {
    const [event] = queue;
    if (!event) return 0;
    await this.saveGeneration();
    const segment = await this.#segmentFor(event);
    const batch = this.#take(queue, segment);
    const blobs = batch.flatMap(({ head, blob }) => (blob ? [{ seq: head.seq, data: blob }] : []));
    if (blobs.length > 0) await this.#writeBlobs(blobs, mayLoseBlobs);
    await this.#writeRecords(segment, frameRecords(batch.map(({ json }) => json)));
    for (const { head, key, json } of batch) {
      segment.add(head, key, json.length);
      this.index.add(head, key);
      this.recent.push({ seq: head.seq, kind: head.kind, actionId: head.actionId, json });
    }
    this.#latest = segment.last;
    this.trim();
    return batch.length;
  }

  /** Before the first event of a new generation; a full disk may not take it at once. */
  async saveGeneration(): Promise<void> {
    if (!this.#unsaved) return;
    await saveGenerations(this.#options.directory, this.#unsaved);
    this.#unsaved = undefined;
  }

  /** Drops what is over the limits. */
  trim(): void {
    this.#drop(countExpired(this.#segments, this.#options, this.#options.now().getTime()));
  }

  /** Makes room on a full disk: what was set aside goes, and the oldest segment unless the newest event is in it. */
  async free(): Promise<void> {
    await trimAside(this.#options.directory, 0);
    if (this.#segments[1]?.isEmpty === false) this.#drop(1);
    await this.#housekeeping;
  }

  /** Gives up a damaged segment and all before it; false when it is the one in use. */
  discardThrough(segment: Segment): boolean {
    const at = this.#segments.indexOf(segment);
    if (at === this.#segments.length - 1) return false;
    this.#drop(at + 1, segment);
    return true;
  }

  /** Ends housekeeping and closes the file; what is indexed opens fast. */
  async close(): Promise<void> {
    const writer = this.#writer;
    this.#writer = undefined;
    this.#do(async () => writer?.close());
    const last = this.#segments.at(-1);
    if (last) this.#do(() => writeIndex(this.#options.directory, last, this.generation));
    await this.#housekeeping;
  }

  async #segmentFor(event: EncodedEvent): Promise<Segment> {
    const { directory } = this.#options;
    const current = this.#segments.at(-1);
    if (current && !this.#isFull(current, event)) {
      this.#writer ??= await SegmentWriter.reopen(directory, current.first, current.bytes);
      return current;
    }
    const writer = await SegmentWriter.create(directory, event.head.seq, this.generation);
    const sealed = this.#writer;
    this.#writer = writer;
    if (current) {
      this.#do(async () => {
        await sealed?.close();
        await writeIndex(directory, current, this.generation);
      });
    }
    const segment = new Segment(event.head.seq);
    this.#segments.push(segment);
    return segment;
  }

  #isFull(segment: Segment, { json }: EncodedEvent): boolean {
    if (segment.isEmpty) return false;
    const { maxBytes, maxAgeMs, segmentBytes, now } = this.#options;
    const share = maxBytes / MIN_SEGMENTS;
    const isOld = now().getTime() - Date.parse(segment.fields.firstTime) > maxAgeMs;
    return (
      isOld || segment.weight >= share || segment.bytes + FRAME_BYTES + json.length > Math.min(segmentBytes, share)
    );
  }

  #take(queue: readonly EncodedEvent[], segment: Segment): readonly EncodedEvent[] {
    const { segmentBytes, maxBytes } = this.#options;
    const room = Math.min(MAX_BATCH_BYTES, Math.min(segmentBytes, maxBytes / MIN_SEGMENTS) - segment.bytes);
    let bytes = 0;
    const end = queue.findIndex(({ json, blob }, at) => {
      bytes += FRAME_BYTES + json.length + (blob?.length ?? 0);
      return at > 0 && bytes > room;
    });
    return end === -1 ? queue.slice() : queue.slice(0, end);
  }

  async #writeBlobs(
    blobs: readonly { readonly seq: number; readonly data: Buffer }[],
    mayLose: boolean,
  ): Promise<void> {
    try {
      await this.blobs.write(blobs);
    } catch (error) {
      await this.blobs.remove(blobs.map(({ seq }) => seq));
      if (!mayLose) throw error;
    }
  }

  async #writeRecords(segment: Segment, data: Buffer): Promise<void> {
    const writer = this.#writer;
    if (!writer) throw new Error('The event log is closed.');
    const start = performance.now();
    try {
      await writer.write(data, segment.bytes);
    } catch (error) {
      this.#writer = undefined;
      // The next attempt reopens the file, and cuts it again if this fails.
      await writer.truncate(segment.bytes).catch(ignore);
      await writer.close().catch(ignore);
      throw error;
    }
    this.lastSyncMs = performance.now() - start;
    this.syncs += 1;
  }

  #drop(count: number, damaged?: Segment): void {
    if (count === 0) return;
    const dropped = this.#segments.splice(0, count);
    for (const segment of dropped) {
      this.index.removeSegment(segment);
      this.#do(() => this.#removeSegment(segment, segment === damaged));
    }
    this.#options.onTrim();
  }

  /** The segment first: what belongs to none is removed at the next start. */
  async #removeSegment({ first, fields }: Segment, isDamaged: boolean): Promise<void> {
    if (isDamaged) {
      await setAside(this.#options.directory, segmentName(first));
      await trimAside(this.#options.directory, MAX_ASIDE_BYTES);
    } else {
      await this.#removeFile(segmentName(first));
    }
    await this.#removeFile(indexName(first));
    await this.blobs.remove(fields.blobs.map(([seq]) => seq));
  }

  #removeFile(name: string): Promise<void> {
    return rm(path.join(this.#options.directory, name), { force: true });
  }

  #do(task: () => Promise<void>): void {
    this.#housekeeping = this.#housekeeping.then(task).catch((error: unknown) => {
      this.#options.onProblem('The event log could not tidy up its files.', error);
    });
  }
}

function ignore(): void {
  // The error before it is the one that counts.
}
