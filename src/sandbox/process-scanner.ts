import { setImmediate as nextTurn } from 'node:timers/promises';
import { listPids, type ProcessInfo, readProcess } from './processes.ts';

/** Processes read in one turn of the event loop: some hundred microseconds. */
const SLICE = 16;

/**
 * Looks at all processes without holding up the event loop. Whoever asks while a look is under way gets the next one, all of them the
 * same: many sessions that end at once cost no more than one.
 */
export class ProcessScanner {
  readonly #list: () => number[];
  #next: Promise<ProcessInfo[]> | undefined;
  #current: Promise<unknown> = Promise.resolve();

  constructor(list = listPids) {
    this.#list = list;
  }

  /** Every process that lived at the time of the call and still does. Rejects when there is no descriptor left to look with. */
  list(): Promise<ProcessInfo[]> {
    this.#next ??= this.#current.then(() => {
      const scan = this.#scan();
      this.#next = undefined;
      // One that fails is told to those who wait for it, and not to those after them.
      this.#current = scan.catch(ignore);
      return scan;
    });
    return this.#next;
  }

  async #scan(): Promise<ProcessInfo[]> {
    const found: ProcessInfo[] = [];
    for (const [index, pid] of this.#list().entries()) {
      if (index % SLICE === SLICE - 1) await nextTurn();
      const info = readProcess(pid);
      if (info) found.push(info);
    }
    return found;
  }
}

function ignore(): void {
  // The next look is another one.
}
