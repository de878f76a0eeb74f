import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { endProcesses } from './processes.ts';

const FILE = 'instance';

/**
 * Names a server's processes to whoever serves its state directory next: a server that is killed cannot end what ignores the end of its
 * terminal, and whoever starts the interrupted work again would have it twice.
 */
export class InstanceFile {
  readonly #path: string;

  /** @param directory that only the server may write to */
  constructor(directory: string) {
    this.#path = join(directory, FILE);
  }

  /**
   * @param mark `NAME=value` in the environment of all processes of this server
   * @returns the one of a server that did not end by itself
   */
  replace(mark: string): string | undefined {
    let before: string | undefined;
    try {
      before = readFileSync(this.#path, 'utf8');
    } catch {
      // The last one ended as it should, or there was none.
    }
    try {
      writeFileSync(this.#path, mark, { mode: 0o600 });
    } catch {
      // A full disk: no reason not to serve what can be read.
    }
    return before !== undefined && before.startsWith(mark.slice(0, mark.indexOf('=') + 1)) ? before : undefined;
  }

  remove(): void {
    rmSync(this.#path, { force: true });
  }
}

/** Ends what a server has left that was killed. @returns how many processes could not be ended */
export function endPredecessor(mark: string, graceMs: number): Promise<number> {
  return endProcesses({ mark }, graceMs);
}
