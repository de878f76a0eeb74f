import { readFileSync } from 'node:fs';
import { findProcesses } from '../../src/sandbox/processes.ts';

/** Tells how long, in milliseconds, one of some processes has been kept from running since the watch began, although it had work to do. */
export type StarvationWatch = () => number;

/**
 * Watches a process, all below it, and this one: where the machine is busy with other things, that they do not answer says nothing about
 * them. Reads all of /proc, now and whenever it is asked.
 */
export function watchStarvation(root: number): StarvationWatch {
  const before = waits(root);
  return () => Math.max(0, ...Array.from(waits(root), ([pid, ms]) => ms - (before.get(pid) ?? 0)));
}

function waits(root: number): Map<number, number> {
  const pids = [process.pid, root, ...findProcesses({ root }).map(({ pid }) => pid)];
  return new Map(pids.map((pid) => [pid, waitedMs(pid)]));
}

/** Of the main thread, which in a browser's process is the one that runs scripts and lays out; 0 where the kernel does not count. */
function waitedMs(pid: number): number {
  try {
    const [, waitedNs = '0'] = readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ');
    return Number(waitedNs) / 1e6;
  } catch {
    return 0;
  }
}
