import { readFileSync } from 'node:fs';

/** Shells of sessions keep descriptors just below 256, out of the way of scripts. */
const MIN_OPEN_FILES = 256;

/**
 * Why this process may open too few files to serve: a shell could not even start. Node has raised its limit as far as it may already.
 *
 * @param limits text in the form of `/proc/self/limits`
 */
export function openFilesProblem(limits = readLimits()): string | undefined {
  const [, soft] = /^Max open files +(\d+) /m.exec(limits) ?? [];
  if (soft === undefined || Number(soft) >= MIN_OPEN_FILES) return undefined;
  return `only ${soft} open files are allowed here, and it takes ${MIN_OPEN_FILES} at least: raise the limit (ulimit -n 1024, or docker run --ulimit nofile=1024)`;
}

function readLimits(): string {
  try {
    return readFileSync('/proc/self/limits', 'utf8');
  } catch {
    return '';
  }
}
