import { randomBytes } from 'node:crypto';

const BARRIER_START = '\u001b]';
const BARRIER_END = 0x07;
const TOKEN_CHARS = 32;
const BARRIER_BYTES = BARRIER_START.length + TOKEN_CHARS + 1;
const HEX = /^[\da-f]*$/;

/** What stands in a terminal's output: bytes of programs, or the token of a barrier. */
export type TerminalPart = Buffer | string;

/**
 * Takes the barriers out of one terminal's output: the one that is waited for, and those of reports that were asked for besides, which
 * may come while a later command runs. All tokens of a terminal begin alike, so that none has to be remembered.
 */
export class Barriers {
  readonly #prefix = randomBytes(TOKEN_CHARS / 4).toString('hex');
  readonly #start = Buffer.from(BARRIER_START + this.#prefix, 'latin1');
  /** What may be the beginning of a barrier. */
  #held: Buffer | undefined;

  /** Unguessable. */
  newToken(): string {
    return this.#prefix + randomBytes(TOKEN_CHARS / 4).toString('hex');
  }

  /** Output and barriers in their order; an unfinished barrier waits for the next chunk. */
  split(chunk: Buffer): TerminalPart[] {
    const bytes = this.#held ? Buffer.concat([this.#held, chunk]) : chunk;
    const parts: TerminalPart[] = [];
    let from = 0;
    for (let at = bytes.indexOf(0x1b); at >= 0; at = bytes.indexOf(0x1b, at + 1)) {
      if (!this.#mayBeBarrier(bytes, at)) continue;
      if (at > from) parts.push(bytes.subarray(from, at));
      from = at;
      if (bytes.length - at < BARRIER_BYTES) break;
      parts.push(bytes.toString('latin1', at + BARRIER_START.length, at + BARRIER_BYTES - 1));
      from = at + BARRIER_BYTES;
      at = from - 1;
    }
    const isHeld = from < bytes.length && this.#mayBeBarrier(bytes, from);
    this.#held = isHeld ? bytes.subarray(from) : undefined;
    if (!isHeld && from < bytes.length) parts.push(bytes.subarray(from));
    return parts;
  }

  /** What still waits, when no more comes. */
  rest(): Buffer | undefined {
    const held = this.#held;
    this.#held = undefined;
    return held;
  }

  /** Whether a barrier, or as much of one as there is, stands at a place. */
  #mayBeBarrier(bytes: Buffer, at: number): boolean {
    const found = bytes.subarray(at, at + BARRIER_BYTES);
    const head = Math.min(found.length, this.#start.length);
    if (!found.subarray(0, head).equals(this.#start.subarray(0, head))) return false;
    const isWhole = found.length === BARRIER_BYTES;
    if (isWhole && found[BARRIER_BYTES - 1] !== BARRIER_END) return false;
    return HEX.test(found.toString('latin1', head, isWhole ? BARRIER_BYTES - 1 : found.length));
  }
}
