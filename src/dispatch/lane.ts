/** FIFO queues by name: tasks of one lane run one after another, lanes run side by side. */
export class Lanes {
  readonly #tails = new Map<string, Promise<unknown>>();

  /**
   * Runs the task when all earlier ones of the lane have ended; without a lane at once.
   * The lane goes on whatever becomes of the task.
   */
  run<T>(lane: string | undefined, task: () => Promise<T>): Promise<T> {
    if (lane === undefined) return task();
    const before = this.#tails.get(lane);
    const result = before === undefined ? task() : before.then(task);
    const tail = result.then(ignore, ignore).then(() => {
      if (this.#tails.get(lane) === tail) this.#tails.delete(lane);
    });
    this.#tails.set(lane, tail);
    return result;
  }

  /** Whether a task of the lane runs or waits. */
  isBusy(lane: string): boolean {
    return this.#tails.has(lane);
  }
}

function ignore(): void {
  // The caller of the task has its own promise.
}
