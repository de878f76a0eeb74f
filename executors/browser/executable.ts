import { delimiter, join } from 'node:path';
import { isExecutable } from '../../src/util/access.ts';

/** Where browsers are, in the order of preference. */
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome', 'microsoft-edge'];
const PLACES = ['/usr/bin', '/usr/local/bin', '/usr/lib/chromium', '/opt/google/chrome', '/snap/bin'];

/**
 * The browser: the one that was asked for, one on the PATH, or one at a usual place.
 * @returns undefined when there is none
 */
export function findExecutable(wanted: string | undefined, path: string): string | undefined {
  if (wanted !== undefined) return isExecutable(wanted) ? wanted : undefined;
  const directories = [...path.split(delimiter).filter((directory) => directory.startsWith('/')), ...PLACES];
  return NAMES.flatMap((name) => directories.map((directory) => join(directory, name))).find(isExecutable);
}
