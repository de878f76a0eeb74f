import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { totalmem } from 'node:os';

/** The `resources` of `/server_info` (V0 §2.3): percentages, bytes. */
export interface Resources {
  readonly cpu_percent: number;
  readonly memory: { readonly rss: number; readonly vms: number; readonly percent: number };
  readonly disk: { readonly total: number; readonly used: number; readonly free: number; readonly percent: number };
  readonly io: { readonly read_bytes: number; readonly write_bytes: number };
}

const PAGE_BYTES = 4096;

/** Measures this process without waiting: CPU is the share since the previous call. */
export class ResourceMeter {
  #cpu = process.cpuUsage();
  #at = performance.now();

  async measure(): Promise<Resources> {
    return { cpu_percent: this.#cpuPercent(), memory: memory(), disk: await disk(), io: io() };
  }

  #cpuPercent(): number {
    const used = process.cpuUsage(this.#cpu);
    const elapsedMs = performance.now() - this.#at;
    this.#cpu = process.cpuUsage();
    this.#at = performance.now();
    return elapsedMs > 0 ? round((used.user + used.system) / 10 / elapsedMs, 1) : 0;
  }
}

function memory(): Resources['memory'] {
  const rss = process.memoryUsage.rss();
  const pages = Number(read('/proc/self/statm').split(' ')[0]) || 0;
  return { rss, vms: pages * PAGE_BYTES, percent: round((rss / totalmem()) * 100, 3) };
}

async function disk(): Promise<Resources['disk']> {
  const { bsize, blocks, bfree, bavail } = await statfs('/');
  const used = (blocks - bfree) * bsize;
  const free = bavail * bsize;
  return { total: blocks * bsize, used, free, percent: round((used / Math.max(1, used + free)) * 100, 1) };
}

function io(): Resources['io'] {
  const text = read('/proc/self/io');
  const field = (name: string): number => Number(new RegExp(`^${name}: (\\d+)`, 'm').exec(text)?.[1] ?? 0);
  return { read_bytes: field('read_bytes'), write_bytes: field('write_bytes') };
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
