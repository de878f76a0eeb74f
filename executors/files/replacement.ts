import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import {
  access as checkAccess,
  type FileHandle,
  link,
  lstat,
  mkdtemp,
  open,
  readlink,
  rename,
  rm,
  unlink,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { splitPath } from '../../src/sandbox/file-access.ts';
import { codeOf, fault } from '../../src/sandbox/file-faults.ts';
import type { Pin } from '../../src/sandbox/pin.ts';
import { copyAttributes } from './attributes.ts';

export interface ReplacementOptions {
  /** Fail with EEXIST when there is a file. */
  readonly isExclusive?: boolean;
  /** Permission bits; without them those of the old file, or of a new one as the umask makes it. */
  readonly mode?: number | undefined;
  /** Forget extended attributes and access list of the old file. */
  readonly isFresh?: boolean;
}

/** Begins the name of every temporary file; short, because the real name may have all of the 255 bytes there are. */
export const TEMPORARY_PREFIX = '.actiond-';

const MAX_LINKS = 40;
const COPY_BYTES = 1024 * 1024;
const CREATE = constants.O_CREAT | constants.O_EXCL | constants.O_RDWR | constants.O_NOFOLLOW;
const PERMISSIONS = 0o7777;
/** The kernel takes these two away when somebody else than root writes. */
const SET_ID = 0o6000;

/**
 * A file that is about to take the place of another, or to appear. What is written to `handle` is seen by nobody before `commit`, and
 * by everybody at once after it; `abort`, or leaving the scope, leaves everything as it was.
 *
 * Mode, owner, extended attributes and access list stay, a symbolic link keeps pointing to the file. A file with several names (hard links), one that is a mount point,
 * and one whose directory may not be written is overwritten in place instead; so is one whose owner could not be kept.
 */
export class Replacement implements AsyncDisposable {
  readonly handle: FileHandle;
  readonly #access: FileAccess;
  readonly #path: string;
  readonly #target: Pin | undefined;
  readonly #place: Place;
  readonly #options: ReplacementOptions;
  /** Whether the file has only what every new one has. */
  readonly #isPlain: boolean;
  /** Resolves when the new file has what the old one has besides its bytes. */
  readonly #attributes: Promise<void>;
  #isOpen = true;

  private constructor(
    access: FileAccess,
    path: string,
    target: Pin | undefined,
    place: Place,
    options: ReplacementOptions,
  ) {
    this.#access = access;
    this.#path = path;
    this.#target = target;
    this.#place = place;
    this.#options = options;
    this.handle = place.handle;
    this.#isPlain = target === undefined || options.isFresh === true || access.plainFiles.has(target.stats);
    this.#attributes =
      target === undefined || this.#isPlain || place.isInPlace
        ? Promise.resolve()
        : copyAttributes(target.fd, place.handle.fd);
  }

  /** @throws EEXIST, EISDIR, ENOENT, EACCES, ENOSPC, SpecialFileError, OutsideRootsError */
  static async begin(access: FileAccess, path: string, options: ReplacementOptions = {}): Promise<Replacement> {
    const target = await pinOrMissing(access, path);
    if (!target) return beginNew(access, path, options);
    try {
      if (options.isExclusive) throw fault('EEXIST', path);
      target.requireFile(path);
      await requireWritable(access, target, path);
      const place = await placeFor(access, target, path);
      return new Replacement(access, path, target, place, options);
    } catch (error) {
      await target.close();
      throw error;
    }
  }

  /** @internal */
  static create(access: FileAccess, path: string, place: Place, options: ReplacementOptions): Replacement {
    return new Replacement(access, path, undefined, place, options);
  }

  /** @throws ENOSPC, EACCES, EIO, EEXIST; the old file is as it was then */
  async commit(): Promise<void> {
    try {
      await this.#settle();
      await this.handle.datasync();
      await this.#setMode();
      const { parent, name, temporary, isInPlace } = this.#place;
      if (isInPlace || !parent) await this.#overwrite();
      else if (this.#options.isExclusive) await linkExclusively(temporary, parent.child(name), this.#path);
      else await this.#rename(temporary, parent.child(name));
      await this.#remember();
    } finally {
      await this.abort();
    }
  }

  /** Removes what is temporary. */
  async abort(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.handle.close().catch(() => {});
    await unlink(this.#place.temporary).catch(() => {});
    if (this.#place.folder !== undefined) await rm(this.#place.folder, { recursive: true, force: true });
    await this.#place.parent?.close();
    await this.#target?.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.abort();
  }

  /** Rights to run with (file capabilities) were given to the old bytes; the kernel takes them away when a size is set. */
  async #settle(): Promise<void> {
    if (this.#isPlain) return;
    await this.#attributes;
    await this.handle.truncate((await this.handle.stat()).size);
  }

  async #remember(): Promise<void> {
    if (this.#place.isInPlace) return;
    const { plainFiles } = this.#access;
    if (this.#target) plainFiles.delete(this.#target.stats);
    const stats = await this.handle.stat();
    // Without a name it was written in place after all.
    if (this.#isPlain && stats.nlink === 1) plainFiles.add(stats);
  }

  async #setMode(): Promise<void> {
    const { mode } = this.#options;
    const old = this.#target?.stats.mode;
    if (mode !== undefined) await this.handle.chmod(mode & 0o777);
    else if (old !== undefined && !this.#place.isInPlace) {
      await this.handle.chmod(old & PERMISSIONS & (this.#access.identity === undefined ? PERMISSIONS : ~SET_ID));
    }
  }

  async #rename(temporary: string, place: string): Promise<void> {
    try {
      await rename(temporary, place);
    } catch (error) {
      // A mount point cannot be replaced, only written.
      if (codeOf(error) !== 'EBUSY' || !this.#target) throw error;
      await this.#overwrite();
    }
  }

  /** Grows the file first, which alone can fail for lack of space, so that a full disk leaves the old bytes. */
  async #overwrite(): Promise<void> {
    if (!this.#target) throw fault('EACCES', this.#path);
    const { size: newSize } = await this.handle.stat();
    const file = await open(this.#target.link, constants.O_WRONLY);
    try {
      const { size: oldSize } = await file.stat();
      try {
        await copyRange(this.handle, file, Math.min(oldSize, newSize), newSize);
      } catch (error) {
        await file.truncate(oldSize).catch(() => {});
        throw error;
      }
      await copyRange(this.handle, file, 0, Math.min(oldSize, newSize));
      if (newSize < oldSize) await file.truncate(newSize);
      if (this.#options.mode !== undefined) await file.chmod(this.#options.mode & 0o777);
      await file.datasync().catch(() => {});
    } finally {
      await file.close();
    }
  }
}

/** Where the new bytes are until they are committed. */
interface Place {
  readonly handle: FileHandle;
  readonly temporary: string;
  readonly isInPlace: boolean;
  /** The directory of the file, and its name there. */
  readonly parent?: Pin;
  readonly name: string;
  /** To be removed as well. */
  readonly folder?: string;
}

async function pinOrMissing(access: FileAccess, path: string): Promise<Pin | undefined> {
  try {
    return await access.pin(path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** A rename would replace a file that may not be written: nothing of it is opened. @throws EACCES, EROFS */
async function requireWritable(access: FileAccess, target: Pin, path: string): Promise<void> {
  access.require(target, 'write', path);
  // The kernel knows for a process of its own account alone.
  if (access.identity !== undefined) return;
  await checkAccess(target.link, constants.W_OK).catch((error: unknown) => {
    throw codeOf(error) === 'EROFS' ? fault('EROFS', path) : fault('EACCES', path);
  });
}

/** A link that points nowhere yet leads to where the file is made. */
async function beginNew(
  access: FileAccess,
  path: string,
  options: ReplacementOptions,
  links = 0,
): Promise<Replacement> {
  if (links > MAX_LINKS) throw fault('ELOOP', path);
  const { parent, name } = await access.pinParent(path);
  try {
    const to = await readlink(parent.child(name)).catch(() => undefined);
    if (to !== undefined) {
      const next = to.startsWith('/') ? to : `${parent.path}/${to}`;
      await parent.close();
      return await beginNew(access, next, options, links + 1);
    }
    access.require(parent, 'write', path);
    access.require(parent, 'search', path);
    const place = await temporaryIn(parent, name, 0o666, path);
    try {
      await access.claimOpen(place.handle, parent.stats);
    } catch (error) {
      await place.handle.close();
      await unlink(place.temporary).catch(() => {});
      throw error;
    }
    return Replacement.create(access, path, place, options);
  } catch (error) {
    await parent.close().catch(() => {});
    throw error;
  }
}

async function temporaryIn(parent: Pin, name: string, mode: number, path: string): Promise<Place> {
  // What will fail at the end should fail now.
  if (Buffer.byteLength(name) > 255) throw fault('ENAMETOOLONG', path);
  const temporary = parent.child(TEMPORARY_PREFIX + randomUUID());
  const handle = await open(temporary, CREATE, mode);
  return { handle, temporary, isInPlace: false, parent, name };
}

async function placeFor(access: FileAccess, target: Pin, path: string): Promise<Place> {
  const canMove = target.stats.nlink === 1 && !(await isBehindProc(access, path));
  return (canMove && (await placeBeside(access, target))) || placeElsewhere(path);
}

/**
 * Whether the way to a file ends with a link of /proc (`/proc/PID/exe`, `/proc/PID/fd/N`). Such a link means that very file, and not
 * its name: a rename would replace a program that runs, such as the one of this server, where the kernel answers "text file busy".
 */
async function isBehindProc(access: FileAccess, path: string, links = 0): Promise<boolean> {
  const { directory, name } = splitPath(path);
  await using parent = await access.pin(directory);
  if (parent.path === '/proc' || parent.path.startsWith('/proc/')) return true;
  const to = await readlink(parent.child(name)).catch(() => undefined);
  if (to === undefined || links > MAX_LINKS) return false;
  return await isBehindProc(access, to.startsWith('/') ? to : `${parent.path}/${to}`, links + 1);
}

/** undefined when the file can only be overwritten in place. */
async function placeBeside(access: FileAccess, target: Pin): Promise<Place | undefined> {
  const { directory, name } = splitPath(target.path);
  const parent = await access.pin(directory).catch(() => undefined);
  if (!parent) return undefined;
  let place: Place | undefined;
  try {
    const entry = await lstat(parent.child(name));
    const isSame = entry.ino === target.stats.ino && entry.dev === target.stats.dev;
    if (isSame && access.allowsReplacing(parent.stats, entry)) {
      place = await temporaryIn(parent, name, 0o600, target.path);
      await place.handle.chown(target.stats.uid, target.stats.gid);
      return place;
    }
  } catch {
    await place?.handle.close();
    if (place) await unlink(place.temporary).catch(() => {});
  }
  await parent.close();
  return undefined;
}

async function placeElsewhere(name: string): Promise<Place> {
  const folder = await mkdtemp(join(tmpdir(), TEMPORARY_PREFIX));
  const temporary = join(folder, 'new');
  try {
    return { handle: await open(temporary, CREATE, 0o600), temporary, isInPlace: true, name, folder };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** File systems without hard links get a rename, with a small gap after a last look. */
async function linkExclusively(temporary: string, place: string, path: string): Promise<void> {
  try {
    await link(temporary, place);
  } catch (error) {
    const code = codeOf(error);
    if (code === 'EEXIST') throw fault('EEXIST', path);
    if (code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'ENOSYS') throw error;
    if (await lstat(place).catch(() => undefined)) throw fault('EEXIST', path);
    await rename(temporary, place);
  }
}

async function copyRange(from: FileHandle, to: FileHandle, start: number, end: number): Promise<void> {
  const buffer = Buffer.allocUnsafe(Math.min(COPY_BYTES, Math.max(1, end - start)));
  for (let position = start; position < end;) {
    const wanted = Math.min(buffer.length, end - position);
    const { bytesRead } = await from.read(buffer, 0, wanted, position);
    if (bytesRead === 0) return;
    await writeFully(to, buffer.subarray(0, bytesRead), position);
    position += bytesRead;
  }
}

/** One write may take only a part. */
export async function writeFully(file: FileHandle, bytes: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

/** Puts these bytes in the place of a file, all or nothing. @throws as `Replacement` */
export async function replaceFile(
  access: FileAccess,
  path: string,
  bytes: Uint8Array,
  options: ReplacementOptions = {},
): Promise<void> {
  await using replacement = await Replacement.begin(access, path, options);
  await writeFully(replacement.handle, bytes, 0);
  await replacement.commit();
}
