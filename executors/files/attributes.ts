import { spawn } from 'node:child_process';

/** GNU coreutils; another one refuses the flags, and nothing is copied. */
const COPY = '/bin/cp';

/** Far more than it takes; a file system that hangs is no reason to hang. */
const LIMIT_MS = 5000;

/**
 * Extended attributes and access list of one open file for another, as far as the system lets us. Node has no call for them, so this
 * is a program; it runs while the caller goes on. Never fails: what cannot be kept is lost (docs/adr/file-access.md).
 * @param from a descriptor, O_PATH too
 * @param to a descriptor; mode and bytes of the file may be set at the same time, owner and times stay
 */
export function copyAttributes(from: number, to: number): Promise<void> {
  return new Promise((resolve) => {
    const child = spawn(COPY, ['--attributes-only', '--preserve=mode,xattr', '/proc/self/fd/3', '/proc/self/fd/4'], {
      stdio: ['ignore', 'ignore', 'ignore', from, to],
      env: {},
      timeout: LIMIT_MS,
      killSignal: 'SIGKILL',
    });
    child.once('error', () => resolve());
    child.once('close', () => resolve());
  });
}
