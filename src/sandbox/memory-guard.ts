import { readFileSync } from 'node:fs';

/** Share of the limit that must stay free, and at least so many bytes. */
const RESERVE_SHARE = 0.04;
const MIN_RESERVE_BYTES = 48 * 1024 * 1024;
/** Looking costs a few file reads: once in this time is enough. */
const CACHE_MS = 250;

/** What the memory of the sandbox is limited to, and how much of it can still be had; bytes. */
export interface MemoryState {
  readonly limit: number;
  readonly available: number;
}

/** Says when the sandbox is about to run out of memory, so that nothing new is begun. */
export class MemoryGuard {
  #checkedAt = -Infinity;
  #shortage: string | undefined;

  /** @returns why no action may start, or undefined */
  shortage(): string | undefined {
    const now = performance.now();
    if (now - this.#checkedAt < CACHE_MS) return this.#shortage;
    this.#checkedAt = now;
    this.#shortage = describeShortage(memoryState());
    return this.#shortage;
  }
}

export function describeShortage({ limit, available }: MemoryState): string | undefined {
  const reserve = Math.min(limit / 4, Math.max(MIN_RESERVE_BYTES, limit * RESERVE_SHARE));
  if (available >= reserve) return undefined;
  const [free, all] = [available, limit].map((bytes) => `${Math.round(bytes / 2 ** 20)} MiB`);
  return `The sandbox is out of memory: ${free} of ${all} are left. End what uses it, then try again.`;
}

/** The tighter of the control group's limit (v2 or v1) and the machine's memory. */
export function memoryState(): MemoryState {
  const machine = machineMemory();
  const group = groupMemory();
  return group !== undefined && group.available < machine.available ? group : machine;
}

/** What all of the sandbox may use together: the control group's limit or the machine's memory; bytes. */
export function memoryLimit(): number {
  return Math.min(groupMemory()?.limit ?? Infinity, machineMemory().limit);
}

function machineMemory(): MemoryState {
  const text = readText('/proc/meminfo') ?? '';
  const field = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? NaN) * 1024;
  const limit = field('MemTotal');
  const available = field('MemAvailable');
  return Number.isFinite(limit + available) ? { limit, available } : { limit: Infinity, available: Infinity };
}

/** Where the limits of our control group may be read, best first: version 2 or 1, by its own path or as a container sees it. */
export function memoryGroups(): string[] {
  const groups = readText('/proc/self/cgroup') ?? '';
  const unified = /^0::(.*)$/m.exec(groups)?.[1] ?? '';
  const legacy = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m.exec(groups)?.[1] ?? '';
  return [`/sys/fs/cgroup${unified}`, '/sys/fs/cgroup', `/sys/fs/cgroup/memory${legacy}`, '/sys/fs/cgroup/memory'];
}

/** Page cache counts as free: the kernel gives it back. */
function groupMemory(): MemoryState | undefined {
  const [own = '', root = '', ownLegacy = '', rootLegacy = ''] = memoryGroups();
  return (
    read(own, 'memory.max', 'memory.current', 'inactive_file') ??
    read(root, 'memory.max', 'memory.current', 'inactive_file') ??
    read(ownLegacy, 'memory.limit_in_bytes', 'memory.usage_in_bytes', 'total_inactive_file') ??
    read(rootLegacy, 'memory.limit_in_bytes', 'memory.usage_in_bytes', 'total_inactive_file')
  );
}

function read(directory: string, limitFile: string, usageFile: string, cacheField: string): MemoryState | undefined {
  const limit = Number(readText(`${directory}/${limitFile}`) ?? NaN);
  const usage = Number(readText(`${directory}/${usageFile}`) ?? NaN);
  // "max", or version 1's near 2^63, is no limit.
  if (!Number.isFinite(limit) || !Number.isFinite(usage) || limit > 2 ** 60) return undefined;
  const cache = Number(
    new RegExp(`^${cacheField} (\\d+)`, 'm').exec(readText(`${directory}/memory.stat`) ?? '')?.[1] ?? 0,
  );
  return { limit, available: Math.max(0, limit - usage + cache) };
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}
