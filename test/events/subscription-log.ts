import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import type { EventKind, EventReader, LogExtent, LoggedEvent, StoredEvent } from '../../src/events/types.ts';

type Listener = (extent: LogExtent) => void;

export interface Draft {
  readonly kind?: EventKind;
  readonly actionId?: string;
  /** Size of the whole JSON at least. */
  readonly bytes?: number;
}

/** A log in memory that keeps the rules of `EventReader`; reads take as long as `delays` says, in turn. */
export class MemoryLog implements EventReader {
  /** Everything that was ever appended, also what is trimmed. */
  readonly history: StoredEvent[] = [];
  reads = 0;
  fails = false;
  stream: string;
  #oldest = 0;
  readonly #delays: readonly number[];
  readonly #listeners = new Set<Listener>();

  /** @param delays of reads: -1 none, 0 one turn of the event loop, else milliseconds */
  constructor(stream = 'g1', delays: readonly number[] = [-1]) {
    this.stream = stream;
    this.#delays = delays;
  }

  get extent(): LogExtent {
    return { stream: this.stream, oldest: this.#oldest, latest: this.history.length };
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  append(...drafts: readonly Draft[]): void {
    for (const draft of drafts) this.history.push(stored(this.history.length + 1, draft));
    if (this.#oldest === 0 && this.history.length > 0) this.#oldest = 1;
    for (const listener of this.#listeners) listener(this.extent);
  }

  appendMany(count: number, draft: Draft = {}): void {
    this.append(...Array.from({ length: count }, () => draft));
  }

  /** Drops all that is older than `oldest`. */
  trim(oldest: number): void {
    this.#oldest = Math.max(this.#oldest, Math.min(oldest, this.history.length));
  }

  /** Begins anew: another generation, nothing in it. */
  restart(stream: string): void {
    this.stream = stream;
    this.history.length = 0;
    this.#oldest = 0;
  }

  async read(
    after: number,
    { maxEvents, maxBytes }: { maxEvents: number; maxBytes: number },
  ): Promise<readonly StoredEvent[]> {
    const wait = this.#delays[this.reads++ % this.#delays.length] ?? -1;
    if (wait > 0) await delay(wait);
    else if (wait === 0) await nextTurn();
    if (this.fails) throw new Error('the disk is gone');
    const batch: StoredEvent[] = [];
    let bytes = 0;
    for (const event of this.history.slice(Math.max(after, this.#oldest - 1), this.history.length)) {
      bytes += event.json.length;
      if (batch.length > 0 && (batch.length >= maxEvents || bytes > maxBytes)) break;
      batch.push(event);
    }
    return batch;
  }

  onAppend(listener: Listener): { dispose(): void } {
    this.#listeners.add(listener);
    return { dispose: () => void this.#listeners.delete(listener) };
  }

  async load(seq: number): Promise<LoggedEvent | undefined> {
    const event = seq < this.#oldest ? undefined : this.history[seq - 1];
    return event && (JSON.parse(event.json.toString()) as LoggedEvent);
  }
}

function stored(seq: number, { kind = 'output', actionId = 'a1', bytes = 0 }: Draft): StoredEvent {
  const owner = kind === 'server' ? {} : { action_id: actionId };
  const event = { seq, id: `e${seq}`, time: new Date(0).toISOString(), kind, ...owner };
  const missing = bytes - JSON.stringify({ ...event, text: '' }).length;
  const json = Buffer.from(JSON.stringify({ ...event, text: 'x'.repeat(Math.max(0, missing)) }));
  return { seq, kind, actionId: kind === 'server' ? undefined : actionId, json };
}
