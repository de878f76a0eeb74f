import { extname } from 'node:path';
import { TextDecoder } from 'node:util';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { TooLargeError } from '../../src/sandbox/file-faults.ts';
import type { Pin } from '../../src/sandbox/pin.ts';
import { isBinary } from './binary.ts';
import { MAX_MEDIA_BYTES, MAX_READ_BYTES, MAX_SCAN_BYTES, SNIFF_BYTES } from './limits.ts';
import { lineRange } from './lines.ts';
import { readBytes } from './text-file.ts';

/** MIME types of the files that are answered as data URLs, as V0 guesses them (V0 §7.2). */
const MEDIA_TYPES: ReadonlyMap<string, string> = new Map([
  ['.png', 'image/png'],
  ['.jpg', 'image/jpeg'],
  ['.jpeg', 'image/jpeg'],
  ['.bmp', 'image/bmp'],
  ['.gif', 'image/gif'],
  ['.pdf', 'application/pdf'],
  ['.mp4', 'video/mp4'],
  ['.webm', 'video/webm'],
  ['.ogg', 'audio/ogg'],
]);

const CHUNK_BYTES = 256 * 1024;

/** A file that is not UTF-8 text. */
export class NotUtf8Error extends Error {
  override readonly name = 'NotUtf8Error';
}

export function mediaTypeOf(path: string): string | undefined {
  return MEDIA_TYPES.get(extname(path).toLowerCase());
}

/** @throws TooLargeError, SpecialFileError, EACCES */
export async function readDataUrl(access: FileAccess, pin: Pin, path: string, type: string): Promise<string> {
  const bytes = await readBytes(access, pin, path, MAX_MEDIA_BYTES);
  return `data:${type};base64,${bytes.toString('base64')}`;
}

/**
 * Lines of a UTF-8 text as V0's `read` answers them: universal newlines, `start` from 0, `end` exclusive or -1 (V0 §7.3). Memory is
 * bounded by what is answered, whatever the size of the file.
 * @returns undefined for a binary file
 * @throws NotUtf8Error, TooLargeError, SpecialFileError, EACCES
 */
export async function readLines(
  access: FileAccess,
  pin: Pin,
  path: string,
  { start, end, signal }: { start: number; end: number; signal: AbortSignal },
): Promise<string | undefined> {
  access.require(pin, 'read', path);
  const file = await pin.openForReading(path);
  try {
    const collector = new LineCollector(lineRange(start, end), path);
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
    for (let position = 0; !collector.isDone;) {
      signal.throwIfAborted();
      const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
      const bytes = buffer.subarray(0, bytesRead);
      if (position === 0 && (await isBinary(path, bytes.subarray(0, SNIFF_BYTES)))) return undefined;
      collector.add(decodeChunk(decoder, bytes, path));
      position += bytesRead;
      if (position > MAX_SCAN_BYTES) throw tooFar(path);
      // Files of the kernel report no size and give less than was asked for.
      if (bytesRead === 0 || (bytesRead < buffer.length && position >= pin.stats.size && pin.stats.size > 0)) break;
    }
    if (!collector.isDone) collector.add(decodeChunk(decoder, undefined, path));
    return collector.finish();
  } finally {
    await file.close();
  }
}

function decodeChunk(decoder: TextDecoder, chunk: Buffer | undefined, path: string): string {
  try {
    return decoder.decode(chunk, { stream: chunk !== undefined });
  } catch (error) {
    throw new NotUtf8Error(`File could not be decoded as utf-8: ${path}.`, { cause: error });
  }
}

/** Keeps the wanted lines of a text that comes in pieces. */
class LineCollector {
  readonly #first: number;
  readonly #last: number;
  readonly #path: string;
  readonly #pieces: string[] = [];
  #line = 0;
  #length = 0;
  #hasOpenCr = false;

  constructor({ first, last }: { first: number; last: number }, path: string) {
    this.#first = first;
    this.#last = last;
    this.#path = path;
  }

  get isDone(): boolean {
    return this.#line >= this.#last;
  }

  add(piece: string): void {
    const text = this.#plain(piece);
    let from = 0;
    while (this.#line < this.#first) {
      const end = text.indexOf('\n', from);
      if (end < 0) return;
      from = end + 1;
      this.#line += 1;
    }
    let to = this.#last === Infinity ? text.length : from;
    while (to < text.length && this.#line < this.#last) {
      const end = text.indexOf('\n', to);
      to = end < 0 ? text.length : end + 1;
      if (end >= 0) this.#line += 1;
    }
    this.#keep(text.slice(from, to));
  }

  finish(): string {
    if (this.#hasOpenCr && !this.isDone && this.#line >= this.#first) this.#keep('\n');
    return this.#pieces.join('');
  }

  #keep(text: string): void {
    if (text === '') return;
    this.#length += text.length;
    if (this.#length > MAX_READ_BYTES) throw tooLong(this.#path);
    this.#pieces.push(text);
  }

  /** Universal newlines; a CR at the end may be half of one. */
  #plain(piece: string): string {
    const text = this.#hasOpenCr ? `\r${piece}` : piece;
    this.#hasOpenCr = text.endsWith('\r');
    const whole = this.#hasOpenCr ? text.slice(0, -1) : text;
    return whole.includes('\r') ? whole.replaceAll(/\r\n?/g, '\n') : whole;
  }
}

function tooLong(path: string): TooLargeError {
  return new TooLargeError(
    `File is too large to read whole: ${path} has more than ${MAX_READ_BYTES} bytes in these lines. ` +
      'Read fewer lines with start and end, or use head, tail, sed or grep.',
  );
}

function tooFar(path: string): TooLargeError {
  return new TooLargeError(
    `The lines were not found in the first ${MAX_SCAN_BYTES} bytes of ${path}. Use tail, sed or grep.`,
  );
}
