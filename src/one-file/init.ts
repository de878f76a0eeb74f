import { spawnSync } from 'node:child_process';
import { openSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inFirstPlace, shippedBytes } from './places.ts';

/** Since Node 23.11. */
type Execve = (file: string, args: readonly string[]) => never;

/**
 * Makes PID 1 an init that ends orphans and hands signals on, with the daemon as its child: Node waits only for processes that it
 * started itself. Does not return.
 */
export function runUnderInit(): never {
  const descriptor = inFirstPlace((directory) => {
    const file = join(directory, 'tini');
    writeFileSync(file, shippedBytes('tini'), { mode: 0o700 });
    // execve ends the process when it fails, so the file system is tried first.
    const { error, status } = spawnSync(file, ['--version'], { stdio: 'ignore' });
    if (error ?? status !== 0) throw error ?? new Error(`${file} does not run`);
    const opened = openSync(file, 'r');
    rmSync(directory, { recursive: true });
    return opened;
  });
  const { execve } = process as unknown as { execve: Execve };
  return execve(`/proc/self/fd/${descriptor}`, ['tini', '--', process.execPath, ...process.argv.slice(2)]);
}
