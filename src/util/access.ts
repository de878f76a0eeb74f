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

/** Whether this is a file that this process may execute. */
export function isExecutable(path: string): boolean {
  return isEnterable(path) && statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
