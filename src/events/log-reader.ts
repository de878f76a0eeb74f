import { hasCode } from './files.ts';
import { DamagedSegmentError, SegmentReader } from './segment-reader.ts';
import type { EventStore } from './store.ts';
import type { StoredEvent } from './types.ts';

const MIN_READ_BYTES = 64 * 1024;
/** A guess, to read no more of the disk than a few events need. */
const TYPICAL_EVENT_BYTES = 1024;

interface ReadLimits {
  readonly maxEvents: number;
  readonly maxBytes: number;
}

/** Gathers events in order up to the limits. */
class Page {
  readonly events: StoredEvent[] = [];
  readonly latest: number;
  readonly #limits: ReadLimits;
  #bytes = 0;
  isFull = false;
  /** The seq that comes next. */
  next: number;

  constructor(after: number, latest: number, limits: ReadLimits) {
    this.next = after + 1;
    this.latest = latest;
    this.#limits = limits;
  }

  /** False: the event was not taken. */
  readonly take = (event: StoredEvent): boolean => {
    const { maxEvents, maxBytes } = this.#limits;
    const { length } = event.json;
    this.isFull = this.events.length > 0 && (this.events.length >= maxEvents || this.#bytes + length > maxBytes);
    if (this.isFull || event.seq > this.latest) return false;
    this.events.push(event);
    this.#bytes += length;
    this.next = event.seq + 1;
    return true;
  };
}

/** Reads across segments and memory. */
export class LogReader {
  readonly #store: EventStore;
  readonly #files: SegmentReader;
  readonly #onProblem: (text: string) => void;

  constructor(directory: string, store: EventStore, onProblem: (text: string) => void) {
    this.#store = store;
    this.#files = new SegmentReader(directory);
    this.#onProblem = onProblem;
  }

  /** See `EventLog.read`. */
  async read(after: number, limits: ReadLimits): Promise<readonly StoredEvent[]> {
    const { oldest, latest, recent } = this.#store;
    const page = new Page(Math.max(after, oldest - 1), latest, limits);
    const sizeHint = Math.max(MIN_READ_BYTES, Math.min(limits.maxBytes, limits.maxEvents * TYPICAL_EVENT_BYTES));
    while (!page.isFull && page.next <= latest) {
      if (page.next >= recent.first) {
        recent.forEachFrom(page.next, page.take);
        break;
      }
      if (!(await this.#readSegment(page, sizeHint))) break;
      // What follows was dropped meanwhile: no gap within a page.
      if (page.next < this.#store.oldest && page.events.length > 0) break;
      page.next = Math.max(page.next, this.#store.oldest);
    }
    return page.events;
  }

  /** False: end here with what there is. */
  async #readSegment(page: Page, sizeHint: number): Promise<boolean> {
    const store = this.#store;
    const segment = store.segmentOf(page.next);
    if (!segment) throw new Error(`Event ${page.next} is in no segment of the event log.`);
    try {
      await this.#files.read(segment, page.next, sizeHint, page.take);
      return true;
    } catch (error) {
      const isDropped = !store.holds(segment);
      if (isDropped && hasCode(error, 'ENOENT')) return true;
      if (error instanceof DamagedSegmentError && (isDropped || store.discardThrough(segment))) {
        if (!isDropped) this.#onProblem(`${error.message} Events before ${store.oldest} are no longer readable.`);
        return true;
      }
      if (page.events.length > 0) return false;
      throw error;
    }
  }
}
