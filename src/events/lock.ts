import { randomBytes } from 'node:crypto';
import { lstat, readdir, readFile, readlink, rename, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { Beacon, isLit } from './beacon.ts';
import { hasCode, ifExists } from './files.ts';

const LOCK = 'lock';
/** Process id, its start time, the first part of the boot id, nonce. */
const HOLDER = /^(\d+):(\d*):([\da-f]*):([\w-]+)$/;
const NONCE_BYTES = 8;
const LEFT_OVER = /^lock\..+\.(new|claim)$/;
const BEACON = /^lock\.([\w-]+)\.alive$/;
/** A starter's beacon takes connections within this, and takes the lock or goes. */
const START_LIMIT_MS = 60_000;

/** Another server that lives holds the directory. */
export class DirectoryInUseError extends Error {
  readonly pid: number;

  /** @param isElsewhere its process cannot be seen from here */
  constructor(directory: string, pid: number, isElsewhere = false) {
    const other = isElsewhere ? `a running server in another container (process ${pid} there)` : undefined;
    const who = other ?? (pid === process.pid ? 'this process' : `a running server (process ${pid})`);
    super(`The state directory ${directory} is in use by ${who}. Stop it, or give this one a directory of its own.`);
    this.name = 'DirectoryInUseError';
    this.pid = pid;
  }
}

/** Who holds a lock; the start time tells a process from a later one with the same id. */
interface Holder {
  readonly pid: number;
  readonly startTime: string | undefined;
  readonly bootId: string | undefined;
  /** Names this one lock and no later one. */
  readonly nonce: string;
}

/**
 * Takes the lock of a directory. The lock is a symbolic link that leads nowhere: it appears whole and for one of many starters, and a short
 * one needs no block of a disk that may be full. A dead holder's lock may be replaced only by whoever creates the claim named after its
 * nonce, and only while it is still that lock: so one of many starters wins. A claimant that died is replaced in the same way. The living
 * are never displaced: processes are looked for by their ids, and those of other containers by their beacons.
 */
export async function acquireLock(directory: string): Promise<{ release(): Promise<void> }> {
  const mine: Holder = { ...(await identify()), nonce: randomBytes(NONCE_BYTES).toString('hex') };
  const newFile = path.join(directory, `lock.${mine.nonce}.new`);
  // Before the lock, which nobody may take for a dead one's.
  const beacon = await Beacon.light(beaconOf(directory, mine.nonce));
  try {
    while (!(await tryAcquire(directory, mine, newFile)));
    await removeLeftOvers(directory, mine);
  } catch (error) {
    await beacon?.[Symbol.asyncDispose]();
    throw error;
  } finally {
    await rm(newFile, { force: true });
  }
  return {
    release: async () => {
      await rm(path.join(directory, LOCK), { force: true });
      await beacon?.[Symbol.asyncDispose]();
    },
  };
}

/** False: the situation has changed meanwhile, try again. */
async function tryAcquire(directory: string, mine: Holder, newFile: string): Promise<boolean> {
  const lockFile = path.join(directory, LOCK);
  if (await tryCreate(mine, lockFile)) return true;
  const holder = await readHolder(lockFile);
  if (!holder) return false;
  await assertDead(directory, holder, mine);
  const claims: string[] = [];
  for (let displaced: Holder | undefined = holder; ;) {
    const claim: string = path.join(directory, `lock.${displaced.nonce}.claim`);
    claims.push(claim);
    if (await tryCreate(mine, claim)) break;
    displaced = await readHolder(claim);
    if (!displaced) return false;
    await assertDead(directory, displaced, mine);
  }
  const isStillTheirs = (await readHolder(lockFile))?.nonce === holder.nonce;
  if (isStillTheirs) {
    await tryCreate(mine, newFile);
    await rename(newFile, lockFile);
    await rm(beaconOf(directory, holder.nonce), { force: true });
  }
  for (const claim of isStillTheirs ? claims : claims.slice(-1)) await rm(claim, { force: true });
  return isStillTheirs;
}

async function tryCreate(holder: Holder, file: string): Promise<boolean> {
  try {
    await symlink(encode(holder), file);
    return true;
  } catch (error) {
    if (hasCode(error, 'EEXIST')) return false;
    throw error;
  }
}

/** Under 60 bytes: file systems keep that much of a link in its inode. */
function encode({ pid, startTime, bootId, nonce }: Holder): string {
  return [pid, startTime ?? '', bootId ?? '', nonce].join(':');
}

async function readHolder(file: string): Promise<Holder | undefined> {
  const info = await ifExists(lstat(file));
  if (!info) return undefined;
  // Whatever is no lock of ours belongs to no process.
  const text = info.isSymbolicLink() ? await ifExists(readlink(file)) : '';
  if (text === undefined) return undefined;
  const [, pid, startTime, bootId, nonce] = HOLDER.exec(text) ?? [];
  if (nonce === undefined) return { pid: 0, startTime: undefined, bootId: undefined, nonce: `inode-${info.ino}` };
  return { pid: Number(pid), startTime: startTime || undefined, bootId: bootId || undefined, nonce };
}

async function assertDead(directory: string, holder: Holder, mine: Holder): Promise<void> {
  const isHere = await isAlive(holder, mine.bootId);
  if (isHere || (await isLit(beaconOf(directory, holder.nonce))))
    throw new DirectoryInUseError(path.dirname(directory), holder.pid, !isHere);
}

function beaconOf(directory: string, nonce: string): string {
  return path.join(directory, `lock.${nonce}.alive`);
}

async function identify(): Promise<Omit<Holder, 'nonce'>> {
  const bootId = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => undefined);
  return { pid: process.pid, startTime: await startTimeOf(process.pid), bootId: bootId?.split('-')[0] };
}

async function isAlive(holder: Holder, bootId: string | undefined): Promise<boolean> {
  if (holder.pid <= 0 || holder.bootId !== bootId) return false;
  const startTime = await startTimeOf(holder.pid);
  if (startTime !== undefined) return startTime === holder.startTime;
  try {
    // No /proc, or one that hides other users' processes.
    process.kill(holder.pid, 0);
    return holder.startTime === undefined;
  } catch (error) {
    return hasCode(error, 'EPERM');
  }
}

/** Field 22 of /proc/PID/stat, in clock ticks since boot; undefined when there is no such process or it is a zombie. */
async function startTimeOf(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  // The name, field 2, may hold blanks and brackets.
  const [state, ...fields] = text?.slice(text.lastIndexOf(')') + 2).split(' ') ?? [];
  return state === 'Z' || state === 'X' ? undefined : fields[18];
}

async function removeLeftOvers(directory: string, { nonce, bootId }: Holder): Promise<void> {
  for (const name of await readdir(directory)) {
    const file = path.join(directory, name);
    const lighter = BEACON.exec(name)?.[1];
    if (lighter !== undefined && lighter !== nonce && (await isBurntOut(file))) await rm(file, { force: true });
    if (!LEFT_OVER.test(name)) continue;
    const owner = await readHolder(file).catch(() => undefined);
    // One without a pid may be about to be written.
    if (!owner || owner.pid <= 0 || (await isAlive(owner, bootId))) continue;
    if (!(await isLit(beaconOf(directory, owner.nonce)))) await rm(file, { force: true });
  }
}

async function isBurntOut(file: string): Promise<boolean> {
  const info = await ifExists(lstat(file));
  return info !== undefined && Date.now() - info.mtimeMs > START_LIMIT_MS && !(await isLit(file));
}
