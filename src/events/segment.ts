import { crc32 } from 'node:zlib';
import type { FileHandle } from 'node:fs/promises';

// A segment: a header, then records `u32 length, u32 crc32 of the payload, payload`, all little-endian.

const MAGIC = Buffer.from('actiond\n', 'latin1');
export const SEGMENT_VERSION = 1;
/** Magic (8), version (4), generation (16), crc32 of these (4). */
export const HEADER_BYTES = 32;
export const FRAME_BYTES = 8;
/** No record is larger: a greater length is damage. */
const MAX_RECORD_BYTES = 1024 * 1024;

export interface SegmentHeader {
  readonly version: number;
  readonly generation: string;
}

export function encodeHeader(generation: string): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  MAGIC.copy(header);
  header.writeUInt32LE(SEGMENT_VERSION, 8);
  header.write(generation.replaceAll('-', ''), 12, 'hex');
  header.writeUInt32LE(crc32(header.subarray(0, 28)), 28);
  return header;
}

/** Undefined when this is not the beginning of a segment, or a damaged one. */
export function decodeHeader(header: Buffer): SegmentHeader | undefined {
  if (header.length < HEADER_BYTES || !header.subarray(0, 8).equals(MAGIC)) return undefined;
  if (header.readUInt32LE(28) !== crc32(header.subarray(0, 28))) return undefined;
  const hex = header.toString('hex', 12, 28);
  const generation = hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
  return { version: header.readUInt32LE(8), generation };
}

/** The records as they go to disk, one after another. */
export function frameRecords(payloads: readonly Buffer[]): Buffer {
  const total = payloads.reduce((sum, { length }) => sum + FRAME_BYTES + length, 0);
  const frames = Buffer.allocUnsafe(total);
  let at = 0;
  for (const payload of payloads) {
    frames.writeUInt32LE(payload.length, at);
    frames.writeUInt32LE(crc32(payload), at + 4);
    payload.copy(frames, at + FRAME_BYTES);
    at += FRAME_BYTES + payload.length;
  }
  return frames;
}

export interface Walk {
  /** Where the last good record ends. */
  readonly end: number;
  /** What follows is no whole record. */
  readonly isDamaged: boolean;
}

/**
 * Visits the records between two offsets, oldest first, until one visit returns false. Reads in chunks and checks every
 * checksum. The payload is a view into its chunk.
 */
export async function walkRecords(
  handle: FileHandle,
  span: { readonly from: number; readonly to: number; readonly chunkBytes: number },
  visit: (payload: Buffer, offset: number) => boolean,
): Promise<Walk> {
  let end = span.from;
  let wanted = span.chunkBytes;
  while (end < span.to) {
    const asked = Math.min(wanted, span.to - end);
    const chunk = await readChunk(handle, end, asked);
    let at = 0;
    wanted = span.chunkBytes;
    while (chunk.length - at >= FRAME_BYTES) {
      const length = chunk.readUInt32LE(at);
      const next = at + FRAME_BYTES + length;
      if (length > MAX_RECORD_BYTES || end + next > span.to) return { end: end + at, isDamaged: true };
      if (next > chunk.length) {
        wanted = Math.max(wanted, FRAME_BYTES + length);
        break;
      }
      const payload = chunk.subarray(at + FRAME_BYTES, next);
      if (crc32(payload) !== chunk.readUInt32LE(at + 4)) return { end: end + at, isDamaged: true };
      if (!visit(payload, end + at)) return { end: end + next, isDamaged: false };
      at = next;
    }
    // No whole record, though there is nothing more to ask for.
    if (at === 0 && (chunk.length < asked || chunk.length < FRAME_BYTES)) return { end, isDamaged: true };
    end += at;
  }
  return { end, isDamaged: false };
}

async function readChunk(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  const chunk = Buffer.allocUnsafeSlow(length);
  let filled = 0;
  while (filled < length) {
    const { bytesRead } = await handle.read(chunk, filled, length - filled, position + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return chunk.subarray(0, filled);
}
