import { open } from 'node:fs/promises';
import path from 'node:path';
import { segmentName } from './files.ts';
import { parseHead } from './record.ts';
import { OFFSET_INTERVAL_BYTES, type Segment } from './segment-index.ts';
import { walkRecords } from './segment.ts';
import type { StoredEvent } from './types.ts';

/** So that many readers leave threads of the pool for the writer. */
const MAX_CONCURRENT_READS = 2;
const MAX_CHUNK_BYTES = 1024 * 1024;
/** Places where readers stopped, so that the next read begins right there. */
const MAX_BOOKMARKS = 512;

/** A record in the midst of a segment is not what was written. */
export class DamagedSegmentError extends Error {
  constructor(name: string, offset: number) {
    super(`The event log is damaged in ${name} at byte ${offset}.`);
    this.name = 'DamagedSegmentError';
  }
}

/** Reads events from segment files, a few readers at a time. */
export class SegmentReader {
  readonly #directory: string;
  readonly #waiting: (() => void)[] = [];
  #reading = 0;
  readonly #bookmarks = new Map<number, { readonly first: number; readonly offset: number }>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Offers the events of a segment from a seq on, until `take` does not take one. `sizeHint`: bytes the caller may want. */
  async read(segment: Segment, from: number, sizeHint: number, take: (event: StoredEvent) => boolean): Promise<void> {
    if (this.#reading >= MAX_CONCURRENT_READS) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    } else {
      this.#reading += 1;
    }
    try {
      await this.#read(segment, from, sizeHint, take);
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#reading -= 1;
    }
  }

  async #read(segment: Segment, from: number, sizeHint: number, take: (event: StoredEvent) => boolean): Promise<void> {
    const start = this.#startOf(segment, from);
    const name = segmentName(segment.first);
    const handle = await open(path.join(this.#directory, name), 'r');
    try {
      const skipped = start.seq === from ? 0 : OFFSET_INTERVAL_BYTES;
      const span = {
        from: start.offset,
        to: segment.bytes,
        chunkBytes: Math.min(sizeHint + skipped, MAX_CHUNK_BYTES),
      };
      let expected = start.seq;
      let isForeign = false;
      const { end, isDamaged } = await walkRecords(handle, span, (json, offset) => {
        const seq = expected;
        expected += 1;
        if (seq < from) return true;
        const head = parseHead(json);
        isForeign = head?.seq !== seq;
        if (!head || isForeign) return false;
        if (take({ seq, kind: head.kind, actionId: head.actionId, json })) return true;
        this.#setBookmark(seq, { first: segment.first, offset });
        return false;
      });
      if (isDamaged || isForeign) throw new DamagedSegmentError(name, end);
    } finally {
      await handle.close();
    }
  }

  #startOf(segment: Segment, seq: number): { readonly seq: number; readonly offset: number } {
    const bookmark = this.#bookmarks.get(seq);
    return bookmark?.first === segment.first ? { seq, offset: bookmark.offset } : segment.floor(seq);
  }

  #setBookmark(seq: number, bookmark: { readonly first: number; readonly offset: number }): void {
    this.#bookmarks.delete(seq);
    this.#bookmarks.set(seq, bookmark);
    for (const oldest of this.#bookmarks.keys()) {
      if (this.#bookmarks.size <= MAX_BOOKMARKS) break;
      this.#bookmarks.delete(oldest);
    }
  }
}
