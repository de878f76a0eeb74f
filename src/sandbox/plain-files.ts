import type { Stats } from 'node:fs';

/** Files that are remembered; the oldest are forgotten. */
const MAX_FILES = 10_000;

/**
 * Files that are known to have neither extended attributes nor an access list of their own, because we made them. Whoever gives them
 * one changes their ctime, and with it what they are known by.
 */
export class PlainFiles {
  readonly #keys = new Set<string>();

  has(stats: Stats): boolean {
    return this.#keys.has(keyOf(stats));
  }

  add(stats: Stats): void {
    this.#keys.add(keyOf(stats));
    if (this.#keys.size <= MAX_FILES) return;
    const [oldest] = this.#keys;
    if (oldest !== undefined) this.#keys.delete(oldest);
  }

  /** When the file is about to go, or to be another one. */
  delete(stats: Stats): void {
    this.#keys.delete(keyOf(stats));
  }
}

function keyOf({ dev, ino, ctimeMs }: Stats): string {
  return `${dev}:${ino}:${ctimeMs}`;
}
