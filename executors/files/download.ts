import { constants, type Dirent, type Stats } from 'node:fs';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import { Readable } from 'node:stream';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { fault, faultText } from '../../src/sandbox/file-faults.ts';
import { kindOf, type Pin } from '../../src/sandbox/pin.ts';
import { ZipWriter } from './zip-writer.ts';

export interface Download {
  /** Last name of the path; empty for `/`. */
  readonly name: string;
  /** A zip archive (V0 §2.6). To be destroyed when it is not read to its end. */
  readonly stream: Readable;
}

/** Names what is not in the archive; only there when something is not. */
export const SKIPPED_LIST = '.download-skipped.txt';

/** Files up to this size are read whole, which spares a descriptor record; larger ones in pieces of this size. */
const CHUNK_BYTES = 128 * 1024;

/** Longest list of what is not in the archive. */
const MAX_SKIPPED = 10_000;

/** Without waiting for pipes, and not through a link that took the place of a file meanwhile. */
const OPEN_ENTRY = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;

/**
 * A directory, or one file, as a zip archive that is made while it is sent: files only, entries relative to the directory, links to
 * files followed, links to directories left out, no compression (V0 §2.6). What cannot be read is left out and listed in
 * `SKIPPED_LIST`; a file that grows meanwhile is cut at the size it had, one that becomes shorter is listed as well.
 * @throws ENOENT, EACCES, OutsideRootsError, SpecialFileError
 */
export async function openDownload(access: FileAccess, path: string): Promise<Download> {
  const pin = await access.pin(path);
  try {
    if (!pin.stats.isDirectory()) pin.requireFile(path);
    access.require(pin, 'read', path);
  } catch (error) {
    await pin.close();
    throw error;
  }
  const name = baseName(path);
  const archive = new Archive(access);
  const pieces = pin.stats.isDirectory() ? archive.directory(pin) : archive.single(pin, name);
  const stream = Readable.from(batched(pieces), { objectMode: false });
  // Not in the generator, which has no `finally` when nobody reads.
  stream.once('close', () => void pin.close());
  return { name, stream };
}

function baseName(path: string): string {
  const trimmed = path.replace(/\/+$/, '');
  return trimmed.slice(trimmed.lastIndexOf('/') + 1);
}

/** Small pieces together: a hundred thousand small files are not a hundred thousand writes. */
async function* batched(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let batch: Buffer[] = [];
  let size = 0;
  for await (const piece of pieces) {
    batch.push(piece);
    size += piece.length;
    if (size < CHUNK_BYTES) continue;
    yield batch.length === 1 ? piece : Buffer.concat(batch, size);
    batch = [];
    size = 0;
  }
  if (size > 0) yield Buffer.concat(batch, size);
}

class Archive {
  readonly #access: FileAccess;
  readonly #zip = new ZipWriter();
  readonly #skipped: string[] = [];
  #skippedCount = 0;

  constructor(access: FileAccess) {
    this.#access = access;
  }

  async *single(pin: Pin, name: string): AsyncGenerator<Buffer> {
    yield* this.#file(name, () => pin.openForReading(name));
    yield* this.#end();
  }

  async *directory(pin: Pin): AsyncGenerator<Buffer> {
    yield* this.#below(pin, '');
    yield* this.#end();
  }

  async *#below(directory: Pin, prefix: string): AsyncGenerator<Buffer> {
    for (const entry of await this.#entries(directory, prefix)) {
      const name = prefix + entry.name;
      if (entry.isDirectory()) yield* this.#subdirectory(directory, entry.name, name);
      else if (entry.isSymbolicLink()) yield* this.#link(directory, entry.name, name);
      else if (entry.isFile()) yield* this.#file(name, () => open(directory.child(entry.name), OPEN_ENTRY));
      else this.#skip(name, `a ${kindOfEntry(entry)}`);
    }
  }

  async #entries(directory: Pin, prefix: string): Promise<Dirent[]> {
    try {
      this.#access.require(directory, 'read', prefix);
      return await readdir(directory.link, { withFileTypes: true });
    } catch (error) {
      this.#skip(prefix, reasonOf(error));
      return [];
    }
  }

  async *#subdirectory(parent: Pin, entry: string, name: string): AsyncGenerator<Buffer> {
    const child = await this.#pinChild(parent, entry, name);
    if (!child) return;
    try {
      // A link that took the place of the directory meanwhile is left out like any other.
      if (child.path === joined(parent.path, entry)) yield* this.#below(child, `${name}/`);
    } finally {
      await child.close();
    }
  }

  async *#link(parent: Pin, entry: string, name: string): AsyncGenerator<Buffer> {
    const target = await this.#pinChild(parent, entry, name);
    if (!target) return;
    try {
      if (target.stats.isFile()) yield* this.#file(name, () => target.openForReading(name));
      else if (!target.stats.isDirectory()) this.#skip(name, `a ${kindOf(target.stats)}`);
    } finally {
      await target.close();
    }
  }

  async #pinChild(parent: Pin, entry: string, name: string): Promise<Pin | undefined> {
    try {
      return await this.#access.pinChild(parent, entry, name);
    } catch (error) {
      this.#skip(name, reasonOf(error));
      return undefined;
    }
  }

  async *#file(name: string, openFile: () => Promise<FileHandle>): AsyncGenerator<Buffer> {
    let file: FileHandle | undefined;
    try {
      file = await openFile();
      const stats = await file.stat();
      if (!this.#access.allows(stats, 'read')) throw fault('EACCES', name);
      if (stats.size <= CHUNK_BYTES) yield* this.#small(file, name, stats);
      else yield* this.#large(file, name, stats);
    } catch (error) {
      this.#skip(name, reasonOf(error));
    } finally {
      await file?.close();
    }
  }

  async *#small(file: FileHandle, name: string, stats: Stats): AsyncGenerator<Buffer> {
    const buffer = Buffer.allocUnsafe(stats.size);
    let size = 0;
    while (size < stats.size) {
      const { bytesRead } = await file.read(buffer, size, stats.size - size, size);
      if (bytesRead === 0) break;
      size += bytesRead;
    }
    if (size < stats.size) await this.#noteShort(file, name, stats, size);
    yield* this.#zip.file(infoOf(name, stats), buffer.subarray(0, size));
  }

  /** From its header on a file is ended properly, whatever happens. */
  async *#large(file: FileHandle, name: string, stats: Stats): AsyncGenerator<Buffer> {
    yield this.#zip.begin(infoOf(name, stats));
    for (let position = 0; position < stats.size;) {
      const bytes = await this.#readPiece(file, name, position, stats);
      if (bytes.length === 0) break;
      position += bytes.length;
      yield this.#zip.data(bytes);
    }
    yield this.#zip.endFile();
  }

  /** Nothing at the end, wherever that is now. */
  async #readPiece(file: FileHandle, name: string, position: number, stats: Stats): Promise<Buffer> {
    const length = Math.min(CHUNK_BYTES, stats.size - position);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.allocUnsafeSlow(length), 0, length, position);
      if (bytesRead === 0) await this.#noteShort(file, name, stats, position);
      return buffer.subarray(0, bytesRead);
    } catch (error) {
      this.#skip(name, `cut after ${position} bytes: ${reasonOf(error)}`);
      return Buffer.alloc(0);
    }
  }

  /** Files of the kernel report sizes that they never had, and are whole all the same. */
  async #noteShort(file: FileHandle, name: string, stats: Stats, size: number): Promise<void> {
    const now = await file.stat();
    if (now.size === stats.size && now.ctimeMs === stats.ctimeMs) return;
    this.#skip(name, `cut after ${size} of ${stats.size} bytes: it became shorter while it was read`);
  }

  *#end(): Generator<Buffer> {
    if (this.#skippedCount > 0) {
      const more = this.#skippedCount - this.#skipped.length;
      const list = [...this.#skipped, ...(more > 0 ? [`and ${more} more`] : [])];
      const bytes = Buffer.from(`${list.join('\n')}\n`);
      yield* this.#zip.file({ name: SKIPPED_LIST, mtime: new Date(), mode: 0o100644, size: bytes.length }, bytes);
    }
    yield* this.#zip.end();
  }

  #skip(name: string, reason: string): void {
    this.#skippedCount += 1;
    if (this.#skipped.length < MAX_SKIPPED) this.#skipped.push(`${JSON.stringify(name)}: ${reason}`);
  }
}

function joined(directory: string, name: string): string {
  return directory === '/' ? `/${name}` : `${directory}/${name}`;
}

function infoOf(name: string, { mtime, mode, size }: Stats): { name: string; mtime: Date; mode: number; size: number } {
  return { name, mtime, mode, size };
}

function reasonOf(error: unknown): string {
  return faultText(error, '').replace(/: $/, '');
}

function kindOfEntry(entry: Dirent): string {
  if (entry.isFIFO()) return 'named pipe';
  return entry.isSocket() ? 'socket' : 'device';
}
