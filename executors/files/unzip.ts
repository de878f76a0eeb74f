import { constants } from 'node:fs';
import { type FileHandle, open, statfs, symlink, unlink } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { ZipFile } from 'yauzl';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { codeOf, fault } from '../../src/sandbox/file-faults.ts';
import type { Pin } from '../../src/sandbox/pin.ts';
import { Replacement, writeFully } from './replacement.ts';
import { checkArchive, openZip, refused, type SafeEntry, safeEntries, type UnzipLimits } from './zip-entries.ts';

/** Directories that are held open while their files are unpacked. */
const MAX_PINNED = 64;

/** Longest target of a symbolic link, as in the kernel. */
const MAX_TARGET_BYTES = 4096;

const CREATE = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_NOFOLLOW;

/**
 * Unpacks an archive into a directory. The whole archive is looked at first, and refused as a whole; then files are made one by one,
 * with the permission bits of the archive, existing ones replaced. Nothing is written through a symbolic link, whoever made it, and
 * links come last.
 * @throws AppError ARCHIVE_REFUSED; ENOSPC, EACCES, ENOTDIR, EISDIR, after which what was unpacked so far is there
 */
export async function unzip(
  access: FileAccess,
  archive: FileHandle,
  destination: Pin,
  limits: UnzipLimits,
): Promise<void> {
  const { bavail, bsize } = await statfs(destination.link);
  await checkArchive(await openZip(archive.fd), limits, bavail * bsize);
  await using target = new Target(access, destination);
  const links: SafeEntry[] = [];
  const zip = await openZip(archive.fd);
  for await (const entry of safeEntries(zip)) {
    if (entry.kind === 'link') links.push(entry);
    else if (entry.kind === 'directory') await target.directory(entry.parts);
    else await target.file(entry, await zip.openReadStreamPromise(entry.entry));
  }
  for (const entry of links) await target.link(entry, await readTarget(zip, entry));
}

async function readTarget(zip: ZipFile, { entry, parts }: SafeEntry): Promise<string> {
  if (entry.uncompressedSize > MAX_TARGET_BYTES) throw refused(`the target of link ${parts.join('/')} is too long`);
  const chunks: Buffer[] = [];
  for await (const chunk of await zip.openReadStreamPromise(entry)) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
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

  /** Makes it and those above it where they are missing. @throws ENOTDIR for a link on the way */
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
    const path = this.#pathOf(parts);
    const pin = await this.#access.makeDirectory(parent, name, path);
    if (pin.path !== path) {
      await pin.close();
      throw fault('ENOTDIR', path);
    }
    await this.#keep(key, pin);
    return pin;
  }

  async file({ parts, mode }: SafeEntry, content: Readable): Promise<void> {
    const parent = await this.directory(parts.slice(0, -1));
    const name = parts.at(-1) ?? '';
    const path = this.#pathOf(parts);
    this.#access.require(parent, 'write', path);
    const created = await open(parent.child(name), CREATE, mode ?? 0o666).catch((error: unknown) => {
      if (codeOf(error) !== 'EEXIST') throw error;
    });
    if (!created) return this.#replace(path, mode, content, parent, name);
    try {
      await this.#access.claim(parent.child(name), parent.stats);
      await copyTo(created, content);
      if (mode !== undefined) await created.chmod(mode);
    } catch (error) {
      await unlink(parent.child(name)).catch(() => {});
      throw error;
    } finally {
      await created.close();
    }
  }

  async link({ parts }: SafeEntry, to: string): Promise<void> {
    const path = parts.join('/');
    if (leavesDestination(parts, to)) throw refused(`link ${JSON.stringify(path)} points out of the destination`);
    const parent = await this.directory(parts.slice(0, -1));
    const place = parent.child(parts.at(-1) ?? '');
    await unlink(place).catch(() => {});
    await symlink(to, place);
    await this.#access.claim(place, parent.stats);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const pin of this.#pins.values()) await pin.close();
    this.#pins.clear();
  }

  /** A link is replaced, not followed. */
  async #replace(path: string, mode: number | undefined, content: Readable, parent: Pin, name: string): Promise<void> {
    await using pin = await this.#access.pinChild(parent, name, path).catch(() => undefined);
    if (pin?.path !== path) {
      await unlink(parent.child(name));
    }
    await using replacement = await Replacement.begin(this.#access, path, { mode });
    await copyTo(replacement.handle, content);
    await replacement.commit();
  }

  #pathOf(parts: readonly string[]): string {
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

/**
 * Only targets whose `..` come first are taken: behind a name that is itself a link, `..` could lead anywhere.
 */
function leavesDestination(parts: readonly string[], to: string): boolean {
  if (to === '' || to.startsWith('/') || to.includes('\0')) return true;
  const steps = to.split('/').filter((part) => part !== '' && part !== '.');
  const ups = steps.findIndex((part) => part !== '..');
  const count = ups < 0 ? steps.length : ups;
  return count > parts.length - 1 || steps.slice(count).includes('..');
}

async function copyTo(file: FileHandle, content: Readable): Promise<void> {
  let position = 0;
  for await (const chunk of content) {
    const bytes = chunk as Buffer;
    await writeFully(file, bytes, position);
    position += bytes.length;
  }
}
