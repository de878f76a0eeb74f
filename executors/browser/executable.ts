import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Where browsers are, in the order of preference. */
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome', 'microsoft-edge'];
const PLACES = ['/usr/bin', '/usr/local/bin', '/usr/lib/chromium', '/opt/google/chrome', '/snap/bin'];

/**
 * The browser: the one that was asked for, one on the PATH, one at a usual place, or the driver's own.
 * @param driverPath what the driver downloads to, if it ever did
 * @returns undefined when there is none
 */
export function findExecutable(wanted: string | undefined, path: string, driverPath: () => string): string | undefined {
  if (wanted !== undefined) return isExecutable(wanted) ? wanted : undefined;
  const directories = [...path.split(delimiter).filter((directory) => directory.startsWith('/')), ...PLACES];
  for (const name of NAMES) {
    for (const directory of directories) {
      const file = join(directory, name);
      if (isExecutable(file)) return file;
    }
  }
  const own = ownPath(driverPath);
  return own !== undefined && isExecutable(own) ? own : undefined;
}

function ownPath(driverPath: () => string): string | undefined {
  try {
    return driverPath();
  } catch {
    return undefined;
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
