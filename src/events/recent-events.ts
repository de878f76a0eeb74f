import type { StoredEvent } from './types.ts';

/** What an event costs beside its JSON. A guess on the safe side. */
const OVERHEAD_BYTES = 256;

/** The newest events, so that readers near the end need no disk. */
export class RecentEvents {
  readonly #maxBytes: number;
  #events: StoredEvent[] = [];
  /** Events before this index are gone; the array is shortened now and then. */
  #start = 0;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The oldest seq held, Infinity when there is none. */
  get first(): number {
    return this.#events[this.#start]?.seq ?? Infinity;
  }

  push(event: StoredEvent): void {
    this.#events.push(event);
    this.#bytes += event.json.length + OVERHEAD_BYTES;
    while (this.#bytes > this.#maxBytes) {
      this.#bytes -= (this.#events[this.#start]?.json.length ?? 0) + OVERHEAD_BYTES;
      this.#start += 1;
    }
    // Lets the dropped ones go before they are many.
    if (this.#start > 1024 && this.#start * 2 > this.#events.length) {
      this.#events = this.#events.slice(this.#start);
      this.#start = 0;
    }
  }

  /** Events from a seq that is held, until `take` says no. */
  forEachFrom(seq: number, take: (event: StoredEvent) => boolean): void {
    for (let at = this.#start + seq - this.first; at < this.#events.length; at += 1) {
      const event = this.#events[at];
      if (!event || !take(event)) return;
    }
  }
}
