import { readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { ifExists, TORN_SUFFIX } from './files.ts';

/** All that is set aside together. */
export const MAX_ASIDE_BYTES = 64 * 1024 * 1024;

/** Takes a file out of the log, for a person to look at. */
export async function setAside(directory: string, name: string): Promise<void> {
  await ifExists(rename(path.join(directory, name), path.join(directory, name + TORN_SUFFIX)));
}

/** Keeps what is cut off a file. That it cannot be kept is no reason not to go on. */
export async function keepAside(directory: string, name: string, tail: Buffer): Promise<void> {
  const file = path.join(directory, name + TORN_SUFFIX);
  await writeFile(file, tail, { mode: 0o600 }).catch(() => rm(file, { force: true }));
}

/** Removes what was set aside, the oldest first, until at most so many bytes are left. */
export async function trimAside(directory: string, maxBytes: number): Promise<void> {
  const names = (await readdir(directory)).filter((name) => name.endsWith(TORN_SUFFIX)).toSorted();
  let left = 0;
  for (const name of names.toReversed()) {
    const size = (await ifExists(stat(path.join(directory, name))))?.size ?? 0;
    if (left + size <= maxBytes) {
      left += size;
    } else {
      await rm(path.join(directory, name), { force: true });
    }
  }
}
