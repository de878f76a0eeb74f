import { readFileSync } from 'node:fs';

/**
 * How many more processes and threads the control group of the sandbox allows (version 2 or 1, by its own path or as a container sees it);
 * undefined when there is no limit, or none that can be seen.
 */
export function processRoom(): number | undefined {
  const groups = readText('/proc/self/cgroup') ?? '';
  const unified = /^0::(.*)$/m.exec(groups)?.[1] ?? '';
  const legacy = /^\d+:(?:[^:]*,)?pids(?:,[^:]*)?:(.*)$/m.exec(groups)?.[1] ?? '';
  const root = '/sys/fs/cgroup';
  for (const directory of [`${root}${unified}`, root, `${root}/pids${legacy}`, `${root}/pids`]) {
    const [limit, current] = ['pids.max', 'pids.current'].map((file) =>
      Number(readText(`${directory}/${file}`) ?? NaN),
    );
    // "max" is no limit.
    if (limit !== undefined && current !== undefined && Number.isFinite(limit - current)) return limit - current;
  }
  return undefined;
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1').trim();
  } catch {
    return undefined;
  }
}
