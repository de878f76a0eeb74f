import { statSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { isEnterable, isExecutable } from '../../src/util/access.ts';
import { workingDirectory } from '../../src/sandbox/processes.ts';

/**
 * The directory a shell is in, by its logical name where that is still true (V0 §4.2: `$(pwd)`), else by its physical one.
 * @param pwd what the shell says; a command may have assigned `PWD`
 */
export function logicalDirectory(pid: number, pwd: string): string {
  const physical = workingDirectory(pid);
  if (physical === undefined || physical === pwd) return pwd;
  return isAbsolute(pwd) && isSameDirectory(pwd, `/proc/${pid}/cwd`) ? pwd : physical;
}

/** `path`, or the nearest directory above it that exists and that the server may enter. */
export function existingDirectory(path: string): string {
  let candidate = resolve(path);
  while (candidate !== '/' && !(isDirectory(candidate) && isEnterable(candidate))) candidate = dirname(candidate);
  return candidate;
}

/** What `which python` would find on that PATH, `""` if nothing (V0 §4.2). */
export function findPython(path: string, cwd: string): string {
  for (const directory of path.split(':')) {
    const candidate = join(isAbsolute(directory) ? directory : join(cwd, directory), 'python');
    if (isExecutable(candidate)) return candidate;
  }
  return '';
}

export function isDirectory(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  } catch {
    return false;
  }
}

function isSameDirectory(a: string, b: string): boolean {
  try {
    const [first, second] = [statSync(a), statSync(b)];
    return first.ino === second.ino && first.dev === second.dev;
  } catch {
    return false;
  }
}
