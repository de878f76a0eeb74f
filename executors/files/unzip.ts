import { constants } from 'node:fs';
import { type FileHandle, lstat, open, statfs, symlink, unlink } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { crc32 } from 'node:zlib';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { codeOf, fault } from '../../src/sandbox/file-faults.ts';
import { kindOf, type Pin } from '../../src/sandbox/pin.ts';
import { Replacement, writeFully } from './replacement.ts';
import {
  checkArchive,
  damaged,
  openEntry,
  openZip,
  type SafeEntry,
  safeEntries,
  type UnzipLimits,
} from './zip-entries.ts';
import { InTheWayError, stoppedAt } from './unzip-faults.ts';
import { linkTarget } from './zip-links.ts';

/** Directories that are held open while their files are unpacked. */
const MAX_PINNED = 64;

const CREATE = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;

/**
 * Unpacks an archive into a directory. The whole archive is looked at first, and refused as a whole; then files are made one by one,
 * with the permission bits of the archive, existing ones replaced. Nothing is written through a symbolic link, whoever made it, and
 * links come last.
 * @throws AppError ARCHIVE_REFUSED, also for what is in the way of an entry; DISK_FULL, TRANSFER_FAILED. What was unpacked so far is
 * there then, and the text says how much and where it stopped.
 */
export async function unzip(
  access: FileAccess,
  archive: FileHandle,
  destination: Pin,
  limits: UnzipLimits,
): Promise<void> {
  const { bavail, bsize } = await statfs(destination.link);
  const checked = await openZip(archive.fd);
  const total = await checkArchive(checked, limits, bavail * bsize, (entry) => linkTarget(checked, entry));
  await using target = new Target(access, destination);
  const links: SafeEntry[] = [];
  const zip = await openZip(archive.fd);
  let done = 0;
  const unpack = async (entry: SafeEntry): Promise<void> => {
    try {
      if (entry.kind === 'link') await target.link(entry, await linkTarget(zip, entry));
      else if (entry.kind === 'directory') await target.directory(entry.parts);
      else await target.file(entry, await openEntry(zip, entry));
    } catch (error) {
      throw stoppedAt(entry, error, { path: target.pathOf(entry.parts), done, total });
    }
    done += 1;
  };
  for await (const entry of safeEntries(zip)) {
    if (entry.kind === 'link') links.push(entry);
    else await unpack(entry);
  }
  for (const entry of links) await unpack(entry);
}

/** The directory that is unpacked into, and those below that were used last. */
class Target implements AsyncDisposable {
  readonly #access: FileAccess;
  readonly #root: Pin;
  /** By relative path; the one that was used last is the last. */
  readonly #pins = new Map<string, Pin>();

  constructor(access: FileAccess, root: Pin) {
    this.#access = access;
    this.#root = root;
  }

  /** Makes it and those above it where they are missing. @throws ENOTDIR, InTheWayError for a link on the way */
  async directory(parts: readonly string[]): Promise<Pin> {
    const name = parts.at(-1);
    if (name === undefined) return this.#root;
    const key = parts.join('/');
    const known = this.#pins.get(key);
    if (known) {
      this.#pins.delete(key);
      this.#pins.set(key, known);
      return known;
    }
    const parent = await this.directory(parts.slice(0, -1));
    const path = this.pathOf(parts);
    const pin = await this.#access.makeDirectory(parent, name, path).catch(async (error: unknown) => {
      const stats = await lstat(parent.child(name)).catch(() => undefined);
      throw stats?.isSymbolicLink() ? throughLink(path) : error;
    });
    if (pin.path !== path) {
      await pin.close();
      throw throughLink(path);
    }
    await this.#keep(key, pin);
    return pin;
  }

  async file(entry: SafeEntry, content: Readable): Promise<void> {
    try {
      await this.#file(entry, content);
    } finally {
      content.destroy();
    }
  }

  async #file(entry: SafeEntry, content: Readable): Promise<void> {
    const { parts, mode } = entry;
    const parent = await this.directory(parts.slice(0, -1));
    const name = parts.at(-1) ?? '';
    const path = this.pathOf(parts);
    this.#access.require(parent, 'write', path);
    const created = await open(parent.child(name), CREATE, mode ?? 0o666).catch((error: unknown) => {
      if (codeOf(error) !== 'EEXIST') throw error;
    });
    if (!created) return this.#replace(path, entry, content, parent, name);
    try {
      await this.#access.claimOpen(created, parent.stats);
      await copyTo(created, entry, content);
      if (mode !== undefined) await created.chmod(mode);
    } catch (error) {
      await unlink(parent.child(name)).catch(() => {});
      throw error;
    } finally {
      await created.close();
    }
  }

  async link({ parts }: SafeEntry, to: string): Promise<void> {
    const parent = await this.directory(parts.slice(0, -1));
    const name = parts.at(-1) ?? '';
    const place = parent.child(name);
    this.#access.require(parent, 'write', this.pathOf(parts));
    await this.#remove(parent, name, this.pathOf(parts));
    await symlink(to, place);
    await this.#access.claim(place, parent.stats);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const pin of this.#pins.values()) await pin.close();
    this.#pins.clear();
  }

  /** A link is replaced, not followed. */
  async #replace(path: string, entry: SafeEntry, content: Readable, parent: Pin, name: string): Promise<void> {
    await using pin = await this.#access.pinChild(parent, name, path).catch(() => undefined);
    if (pin?.path !== path) await this.#remove(parent, name, path);
    else if (pin.stats.isDirectory()) throw fault('EISDIR', path);
    else if (!pin.stats.isFile()) throw new InTheWayError(`${path} is a ${kindOf(pin.stats)}, which is not replaced`);
    await using replacement = await Replacement.begin(this.#access, path, { mode: entry.mode, isFresh: true });
    await copyTo(replacement.handle, entry, content);
    await replacement.commit();
  }

  /** What is there, if anything, as far as the account may. @throws EACCES, EISDIR */
  async #remove(parent: Pin, name: string, path: string): Promise<void> {
    const stats = await lstat(parent.child(name)).catch(() => undefined);
    if (!stats) return;
    if (stats.isDirectory()) throw fault('EISDIR', path);
    if (!this.#access.allowsReplacing(parent.stats, stats)) throw fault('EACCES', path);
    await unlink(parent.child(name));
  }

  pathOf(parts: readonly string[]): string {
    return [this.#root.path === '/' ? '' : this.#root.path, ...parts].join('/');
  }

  async #keep(key: string, pin: Pin): Promise<void> {
    this.#pins.set(key, pin);
    if (this.#pins.size <= MAX_PINNED) return;
    const [oldest] = this.#pins;
    if (!oldest) return;
    this.#pins.delete(oldest[0]);
    await oldest[1].close();
  }
}

function throughLink(path: string): InTheWayError {
  return new InTheWayError(`${path} is a symbolic link, which is not followed`);
}

/** @throws AppError ARCHIVE_REFUSED for other bytes than the archive promises */
async function copyTo(file: FileHandle, { entry, parts }: SafeEntry, content: Readable): Promise<void> {
  let position = 0;
  let checksum = 0;
  try {
    for await (const chunk of content) {
      const bytes = chunk as Buffer;
      checksum = crc32(bytes, checksum);
      await writeFully(file, bytes, position);
      position += bytes.length;
    }
  } catch (error) {
    if (isSystemError(error)) throw error;
    throw damaged(parts.join('/'), error instanceof Error ? error.message : String(error), error);
  }
  if (checksum !== entry.crc32) throw damaged(parts.join('/'), 'its checksum is another');
}

/** zlib's errors have codes as well. */
function isSystemError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error;
}
