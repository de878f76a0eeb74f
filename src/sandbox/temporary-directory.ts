import { accessSync, chmodSync, constants } from 'node:fs';
import { tmpdir } from 'node:os';
import { makeDirectory } from './account.ts';
import { makeOwnDir } from './runtime-dir.ts';

/**
 * Makes a place for temporary files of the server and of the sandbox's programs, where the usual one cannot be written, as on a read-only
 * root without a /tmp: Python's kernels and Chromium cannot do without. It is removed with its server, or by the next one.
 *
 * @returns undefined when the usual place will do, or there is no other either: then the start tells what is wrong with the directory
 */
export async function substituteTemporaryDirectory(stateDir: string): Promise<string | undefined> {
  if (isWritable(tmpdir())) return undefined;
  try {
    await makeDirectory(stateDir);
    const directory = makeOwnDir(stateDir);
    // As /tmp is: the sandbox's programs may run as somebody else.
    chmodSync(directory, 0o1777);
    return directory;
  } catch {
    return undefined;
  }
}

function isWritable(directory: string): boolean {
  try {
    accessSync(directory, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
