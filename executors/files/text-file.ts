import type { FileHandle } from 'node:fs/promises';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { TooLargeError } from '../../src/sandbox/file-faults.ts';
import type { Pin } from '../../src/sandbox/pin.ts';
import { SNIFF_BYTES } from './limits.ts';

const CHUNK_BYTES = 64 * 1024;

/** All bytes of a file, also of those that report no size, such as in /proc. @throws TooLargeError, SpecialFileError, EACCES, EISDIR */
export async function readBytes(access: FileAccess, pin: Pin, path: string, maxBytes: number): Promise<Buffer> {
  access.require(pin, 'read', path);
  if (pin.stats.size > maxBytes) throw tooLarge(path, pin.stats.size, maxBytes);
  const file = await pin.openForReading(path);
  try {
    return await readAll(file, pin.stats.size, path, maxBytes);
  } finally {
    await file.close();
  }
}

async function readAll(file: FileHandle, expected: number, path: string, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for (;;) {
    // One byte more than expected finds the end without a further call.
    const buffer = Buffer.allocUnsafe(Math.max(expected - size + 1, CHUNK_BYTES));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, size);
    size += bytesRead;
    if (size > maxBytes) throw tooLarge(path, size, maxBytes);
    if (bytesRead > 0) chunks.push(buffer.subarray(0, bytesRead));
    if (bytesRead === 0) return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, size);
  }
}

/** The first bytes, which tell what kind of file it is. */
export async function readHead(access: FileAccess, pin: Pin, path: string): Promise<Buffer> {
  access.require(pin, 'read', path);
  const file = await pin.openForReading(path);
  try {
    const buffer = Buffer.alloc(SNIFF_BYTES);
    const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

function tooLarge(path: string, bytes: number, maxBytes: number): TooLargeError {
  return new TooLargeError(
    `File is too large to read whole: ${path} has ${bytes} bytes or more, the limit is ${maxBytes}. ` +
      'Read a range of lines, or use head, tail, sed or grep.',
  );
}
