import type { Dirent, Stats } from 'node:fs';
import { type FileHandle, lstat, readdir, readlink, rmdir, unlink } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { AppError } from '../../src/errors.ts';
import { type FileAccess, splitPath } from '../../src/sandbox/file-access.ts';
import { codeOf, fault, faultText, OutsideRootsError, SpecialFileError } from '../../src/sandbox/file-faults.ts';
import { kindOf, type Pin } from '../../src/sandbox/pin.ts';
import type { KeyedLocks } from './locks.ts';
import { Replacement, writeFully } from './replacement.ts';

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
      return new Served(pin, path);
    } catch (error) {
      await pin.close();
      throw error;
    }
  } catch (error) {
    throw httpError(error, path);
  }
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
        await removeEntry(access, parent, name, { path, isRecursive });
      } finally {
        await parent.close();
      }
    });
  } catch (error) {
    throw httpError(error, path);
  }
}

/** An entry of a directory, with what the account may remove below it; links are not followed. */
async function removeEntry(
  access: FileAccess,
  parent: Pin,
  name: string,
  { path, isRecursive }: { path: string; isRecursive: boolean },
): Promise<void> {
  const stats = await lstat(parent.child(name));
  if (!access.allowsReplacing(parent.stats, stats)) throw fault('EACCES', path);
  if (!stats.isDirectory()) return unlink(parent.child(name));
  if (isRecursive) {
    await using child = await access.pinChild(parent, name, path);
    if (child.stats.ino !== stats.ino) throw fault('EBUSY', path);
    access.require(child, 'read', path);
    for (const entry of await readdir(child.link))
      await removeEntry(access, child, entry, { path: `${path}/${entry}`, isRecursive });
  }
  await rmdir(parent.child(name));
}

class Served implements OpenFile {
  readonly info: FileInfo;
  readonly #pin: Pin;

  constructor(pin: Pin, path: string) {
    this.#pin = pin;
    this.info = infoOf(path, pin.stats);
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
    const file = await this.#pin.openForReading(this.info.path);
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
  switch (codeOf(error)) {
    case 'ENOENT':
    case 'ENAMETOOLONG':
    case 'ELOOP':
      return new AppError('FILE_NOT_FOUND', detail, { cause: error });
    case 'EACCES':
    case 'EPERM':
    case 'EROFS':
      return new AppError('FILE_FORBIDDEN', detail, { cause: error });
    case 'ENOTDIR':
    case 'EISDIR':
    case 'EEXIST':
    case 'ENOTEMPTY':
    case 'EBUSY':
      return new AppError('FILE_CONFLICT', detail, { cause: error });
    case 'ENOSPC':
    case 'EDQUOT':
      return new AppError('DISK_FULL', `${detail}. Nothing was stored.`, { cause: error });
    default:
      return error;
  }
}
