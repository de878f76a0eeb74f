import { isUtf8 } from 'node:buffer';
import { constants } from 'node:fs';
import type { Readable } from 'node:stream';
import { type Entry, fromFdPromise, getFileNameLowLevel, type ZipFile } from 'yauzl';
import { AppError } from '../../src/errors.ts';
import { quote } from '../../src/protocol/problems.ts';

export interface UnzipLimits {
  /** What all files together may unpack to, in bytes. */
  readonly maxUnzipBytes: number;
  /** How many times the size of the archive that may be, beyond `RATIO_FREE_BYTES`. */
  readonly maxUnzipRatio: number;
  readonly maxUnzipEntries: number;
}

/** One entry whose name is safe: relative, without `.` and `..`. */
export interface SafeEntry {
  readonly entry: Entry;
  readonly parts: readonly string[];
  readonly kind: 'file' | 'directory' | 'link';
  /** Permission bits; undefined when the archive was not made on a Unix. */
  readonly mode: number | undefined;
}

/** Archives that unpack to no more are no bombs, whatever their ratio. */
const RATIO_FREE_BYTES = 256 * 1024 * 1024;

const MADE_BY_UNIX = 3;
const NAME_IS_UTF8 = 0x0800;
const METHODS: ReadonlySet<number> = new Set([0, 8]);
const MAX_NAME_BYTES = 255;

/** Longest path of an entry in bytes, as in the kernel. */
const MAX_PATH_BYTES = 4096;

/** Opens an archive that is in a file; it stays the caller's to close. @throws AppError ARCHIVE_REFUSED */
export async function openZip(fd: number): Promise<ZipFile> {
  try {
    return await fromFdPromise(fd, { autoClose: false, lazyEntries: true, decodeStrings: false });
  } catch (error) {
    throw refused(error instanceof Error ? error.message : String(error), error);
  }
}

/** What an entry holds. It can break at once, before anybody reads, and tells whoever does. @throws AppError ARCHIVE_REFUSED */
export async function openEntry(zip: ZipFile, { entry, parts }: SafeEntry): Promise<Readable> {
  try {
    const stream = await zip.openReadStreamPromise(entry);
    return stream.on('error', (error) => stream.destroy(error));
  } catch (error) {
    throw damaged(parts.join('/'), error instanceof Error ? error.message : String(error), error);
  }
}

/** The entries in the order of the archive. @throws AppError ARCHIVE_REFUSED for one that is not safe */
export async function* safeEntries(zip: ZipFile): AsyncGenerator<SafeEntry> {
  const entries = zip.eachEntry();
  for (;;) {
    const next = await entries.next().catch((error: unknown) => {
      throw refused(error instanceof Error ? error.message : String(error), error);
    });
    if (next.done) return;
    const safe = checkEntry(next.value);
    if (safe.parts.length > 0) yield safe;
  }
}

/**
 * Looks at a whole archive before anything is unpacked.
 * @param checkLink throws for a link that must not be made
 * @returns how many entries it has
 * @throws AppError ARCHIVE_REFUSED for unsafe names, links that entries would go through, and more than the limits allow
 */
export async function checkArchive(
  zip: ZipFile,
  limits: UnzipLimits,
  freeBytes: number,
  checkLink: (entry: SafeEntry) => Promise<unknown>,
): Promise<number> {
  /** Names that nothing can be below. */
  const leaves = new Map<string, 'file' | 'link'>();
  const directories = new Set<string>();
  let total = 0;
  let count = 0;
  for await (const safe of safeEntries(zip)) {
    const { entry, parts, kind } = safe;
    count += 1;
    total += entry.uncompressedSize;
    if (count > limits.maxUnzipEntries)
      throw refused(`it has more than ${limits.maxUnzipEntries} entries (--max-unzip-entries)`);
    checkTotal(total, zip.fileSize, limits, freeBytes);
    if (kind === 'link') await checkLink(safe);
    const name = parts.join('/');
    if (kind !== 'directory') leaves.set(name, kind);
    for (const directory of above(kind === 'directory' ? `${name}/` : name)) {
      if (directories.has(directory)) break;
      directories.add(directory);
    }
  }
  for (const directory of directories) {
    const kind = leaves.get(directory);
    if (kind === 'link') throw refused(`an entry goes through a symbolic link, ${quote(directory)}`);
    if (kind === 'file') throw refused(`entry ${quote(directory)} is a file and a directory`);
  }
  return count;
}

/** An entry that does not hold what the archive says of it; found out while it is unpacked. */
export function damaged(name: string, reason: string, cause?: unknown): AppError {
  const text = `The archive is damaged at entry ${quote(name)}: ${reason}. What came before it was unpacked.`;
  return new AppError('ARCHIVE_REFUSED', text, { cause });
}

export function refused(reason: string, cause?: unknown): AppError {
  return new AppError('ARCHIVE_REFUSED', `The archive cannot be unpacked: ${reason}. Nothing was written.`, { cause });
}

function checkTotal(total: number, archiveBytes: number, limits: UnzipLimits, freeBytes: number): void {
  if (total > limits.maxUnzipBytes)
    throw refused(`it unpacks to more than ${limits.maxUnzipBytes} bytes (--max-unzip-bytes)`);
  if (total > RATIO_FREE_BYTES && total > archiveBytes * limits.maxUnzipRatio)
    throw refused(`it unpacks to more than ${limits.maxUnzipRatio} times its size (--max-unzip-ratio)`);
  if (total > freeBytes) throw refused(`it unpacks to more than the ${freeBytes} bytes that are free on the device`);
}

/** `a/b/c` → `a/b`, `a`. */
function* above(name: string): Generator<string> {
  for (let end = name.lastIndexOf('/'); end > 0; end = name.lastIndexOf('/', end - 1)) yield name.slice(0, end);
}

function checkEntry(entry: Entry): SafeEntry {
  const isUnix = entry.versionMadeBy >> 8 === MADE_BY_UNIX;
  const name = nameOf(entry, isUnix);
  const shown = quote(name);
  if (name.startsWith('/') || (!isUnix && /^[A-Za-z]:/.test(name)))
    throw refused(`entry ${shown} has an absolute name`);
  const parts = name.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) throw refused(`entry ${shown} would leave the destination`);
  if (name.includes('\0')) throw refused(`entry ${shown} has a NUL in its name`);
  if (Buffer.byteLength(name) > MAX_PATH_BYTES) throw refused(`the path of entry ${quote(name)} is too long`);
  if (parts.some((part) => Buffer.byteLength(part) > MAX_NAME_BYTES))
    throw refused(`the name of entry ${shown} is too long`);
  if (entry.isEncrypted()) throw refused(`entry ${shown} is encrypted`);
  if (!METHODS.has(entry.compressionMethod)) throw refused(`entry ${shown} is compressed in an unknown way`);
  const attributes = isUnix ? entry.externalFileAttributes >>> 16 : 0;
  const kind = name.endsWith('/') ? 'directory' : kindOf(attributes, shown);
  return { entry, parts, kind, mode: attributes === 0 ? undefined : attributes & 0o777 };
}

function kindOf(attributes: number, shown: string): SafeEntry['kind'] {
  switch (attributes & constants.S_IFMT) {
    case 0:
    case constants.S_IFREG:
      return 'file';
    case constants.S_IFDIR:
      return 'directory';
    case constants.S_IFLNK:
      return 'link';
    default:
      throw refused(`entry ${shown} is a device or pipe`);
  }
}

/** Many programs write UTF-8 without saying so. Backslashes separate only where the archive comes from Windows. */
function nameOf(entry: Entry, isUnix: boolean): string {
  const raw = entry.fileNameRaw;
  const flags = isUtf8(raw) ? entry.generalPurposeBitFlag | NAME_IS_UTF8 : entry.generalPurposeBitFlag;
  const name = getFileNameLowLevel(flags, raw, entry.extraFields, true);
  return isUnix ? name : name.replaceAll('\\', '/');
}
