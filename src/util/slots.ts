/** A bounded number of places; whoever comes when all are taken waits in order. */
export class Slots {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /**
   * @param signal ends the wait
   * @param limitMs ends it too, by a timer of its own: what `AbortSignal.any` makes of `AbortSignal.timeout` may be
   *   collected as garbage before its time
   * @returns how to give the place back, to be called once; undefined when the wait was ended
   */
  async take(signal: AbortSignal, limitMs?: number): Promise<(() => void) | undefined> {
    if (signal.aborted) return undefined;
    if (this.#free > 0) this.#free -= 1;
    else if (!(await this.#turn(signal, limitMs))) return undefined;
    return () => this.#giveBack();
  }

  #turn(signal: AbortSignal, limitMs: number | undefined): Promise<boolean> {
    return new Promise((resolve) => {
      const finish = (isOurs: boolean): void => {
        clearTimeout(limit);
        this.#waiting.delete(begin);
        signal.removeEventListener('abort', leave);
        resolve(isOurs);
      };
      const begin = (): void => finish(true);
      const leave = (): void => finish(false);
      const limit = limitMs === undefined ? undefined : setTimeout(leave, limitMs);
      this.#waiting.add(begin);
      signal.addEventListener('abort', leave, { once: true });
    });
  }

  /** A place goes straight to the one that waits longest. */
  #giveBack(): void {
    const [next] = this.#waiting;
    if (next) next();
    else this.#free += 1;
  }
}
