import { BrowserProcess, type LaunchOptions } from './browser-process.ts';

export type BrowserMode = 'shared' | 'process' | 'pool';

export interface FleetOptions {
  readonly launch: LaunchOptions;
  readonly mode: BrowserMode;
  /** Browsers at a time in `pool`. */
  readonly poolSize: number;
  /** Older, or larger, ones are replaced as soon as they have nothing to do. */
  readonly maxAgeMs: number;
  readonly maxMemoryBytes: number;
}

/** Measuring reads all of /proc. */
const MEASURE_EVERY_MS = 5000;

/** The browsers there are, and which of them a new session gets. */
export class Fleet {
  readonly #options: FleetOptions;
  readonly #processes = new Set<BrowserProcess>();
  readonly #users = new Map<BrowserProcess, number>();
  /** No session is put there any more; it ends with its last one. */
  readonly #retired = new Set<BrowserProcess>();
  /** Launches under way, each with the number of sessions that wait for it. */
  readonly #launching = new Set<{ waiting: number; process: Promise<BrowserProcess> }>();
  readonly #measured = new WeakMap<BrowserProcess, { readonly at: number; readonly bytes: number }>();
  #isStopped = false;

  constructor(options: FleetOptions) {
    this.#options = options;
  }

  get processes(): readonly BrowserProcess[] {
    return [...this.#processes].filter((process) => !process.isEnded);
  }

  /** A browser for one more session; to be given back. @throws LaunchError */
  async acquire(): Promise<BrowserProcess> {
    const process = await this.#choose();
    this.#users.set(process, (this.#users.get(process) ?? 0) + 1);
    return process;
  }

  /** A session has ended. */
  async release(process: BrowserProcess): Promise<void> {
    const users = (this.#users.get(process) ?? 1) - 1;
    this.#users.set(process, users);
    const isNeeded = this.#options.mode !== 'process' && !this.#retired.has(process) && !this.isWorn(process);
    if (users > 0 || isNeeded) return;
    await process.close();
    this.#forget(process);
  }

  /** Whether it is due for replacement. Its size is looked at now and then only. */
  isWorn(process: BrowserProcess): boolean {
    const { maxAgeMs, maxMemoryBytes } = this.#options;
    if (process.ageMs > maxAgeMs) return true;
    const now = performance.now();
    const measured = this.#measured.get(process);
    if (measured && now - measured.at < MEASURE_EVERY_MS) return measured.bytes > maxMemoryBytes;
    const bytes = process.memoryBytes();
    this.#measured.set(process, { at: now, bytes });
    return bytes > maxMemoryBytes;
  }

  isRetired(process: BrowserProcess): boolean {
    return this.#retired.has(process);
  }

  /**
   * Takes no more sessions. One at a time where browsers are shared: the next waits until it has ended, so that there are never more than
   * the limit and one.
   */
  retire(process: BrowserProcess): boolean {
    const isFull = this.#options.mode !== 'process' && [...this.#retired].some((other) => other !== process);
    if (!isFull) this.#retired.add(process);
    return !isFull;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    const launching = Array.from(this.#launching, ({ process }) =>
      process.then(
        (found) => found.close(),
        () => {},
      ),
    );
    await Promise.all([...launching, ...Array.from(this.#processes, (process) => process.close())]);
    this.#processes.clear();
  }

  #choose(): Promise<BrowserProcess> {
    const { mode, poolSize } = this.#options;
    const limit = mode === 'shared' ? 1 : mode === 'pool' ? poolSize : Infinity;
    const open = this.processes.filter((process) => !this.#retired.has(process));
    if (open.length + this.#launching.size < limit) {
      // One that has nothing to do is as good as a new one.
      const idle = mode === 'process' ? undefined : open.find((process) => (this.#users.get(process) ?? 0) === 0);
      return idle ? Promise.resolve(idle) : this.#launch();
    }
    const [least] = open.toSorted((a, b) => (this.#users.get(a) ?? 0) - (this.#users.get(b) ?? 0));
    const [pending] = [...this.#launching].toSorted((a, b) => a.waiting - b.waiting);
    if (pending && (!least || pending.waiting < (this.#users.get(least) ?? 0))) {
      pending.waiting += 1;
      return pending.process;
    }
    return least ? Promise.resolve(least) : this.#launch();
  }

  #launch(): Promise<BrowserProcess> {
    const process = BrowserProcess.launch(this.#options.launch).then(async (launched) => {
      if (this.#isStopped) await launched.close();
      this.#processes.add(launched);
      launched.onEnd(() => this.#forget(launched));
      return launched;
    });
    const launching = { waiting: 1, process };
    this.#launching.add(launching);
    const forget = (): void => void this.#launching.delete(launching);
    process.then(forget, forget);
    return process;
  }

  #forget(process: BrowserProcess): void {
    this.#processes.delete(process);
    this.#users.delete(process);
    this.#retired.delete(process);
  }
}
