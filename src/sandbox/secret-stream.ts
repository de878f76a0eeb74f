import { PatternSet } from './pattern-set.ts';

/** What stands in place of a secret. */
export const MASK = '<secret_hidden>';

/** A part of the text that is masked: one secret, or several that overlap. */
interface Region {
  readonly from: number;
  readonly to: number;
}

/**
 * Masks one text that comes in pieces. What may be the beginning of a secret waits for the next piece, even if a shorter secret ends
 * there; so the result is the same however the text is cut. Secrets that are registered meanwhile count from then on.
 */
export class SecretStream {
  readonly #current: () => PatternSet;
  #patterns: PatternSet;
  #state = PatternSet.START;
  #held = '';
  /** How many characters of what is held have been given out, as they are or masked. */
  #given = 0;
  /** In what is held, in order. */
  #regions: Region[] = [];

  /** @param current the secrets as they are now */
  constructor(current: () => PatternSet) {
    this.#current = current;
    this.#patterns = current();
  }

  /** Whether all passes as it is: there is no secret, and nothing waits. */
  get isIdle(): boolean {
    if (this.#patterns !== this.#current()) this.#renew();
    return this.#patterns.isEmpty && this.#held === '';
  }

  /** What can be shown of the text so far, and was not before. */
  push(piece: string): string {
    if (this.isIdle) return piece;
    const text = this.#held === '' ? piece : this.#held + piece;
    this.#scan(text, this.#held.length);
    return this.#give(text, text.length - this.#patterns.pending(this.#state));
  }

  /**
   * Gives out what waits if it is at most so many characters; they are shown, but if they prove to be the beginning of a secret the rest of
   * it is masked.
   */
  giveShort(maxChars: number): string {
    if (this.#held.length > maxChars || this.#regions.length > 0) return '';
    const shown = this.#held.slice(this.#given);
    this.#given = this.#held.length;
    return shown;
  }

  /** What still waits, when no more comes; then a new text may begin. */
  end(): string {
    const rest = this.#give(this.#held, this.#held.length);
    this.#state = PatternSet.START;
    return rest;
  }

  #renew(): void {
    this.#patterns = this.#current();
    this.#state = PatternSet.START;
    this.#scan(this.#held, 0);
  }

  #scan(text: string, offset: number): void {
    this.#state = this.#patterns.scan(text, offset, this.#state, (start, end) => {
      let from = start;
      for (let last = this.#regions.at(-1); last !== undefined && last.to > from; last = this.#regions.at(-1)) {
        from = Math.min(from, last.from);
        this.#regions.pop();
      }
      this.#regions.push({ from, to: end });
    });
  }

  /** Gives out the text before a place; no secret that goes on can begin before it. */
  #give(text: string, safe: number): string {
    const isUntouched = this.#regions.length === 0 && this.#given === 0;
    if (isUntouched && safe === text.length) {
      this.#held = '';
      return text;
    }
    let shown = '';
    let at = this.#given;
    const kept: Region[] = [];
    for (const { from, to } of this.#regions) {
      if (from >= safe) {
        kept.push({ from: from - safe, to: to - safe });
        continue;
      }
      // One of which a mask stands there already has been given out to its end.
      if (at < to) shown += text.slice(at, Math.max(at, from)) + (from < 0 ? '' : MASK);
      at = Math.max(at, to);
      if (to > safe) kept.push({ from: -1, to: to - safe });
    }
    if (at < safe) shown += text.slice(at, safe);
    this.#given = Math.max(0, at - safe);
    this.#held = text.slice(safe);
    this.#regions = kept;
    return shown;
  }
}

/** The same for bytes of any encoding that agrees with ASCII and UTF-8; bytes that are no secret come out as they went in. */
export class SecretByteStream {
  readonly #stream: SecretStream;

  /** @param current the secrets as they are now, each with its bytes as characters */
  constructor(current: () => PatternSet) {
    this.#stream = new SecretStream(current);
  }

  push(chunk: Buffer): Buffer {
    if (this.#stream.isIdle) return chunk;
    const text = chunk.toString('latin1');
    const shown = this.#stream.push(text);
    return shown === text ? chunk : Buffer.from(shown, 'latin1');
  }

  end(): Buffer {
    return Buffer.from(this.#stream.end(), 'latin1');
  }
}
