import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A process' own folders are called so, with its pid and a `-` behind. */
export const RUNTIME_PREFIX = 'actiond-';

/**
 * A private folder for names that must exist for a moment; those of servers that died are removed on the way.
 *
 * @param stateDir takes the place of the temporary directory where that cannot be written, as on a read-only root
 */
export function makeRuntimeDir(stateDir: string): string {
  const directory = makeBelow(tmpdir()) ?? makeBelow(stateDir);
  if (directory === undefined) throw new Error(`neither ${tmpdir()} nor ${stateDir} can be written`);
  chmodSync(directory, 0o711);
  return directory;
}

function makeBelow(place: string): string | undefined {
  try {
    mkdirSync(place, { recursive: true });
    removeAbandoned(place);
    return mkdtempSync(join(place, `${RUNTIME_PREFIX}${process.pid}-`));
  } catch {
    return undefined;
  }
}

/** Removes the folders of processes that are gone. */
export function removeAbandoned(place: string): void {
  for (const name of readdirSync(place)) {
    const pid = new RegExp(`^${RUNTIME_PREFIX}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) removeQuietly(join(place, name));
  }
}

function removeQuietly(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // Another user's.
  }
}
