import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const RUNTIME_PREFIX = 'actiond-';

/** A private folder for names that must exist for a moment; those of servers that died are removed on the way. */
export function makeRuntimeDir(): string {
  for (const name of readdirSync(tmpdir())) {
    const pid = new RegExp(`^${RUNTIME_PREFIX}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) removeQuietly(join(tmpdir(), name));
  }
  const directory = mkdtempSync(join(tmpdir(), `${RUNTIME_PREFIX}${process.pid}-`));
  chmodSync(directory, 0o711);
  return directory;
}

function removeQuietly(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // Another user's.
  }
}
