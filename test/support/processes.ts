import { readdirSync, readFileSync } from 'node:fs';

/** Living processes that have this text in their arguments, this one excepted; zombies have no arguments. */
export function processesWith(text: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map(Number)
    .filter((pid) => readOr(`/proc/${pid}/cmdline`).split('\0').join(' ').includes(text));
}

/** Direct children that live. */
export function childrenOf(parent: number): number[] {
  return offspring(parent).flatMap(({ pid, state }) => (state === 'Z' || state === 'X' ? [] : [pid]));
}

/** Direct children that have ended and were not waited for. */
export function zombiesOf(parent: number): number[] {
  return offspring(parent).flatMap(({ pid, state }) => (state === 'Z' ? [pid] : []));
}

function offspring(parent: number): { pid: number; state: string }[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const stat = readOr(`/proc/${name}/stat`);
      const [state = '', ppid] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      return Number(ppid) === parent ? [{ pid: Number(name), state }] : [];
    });
}

export function countDescriptors(pid: number | 'self'): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

function readOr(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
