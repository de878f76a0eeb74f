import { readFileSync } from 'node:fs';
import { memoryGroups } from './memory-guard.ts';

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
