import { crc32 } from 'node:zlib';

/** What is known of a file before its bytes. */
export interface ZipEntryInfo {
  /** Path in the archive, with slashes. */
  readonly name: string;
  readonly mtime: Date;
  /** As `stat` gives it. */
  readonly mode: number;
  /** More bytes than these are not to be written. */
  readonly size: number;
}

const LOCAL_HEADER = 0x04034b50;
const DATA_DESCRIPTOR = 0x08074b50;
const CENTRAL_HEADER = 0x02014b50;
const CENTRAL_END = 0x06054b50;
const CENTRAL_END_64 = 0x06064b50;
const CENTRAL_LOCATOR_64 = 0x07064b50;

const MADE_BY_UNIX = 3 << 8;
const VERSION = 20;
const VERSION_64 = 45;
const NAME_IS_UTF8 = 0x0800;
const HAS_DESCRIPTOR = 0x0008;
const EXTRA_64 = 0x0001;
const MAX_32 = 0xffff_ffff;
const MAX_16 = 0xffff;

const OLDEST = new Date(1980, 0, 1);
const NEWEST = new Date(2107, 11, 31, 23, 59, 58);

interface OpenEntry {
  readonly info: ZipEntryInfo;
  readonly offset: number;
  readonly is64: boolean;
  crc: number;
  written: number;
}

/**
 * Writes a zip archive without compression, of any size, in one pass: the caller sends each returned piece, in order. Memory grows only
 * by the directory, some hundred bytes for each file. (The known packages spend time that grows with the square of the number of files.)
 */
export class ZipWriter {
  readonly #directory: Buffer[] = [];
  #directoryBytes = 0;
  #offset = 0;
  #entry: OpenEntry | undefined;

  /** A whole file whose bytes are at hand. */
  file(info: ZipEntryInfo, bytes: Buffer): Buffer[] {
    const crc = crc32(bytes);
    const entry = { info, offset: this.#offset, is64: false, crc, written: bytes.length };
    const header = localHeader(entry, { flags: NAME_IS_UTF8, crc, size: bytes.length });
    this.#remember(entry, NAME_IS_UTF8);
    return this.#sent([header, bytes]);
  }

  /** Begins a file whose bytes follow. */
  begin(info: ZipEntryInfo): Buffer {
    const is64 = info.size >= MAX_32;
    this.#entry = { info, offset: this.#offset, is64, crc: 0, written: 0 };
    const header = localHeader(this.#entry, { flags: NAME_IS_UTF8 | HAS_DESCRIPTOR, crc: 0, size: 0 });
    this.#sent([header]);
    return header;
  }

  /** The next bytes of the file. */
  data(bytes: Buffer): Buffer {
    const entry = this.#open();
    entry.crc = crc32(bytes, entry.crc);
    entry.written += bytes.length;
    this.#sent([bytes]);
    return bytes;
  }

  /** Ends the file, with as many bytes as there were. */
  endFile(): Buffer {
    const entry = this.#open();
    this.#entry = undefined;
    this.#remember(entry, NAME_IS_UTF8 | HAS_DESCRIPTOR);
    const descriptor = Buffer.alloc(entry.is64 ? 24 : 16);
    descriptor.writeUInt32LE(DATA_DESCRIPTOR, 0);
    descriptor.writeUInt32LE(entry.crc, 4);
    if (entry.is64) {
      descriptor.writeBigUInt64LE(BigInt(entry.written), 8);
      descriptor.writeBigUInt64LE(BigInt(entry.written), 16);
    } else {
      descriptor.writeUInt32LE(entry.written, 8);
      descriptor.writeUInt32LE(entry.written, 12);
    }
    this.#sent([descriptor]);
    return descriptor;
  }

  /** The directory; nothing comes after it. */
  end(): Buffer[] {
    const { length: count } = this.#directory;
    const [size, offset] = [this.#directoryBytes, this.#offset];
    const is64 = count >= MAX_16 || size >= MAX_32 || offset >= MAX_32;
    const end = Buffer.alloc(22);
    end.writeUInt32LE(CENTRAL_END, 0);
    end.writeUInt16LE(Math.min(count, MAX_16), 8);
    end.writeUInt16LE(Math.min(count, MAX_16), 10);
    end.writeUInt32LE(Math.min(size, MAX_32), 12);
    end.writeUInt32LE(Math.min(offset, MAX_32), 16);
    return [...this.#directory, ...(is64 ? [end64(count, size, offset)] : []), end];
  }

  #open(): OpenEntry {
    if (!this.#entry) throw new Error('no file of the archive is open');
    return this.#entry;
  }

  #sent(pieces: Buffer[]): Buffer[] {
    for (const { length } of pieces) this.#offset += length;
    return pieces;
  }

  #remember(entry: OpenEntry, flags: number): void {
    const header = centralHeader(entry, flags);
    this.#directory.push(header);
    this.#directoryBytes += header.length;
  }
}

function localHeader(
  { info, is64 }: OpenEntry,
  { flags, crc, size }: { flags: number; crc: number; size: number },
): Buffer {
  const name = Buffer.from(info.name);
  const extra = is64 ? extra64([0, 0]) : Buffer.alloc(0);
  const header = Buffer.alloc(30);
  header.writeUInt32LE(LOCAL_HEADER, 0);
  header.writeUInt16LE(is64 ? VERSION_64 : VERSION, 4);
  header.writeUInt16LE(flags, 6);
  header.writeUInt32LE(dosTime(info.mtime), 10);
  header.writeUInt32LE(crc, 14);
  header.writeUInt32LE(is64 ? MAX_32 : size, 18);
  header.writeUInt32LE(is64 ? MAX_32 : size, 22);
  header.writeUInt16LE(name.length, 26);
  header.writeUInt16LE(extra.length, 28);
  return Buffer.concat([header, name, extra]);
}

function centralHeader({ info, offset, is64, crc, written }: OpenEntry, flags: number): Buffer {
  const name = Buffer.from(info.name);
  const needs64 = is64 || offset >= MAX_32;
  const extra = needs64 ? extra64([written, written, offset]) : Buffer.alloc(0);
  const header = Buffer.alloc(46);
  header.writeUInt32LE(CENTRAL_HEADER, 0);
  header.writeUInt16LE(MADE_BY_UNIX | VERSION_64, 4);
  header.writeUInt16LE(needs64 ? VERSION_64 : VERSION, 6);
  header.writeUInt16LE(flags, 8);
  header.writeUInt32LE(dosTime(info.mtime), 12);
  header.writeUInt32LE(crc, 16);
  header.writeUInt32LE(needs64 ? MAX_32 : written, 20);
  header.writeUInt32LE(needs64 ? MAX_32 : written, 24);
  header.writeUInt16LE(name.length, 28);
  header.writeUInt16LE(extra.length, 30);
  header.writeUInt32LE((info.mode << 16) >>> 0, 38);
  header.writeUInt32LE(needs64 ? MAX_32 : offset, 42);
  return Buffer.concat([header, name, extra]);
}

function extra64(values: readonly number[]): Buffer {
  const extra = Buffer.alloc(4 + values.length * 8);
  extra.writeUInt16LE(EXTRA_64, 0);
  extra.writeUInt16LE(values.length * 8, 2);
  values.forEach((value, index) => extra.writeBigUInt64LE(BigInt(value), 4 + index * 8));
  return extra;
}

function end64(count: number, size: number, offset: number): Buffer {
  const record = Buffer.alloc(56 + 20);
  record.writeUInt32LE(CENTRAL_END_64, 0);
  record.writeBigUInt64LE(44n, 4);
  record.writeUInt16LE(MADE_BY_UNIX | VERSION_64, 12);
  record.writeUInt16LE(VERSION_64, 14);
  record.writeBigUInt64LE(BigInt(count), 24);
  record.writeBigUInt64LE(BigInt(count), 32);
  record.writeBigUInt64LE(BigInt(size), 40);
  record.writeBigUInt64LE(BigInt(offset), 48);
  record.writeUInt32LE(CENTRAL_LOCATOR_64, 56);
  record.writeBigUInt64LE(BigInt(offset + size), 64);
  record.writeUInt32LE(1, 72);
  return record;
}

/** Date and time of DOS, local time, from 1980 to 2107. */
function dosTime(time: Date): number {
  const shown = time < OLDEST ? OLDEST : time > NEWEST ? NEWEST : time;
  const date = ((shown.getFullYear() - 1980) << 9) | ((shown.getMonth() + 1) << 5) | shown.getDate();
  const clock = (shown.getHours() << 11) | (shown.getMinutes() << 5) | (shown.getSeconds() >> 1);
  return ((date << 16) | clock) >>> 0;
}
