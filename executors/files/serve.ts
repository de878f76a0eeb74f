import type { Dirent, Stats } from 'node:fs';
import { type FileHandle, lstat, readdir, readlink, rmdir, unlink } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { AppError } from '../../src/errors.ts';
import { type FileAccess, splitPath } from '../../src/sandbox/file-access.ts';
import {
  codeOf,
  fault,
  faultText,
  OutsideRootsError,
  SpecialFileError,
  TooLargeError,
} from '../../src/sandbox/file-faults.ts';
import { kindOf, type Pin } from '../../src/sandbox/pin.ts';
import { MAX_KERNEL_FILE_BYTES } from './limits.ts';
import type { KeyedLocks } from './locks.ts';
import { Replacement, writeFully } from './replacement.ts';
import { readBytes } from './text-file.ts';

/** What is at a path. */
export interface FileInfo {
  readonly path: string;
  readonly isDirectory: boolean;
  /** Bytes. */
  readonly size: number;
  readonly mtime: Date;
  /** Changes with the content; with the quotes of HTTP. */
  readonly etag: string;
}

export interface DirectoryEntry {
  readonly name: string;
  readonly type: string;
  /** Bytes; of the link itself for a link. */
  readonly size: number;
  readonly mtime: string;
  /** Permission bits in octal, such as `0644`. */
  readonly mode: string;
  /** Where a link points. */
  readonly target?: string;
}

/** An open file or directory; `close`, or a stream that ends or is destroyed, gives it back. */
export interface OpenFile {
  readonly info: FileInfo;
  list(): Promise<{ entries: DirectoryEntry[]; truncated: boolean }>;
  /** Bytes from `start` up to `end`, exclusive. */
  stream(start: number, end: number): Promise<Readable>;
  close(): Promise<void>;
}

export interface PutRequest {
  readonly path: string;
  readonly mode?: number | undefined;
  /** Decides about what is there now, undefined for nothing; throws to refuse. */
  readonly check: (current: FileInfo | undefined) => void;
}

const CHUNK_BYTES = 128 * 1024;

/** Files without blocks up to this size may be the kernel's; a file with a hole is read all the same. */
const SMALL_BYTES = 64 * 1024;

/** Entries of a directory in one answer. */
const MAX_ENTRIES = 100_000;

/** `stat` calls at the same time. */
const LIST_BATCH = 256;

/** Opens a file or directory for reading. @throws AppError */
export async function openForServing(access: FileAccess, path: string): Promise<OpenFile> {
  try {
    const pin = await access.pin(path);
    try {
      if (!pin.stats.isDirectory()) pin.requireFile(path);
      access.require(pin, 'read', path);
      const bytes = hasUncertainSize(pin.stats) ? await readBytes(access, pin, path, MAX_KERNEL_FILE_BYTES) : undefined;
      return new Served(pin, path, bytes);
    } catch (error) {
      await pin.close();
      throw error;
    }
  } catch (error) {
    throw httpError(error, path);
  }
}

/** Files of the kernel (/proc, /sys) report no size, or a wrong one, and no blocks. */
function hasUncertainSize(stats: Stats): boolean {
  return stats.isFile() && stats.blocks === 0 && stats.size <= SMALL_BYTES;
}

/** Stores what comes in the place of a file, all or nothing; missing directories are made. @throws AppError */
export async function putFile(
  access: FileAccess,
  locks: KeyedLocks,
  { path, mode, check }: PutRequest,
  content: AsyncIterable<Uint8Array>,
): Promise<{ info: FileInfo; isNew: boolean }> {
  try {
    check(await infoAt(access, path));
    const parent = await access.makeDirectories(splitPath(path).directory);
    await parent.close();
    await using file = await Replacement.begin(access, path, { mode });
    let position = 0;
    for await (const chunk of content) {
      await writeFully(file.handle, chunk, position);
      position += chunk.length;
    }
    const before = await locks.run(await access.keyOf(path), async () => {
      const current = await infoAt(access, path);
      check(current);
      await file.commit();
      return current;
    });
    const info = await infoAt(access, path);
    if (!info) throw fault('ENOENT', path);
    return { info, isNew: before === undefined };
  } catch (error) {
    throw httpError(error, path);
  }
}

/** Removes a file, a link, or a directory. @param isRecursive whether with all that is in it @throws AppError */
export async function deletePath(
  access: FileAccess,
  locks: KeyedLocks,
  path: string,
  { isRecursive, check }: { isRecursive: boolean; check: PutRequest['check'] },
): Promise<void> {
  try {
    await locks.run(await access.keyOf(path), async () => {
      const { parent, name } = await access.pinParent(path);
      try {
        check(infoOf(path, await lstat(parent.child(name))));
        await removeEntry(access, parent, Buffer.from(name), { path, isRecursive });
      } finally {
        await parent.close();
      }
    });
  } catch (error) {
    throw httpError(error, path);
  }
}

/**
 * An entry of a directory, with what the account may remove below it; links are not followed.
 * @param name bytes, because not every name is UTF-8
 */
async function removeEntry(
  access: FileAccess,
  parent: Pin,
  name: Buffer,
  { path, isRecursive }: { path: string; isRecursive: boolean },
): Promise<void> {
  const place = parent.childOfBytes(name);
  const stats = await lstat(place);
  if (!access.allowsReplacing(parent.stats, stats)) throw fault('EACCES', path);
  if (!stats.isDirectory()) return unlink(place);
  if (isRecursive) {
    await using child = await access.pinChild(parent, name, path);
    if (child.stats.ino !== stats.ino) throw fault('EBUSY', path);
    access.require(child, 'read', path);
    for (const entry of await readdir(child.link, { encoding: 'buffer' }))
      await removeEntry(access, child, entry, { path: `${path}/${entry.toString()}`, isRecursive });
  }
  await rmdir(place);
}

class Served implements OpenFile {
  readonly info: FileInfo;
  readonly #pin: Pin;
  readonly #bytes: Buffer | undefined;

  /** @param bytes all of the file, where its size says nothing */
  constructor(pin: Pin, path: string, bytes: Buffer | undefined) {
    this.#pin = pin;
    this.#bytes = bytes;
    const info = infoOf(path, pin.stats);
    this.info = bytes ? { ...info, size: bytes.length } : info;
  }

  async list(): Promise<{ entries: DirectoryEntry[]; truncated: boolean }> {
    const found = await readdir(this.#pin.link, { withFileTypes: true });
    const shown = found.slice(0, MAX_ENTRIES).toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const entries: DirectoryEntry[] = [];
    for (let index = 0; index < shown.length; index += LIST_BATCH) {
      const batch = shown.slice(index, index + LIST_BATCH).map((entry) => this.#describe(entry));
      entries.push(...(await Promise.all(batch)).filter((entry) => entry !== undefined));
    }
    return { entries, truncated: shown.length < found.length };
  }

  async stream(start: number, end: number): Promise<Readable> {
    if (this.#bytes) {
      await this.close();
      return Readable.from([this.#bytes.subarray(start, end)], { objectMode: false });
    }
    const { path } = this.info;
    const file = await this.#pin.openForReading(path).catch((error: unknown) => {
      throw httpError(error, path);
    });
    const stream = Readable.from(pieces(file, start, end), { objectMode: false });
    stream.once('close', () => void file.close().then(() => this.close()));
    return stream;
  }

  close(): Promise<void> {
    return this.#pin.close();
  }

  /** undefined for what has gone meanwhile. */
  async #describe({ name }: Dirent): Promise<DirectoryEntry | undefined> {
    const place = this.#pin.child(name);
    const stats = await lstat(place).catch(() => undefined);
    if (!stats) return undefined;
    const target = stats.isSymbolicLink() ? await readlink(place).catch(() => undefined) : undefined;
    return {
      name,
      type: kindOf(stats),
      size: stats.size,
      mtime: stats.mtime.toISOString(),
      mode: `0${(stats.mode & 0o7777).toString(8).padStart(3, '0')}`,
      ...(target === undefined ? {} : { target }),
    };
  }
}

async function* pieces(file: FileHandle, start: number, end: number): AsyncGenerator<Buffer> {
  for (let position = start; position < end;) {
    const length = Math.min(CHUNK_BYTES, end - position);
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafeSlow(length), 0, length, position);
    // The length has been promised: less would look like the whole.
    if (bytesRead === 0) throw new Error('the file became shorter while it was sent');
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

async function infoAt(access: FileAccess, path: string): Promise<FileInfo | undefined> {
  try {
    await using pin = await access.pin(path);
    return infoOf(path, pin.stats);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function infoOf(path: string, stats: Stats): FileInfo {
  const tag = [stats.mtimeMs * 1000, stats.size, stats.ino].map((value) => Math.round(value).toString(36)).join('-');
  return { path, isDirectory: stats.isDirectory(), size: stats.size, mtime: stats.mtime, etag: `"${tag}"` };
}

/** Failures in the statuses that HTTP has for them. */
export function httpError(error: unknown, path: string): unknown {
  if (error instanceof AppError) return error;
  const detail = faultText(error, path);
  if (error instanceof OutsideRootsError) return new AppError('FILE_FORBIDDEN', detail, { cause: error });
  if (error instanceof SpecialFileError) return new AppError('FILE_CONFLICT', detail, { cause: error });
  if (error instanceof TooLargeError) return new AppError('FILE_CONFLICT', detail, { cause: error });
  switch (codeOf(error)) {
    case undefined:
      return error;
    case 'ENAMETOOLONG':
      return AppError.invalidBody(`path: ${detail}`);
    case 'ENOENT':
      return new AppError('FILE_NOT_FOUND', detail, { cause: error });
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new AppError('FILE_FORBIDDEN', detail, { cause: error });
    case 'ENOTDIR':
    case 'EISDIR':
    case 'EEXIST':
    case 'ENOTEMPTY':
    case 'ELOOP':
    case 'EBUSY':
    case 'ETXTBSY':
    case 'EAGAIN':
    case 'EINVAL':
    case 'ESPIPE':
    case 'EIO':
      return new AppError('FILE_CONFLICT', detail, { cause: error });
    case 'ENOSPC':
    case 'EDQUOT':
      return new AppError('DISK_FULL', `${detail}. Nothing was stored.`, { cause: error });
    default:
      return new AppError('TRANSFER_FAILED', detail, { cause: error });
  }
}
