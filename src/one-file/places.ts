import { existsSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, isAbsolute } from 'node:path';
import { getRawAsset } from 'node:sea';
import { makeOwnDir } from '../sandbox/runtime-dir.ts';

/**
 * Directories that may take files of the executable, best first. The state directory is read from the command line without
 * checking anything else: mistakes are told by the daemon itself.
 */
function places(): string[] {
  const { argv, env } = process;
  const wanted = [stateDirOf(argv), env['ACTIOND_STATE_DIR'], tmpdir(), env['XDG_STATE_HOME'], env['XDG_RUNTIME_DIR']];
  const usual = ['/var/tmp', '/dev/shm', '/run', env['HOME'], process.cwd()];
  return [...new Set([...wanted, ...usual])].flatMap((place) =>
    place !== undefined && isAbsolute(place) ? [nearestDirectory(place)] : [],
  );
}

function stateDirOf(argv: readonly string[]): string | undefined {
  const index = argv.findIndex((word) => /^--state-dir(=|$)/.test(word));
  if (index === -1) return undefined;
  return argv[index]?.includes('=') ? argv[index].slice('--state-dir='.length) : argv[index + 1];
}

/** The state directory may still have to be made. */
function nearestDirectory(path: string): string {
  return existsSync(path) || path === '/' ? path : nearestDirectory(dirname(path));
}

/**
 * Calls `use` with a fresh private directory in one place after another until it does not throw.
 *
 * @param preferred a place to try before all others
 */
export function inFirstPlace<T>(use: (directory: string) => T, preferred?: string): T {
  const reasons: string[] = [];
  for (const place of preferred === undefined ? places() : [preferred, ...places()]) {
    let directory: string | undefined;
    try {
      directory = makeOwnDir(place);
      return use(directory);
    } catch (error) {
      if (directory !== undefined) rmSync(directory, { recursive: true, force: true });
      reasons.push(error instanceof Error ? error.message : String(error));
    }
  }
  throw new Error(
    `No directory takes files that can be executed: pass one with --state-dir. Tried:\n  ${reasons.join('\n  ')}`,
  );
}

/** A file that the build put into the executable. */
export function shippedBytes(name: string): Uint8Array {
  const asset = getRawAsset(name);
  return typeof asset === 'string' ? Buffer.from(asset) : new Uint8Array(asset);
}
