import { readFileSync, writeFileSync } from 'node:fs';
import { memoryGroups, memoryLimit } from './memory-guard.ts';

/** Below this the kernel kills the daemon at its start, or soon after; bytes. */
const MIN_LIMIT_BYTES = 128 * 2 ** 20;
/** More than the daemon takes, the file that it runs from included; bytes. */
const OWN_BYTES = 384 * 2 ** 20;
/** What the kernel adds to the size of a process for its score: thousandths of the memory there is. */
const LOWEST_ADVANTAGE = 300;
const HIGHEST_SCORE = 1000;

/** What to tell when there is too little memory to start with, or only just: the kernel kills without a word. */
export function memoryProblem(limit = memoryLimit()): string | undefined {
  if (limit >= MIN_LIMIT_BYTES) return undefined;
  return `the memory limit here is ${Math.floor(limit / 2 ** 20)} MiB, and it takes ${MIN_LIMIT_BYTES / 2 ** 20} at least, more with kernels and browsers: the system may end it at any time. Raise the limit (docker run --memory 256m)`;
}

/** When memory runs out, what the daemon has started goes before the daemon does. For a program that was just started: its own inherit it. */
export function makeExpendable(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    const own = Number(readFileSync('/proc/self/oom_score_adj', 'latin1'));
    writeFileSync(`/proc/${pid}/oom_score_adj`, `${expendableScore(own, memoryLimit())}`);
  } catch {
    // Not allowed, or gone.
  }
}

/**
 * The `oom_score_adj` with which even a small program comes before the daemon, which is larger: the smaller the limit, the more it
 * takes.
 *
 * @param own the daemon's
 * @param limit of all memory, in bytes
 */
export function expendableScore(own: number, limit: number): number {
  const advantage = Math.max(LOWEST_ADVANTAGE, Math.ceil((OWN_BYTES / limit) * HIGHEST_SCORE));
  return Math.min(HIGHEST_SCORE, own + advantage);
}

/** Tells whether the kernel has ended processes of the sandbox for want of memory. */
export class OomWatch {
  #count = oomKills();

  /** Since this was last asked. */
  sawKill(): boolean {
    const before = this.#count;
    this.#count = oomKills();
    return before !== undefined && this.#count !== undefined && this.#count > before;
  }
}

/** How many processes of the sandbox the kernel has ended for want of memory; undefined when it cannot be known. */
export function oomKills(): number | undefined {
  for (const directory of memoryGroups()) {
    for (const file of ['memory.events', 'memory.oom_control']) {
      const count = /^oom_kill (\d+)$/m.exec(readText(`${directory}/${file}`))?.[1];
      if (count !== undefined) return Number(count);
    }
  }
  return undefined;
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
