// What Linux tells about a process in /proc.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

/** Bytes of memory in use; with `VmHWM` the highest they ever were, or since `resetPeak`. */
export function residentBytes(pid, field = 'VmRSS') {
  const kibibytes = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kibibytes) * 1024;
}

/** See `clear_refs` in proc(5). */
export function resetPeak(pid) {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** Milliseconds of processor time of all threads, in steps of 10. */
export function processorMs(pid) {
  const { fields } = readStat(pid);
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

export function descriptors(pid) {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** The process and all that descend from it: `{ pid, state }`. */
export function processTree(root) {
  const all = readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? readStatIfThere(name) : []));
  const tree = all.filter(({ pid }) => pid === root);
  for (const { pid } of tree) tree.push(...all.filter(({ parent }) => parent === pid));
  return tree;
}

function readStatIfThere(pid) {
  try {
    return [readStat(pid)];
  } catch {
    return [];
  }
}

/** The fields behind the name, which may have blanks and parentheses in it. */
function readStat(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { pid: Number(pid), state: fields[0], parent: Number(fields[1]), fields };
}
