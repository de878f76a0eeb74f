import { accessSync, constants, statSync } from 'node:fs';

/** Whether this process may execute a file, or enter a directory. */
export function isEnterable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Whether this is a file that this process may execute. One that is not there, as most on a PATH, costs no exception. */
export function isExecutable(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() === true && isEnterable(path);
  } catch {
    return false;
  }
}
