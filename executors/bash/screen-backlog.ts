const INITIAL_BYTES = 64 * 1024;

const ESCAPE = 0x1b;
const OPENING_BRACKET = 0x5b;
const LETTER_M = 0x6d;
const LINE_FEED = 0x0a;
/** Line feed, vertical tab, form feed: each moves down. */
const LINE_ENDS = [0x0a, 0x0b, 0x0c];
const CARRIAGE_RETURN = 0x0d;

/** Bytes not yet parsed, in one piece. */
export class Backlog {
  bytes = Buffer.alloc(0);
  start = 0;
  end = 0;

  get length(): number {
    return this.end - this.start;
  }

  append(chunk: Buffer): void {
    if (this.end + chunk.length > this.bytes.length) this.#makeRoom(chunk.length);
    chunk.copy(this.bytes, this.end);
    this.end += chunk.length;
  }

  /** Forgets everything; a buffer of ordinary size is used again. */
  clear(): void {
    this.start = 0;
    this.end = 0;
    if (this.bytes.length > INITIAL_BYTES) this.bytes = Buffer.alloc(0);
  }

  skip(count: number): void {
    this.start += count;
    if (this.start < this.end) return;
    this.start = 0;
    this.end = 0;
  }

  /**
   * Where the last lines begin: the latest position after a CR LF with at least so many further
   * line feeds. -1 when there are fewer.
   */
  startOfLastLines(lines: number): number {
    const { bytes, start, end } = this;
    let found = 0;
    for (let at = bytes.lastIndexOf(LINE_FEED, end - 1); at > start; at = bytes.lastIndexOf(LINE_FEED, at - 1)) {
      if (found >= lines && bytes[at - 1] === CARRIAGE_RETURN) return at + 1;
      found += 1;
    }
    return -1;
  }

  /** Line feeds, vertical tabs and form feeds before a position. */
  countLineFeeds(position: number): number {
    const range = this.bytes.subarray(this.start, position);
    let count = 0;
    for (const byte of LINE_ENDS) {
      for (let at = range.indexOf(byte); at >= 0; at = range.indexOf(byte, at + 1)) count += 1;
    }
    return count;
  }

  #makeRoom(count: number): void {
    const { length } = this;
    const needed = length + count;
    // Moving is worth it only when it frees a good part, otherwise every append would move all.
    const fits = needed <= this.bytes.length && this.start >= this.bytes.length / 4;
    const target = fits ? this.bytes : Buffer.allocUnsafeSlow(sizeFor(needed, this.bytes.length));
    this.bytes.copy(target, 0, this.start, this.end);
    this.bytes = target;
    this.start = 0;
    this.end = length;
  }
}

function sizeFor(needed: number, current: number): number {
  let size = Math.max(INITIAL_BYTES, current);
  while (size < needed) size *= 2;
  return size;
}

/** Recognises output whose only escape sequences set colours, across chunk borders. */
export class ColourScan {
  /** Bytes of `ESC [` seen of a sequence not yet ended: 0 to 2. */
  #seen = 0;

  reset(): void {
    this.#seen = 0;
  }

  /** True when the chunk has nothing in it but text and colours; after false, `reset`. */
  accepts(chunk: Buffer): boolean {
    let at = 0;
    while (at < chunk.length) {
      if (this.#seen === 0) {
        at = chunk.indexOf(ESCAPE, at) + 1;
        if (at === 0) return true;
        this.#seen = 1;
      } else if (this.#seen === 1) {
        if (chunk[at] !== OPENING_BRACKET) return false;
        at += 1;
        this.#seen = 2;
      } else {
        const byte = chunk[at] ?? 0;
        const isParameter = byte >= 0x30 && byte <= 0x3b;
        if (!isParameter && byte !== LETTER_M) return false;
        if (byte === LETTER_M) this.#seen = 0;
        at += 1;
      }
    }
    return true;
  }
}
