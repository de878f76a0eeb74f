import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

/** What a scenario is given: where things are, how thorough to be, and the end of what it starts. */
export class Context {
  root = path.resolve(import.meta.dirname, '../..');
  /** Options of node for the daemon: those of `npm start`, and more for profiles: `BENCH_NODE_OPTIONS='--cpu-prof --cpu-prof-dir=/tmp/prof'`. */
  nodeOptions = ['--max-semi-space-size=2', ...(process.env.BENCH_NODE_OPTIONS?.split(' ') ?? [])];
  isQuick;
  #scratch = mkdtempSync(path.join(tmpdir(), 'actiond-bench-'));
  #directories = 0;
  #endings = [];

  constructor(isQuick) {
    this.isQuick = isQuick;
  }

  /** A new empty directory that goes with the scenario. */
  makeDirectory(name) {
    this.#directories += 1;
    const directory = path.join(this.#scratch, `${name}-${this.#directories}`);
    mkdirSync(directory);
    return directory;
  }

  /** Called when the scenario has ended, last in, first out. */
  defer(ending) {
    this.#endings.push(ending);
  }

  async end() {
    for (const ending of this.#endings.toReversed()) await ending();
    rmSync(this.#scratch, { recursive: true, force: true });
  }
}
