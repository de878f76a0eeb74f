import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { endProcesses } from './processes.ts';

const FILE = 'instance';
/** Servers that were killed one after another, each before it had ended what the one before had left. */
const MAX_MARKS = 100;

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
   * @returns those of servers that did not end by themselves; they stay until {@link settle}
   */
  add(mark: string): string[] {
    const name = mark.slice(0, mark.indexOf('=') + 1);
    const before = this.#read().filter((line) => line.startsWith(name));
    this.#write([mark, ...before].slice(0, MAX_MARKS));
    return before;
  }

  /** What the others had left is gone. */
  settle(mark: string): void {
    if (this.#read().length > 1) this.#write([mark]);
  }

  remove(): void {
    rmSync(this.#path, { force: true });
  }

  #read(): string[] {
    try {
      return readFileSync(this.#path, 'utf8').split('\n');
    } catch {
      // The last one ended as it should, or there was none.
      return [];
    }
  }

  #write(marks: readonly string[]): void {
    try {
      writeFileSync(this.#path, marks.join('\n'), { mode: 0o600 });
    } catch {
      // A full disk: no reason not to serve what can be read.
    }
  }
}

/** Ends what servers have left that were killed. @returns how many processes could not be ended */
export async function endPredecessors(marks: readonly string[], graceMs: number): Promise<number> {
  const left = await Promise.all(marks.map((mark) => endProcesses({ mark }, graceMs)));
  return left.reduce((sum, count) => sum + count, 0);
}
