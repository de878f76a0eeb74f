import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Of a process: `actiond-PID-NAMESPACE-` and six characters. A pid means something in its own namespace only. */
const NAME = /^actiond-(\d+)-(\d+)-/;
/** A process of another namespace, such as one in another container with the same directory, cannot be asked for. */
const FOREIGN_AGE_MS = 7 * 24 * 60 * 60 * 1000;

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
    return makeOwnDir(place);
  } catch {
    return undefined;
  }
}

/** A folder of this process, which nobody else may look into; those of processes that are gone are removed. @throws when it cannot be made */
export function makeOwnDir(place: string): string {
  const namespace = pidNamespace();
  for (const name of readdirSync(place)) {
    if (isAbandoned(place, name, namespace)) removeQuietly(join(place, name));
  }
  return mkdtempSync(join(place, `actiond-${process.pid}-${namespace}-`));
}

function isAbandoned(place: string, name: string, namespace: string): boolean {
  const [, pid, itsNamespace] = NAME.exec(name) ?? [];
  if (pid === undefined) return false;
  if (itsNamespace === namespace) return !existsSync(`/proc/${pid}`);
  const modified = statSync(join(place, name), { throwIfNoEntry: false })?.mtimeMs ?? Infinity;
  return Date.now() - modified > FOREIGN_AGE_MS;
}

function pidNamespace(): string {
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0';
  } catch {
    return '0';
  }
}

function removeQuietly(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // Another user's.
  }
}
