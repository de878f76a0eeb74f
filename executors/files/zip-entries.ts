import { isUtf8 } from 'node:buffer';
import { constants } from 'node:fs';
import { type Entry, fromFdPromise, getFileNameLowLevel, type ZipFile } from 'yauzl';
import { AppError } from '../../src/errors.ts';

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

/** Opens an archive that is in a file; it stays the caller's to close. @throws AppError ARCHIVE_REFUSED */
export async function openZip(fd: number): Promise<ZipFile> {
  try {
    return await fromFdPromise(fd, { autoClose: false, lazyEntries: true, decodeStrings: false });
  } catch (error) {
    throw refused(error instanceof Error ? error.message : String(error), error);
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
 * @throws AppError ARCHIVE_REFUSED for unsafe names, links that entries would go through, and more than the limits allow
 */
export async function checkArchive(zip: ZipFile, limits: UnzipLimits, freeBytes: number): Promise<void> {
  const links = new Set<string>();
  const seen: string[] = [];
  let total = 0;
  let count = 0;
  for await (const { entry, parts, kind } of safeEntries(zip)) {
    count += 1;
    total += entry.uncompressedSize;
    if (count > limits.maxUnzipEntries)
      throw refused(`it has more than ${limits.maxUnzipEntries} entries (--max-unzip-entries)`);
    checkTotal(total, zip.fileSize, limits, freeBytes);
    const name = parts.join('/');
    if (kind === 'link') links.add(name);
    seen.push(name);
  }
  if (links.size === 0) return;
  const through = seen.find((name) => isBelow(name, links));
  if (through !== undefined) throw refused(`entry ${JSON.stringify(through)} goes through a symbolic link`);
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

function isBelow(name: string, links: ReadonlySet<string>): boolean {
  for (let end = name.lastIndexOf('/'); end > 0; end = name.lastIndexOf('/', end - 1))
    if (links.has(name.slice(0, end))) return true;
  return false;
}

function checkEntry(entry: Entry): SafeEntry {
  const isUnix = entry.versionMadeBy >> 8 === MADE_BY_UNIX;
  const name = nameOf(entry, isUnix);
  const shown = JSON.stringify(name);
  if (name.startsWith('/') || (!isUnix && /^[A-Za-z]:/.test(name)))
    throw refused(`entry ${shown} has an absolute name`);
  const parts = name.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) throw refused(`entry ${shown} would leave the destination`);
  if (name.includes('\0')) throw refused(`entry ${shown} has a NUL in its name`);
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
