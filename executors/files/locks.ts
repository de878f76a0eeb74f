/** First come, first served, for each key. Keys that nobody waits for take no memory. */
export class KeyedLocks {
  readonly #tails = new Map<string, Promise<void>>();

  /** Keys that are held. */
  get size(): number {
    return this.#tails.size;
  }

  async run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    const result = before.then(work);
    const tail = result.then(
      () => {},
      () => {},
    );
    this.#tails.set(key, tail);
    try {
      return await result;
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    }
  }
}
