import { crc32 } from 'node:zlib';
import { FRAME_BYTES } from './segment.ts';

/** How each payload begins. */
const PAYLOAD_START = Buffer.from('{"seq":');

/**
 * Whether what follows the last sound record is a write that a crash cut off, which nobody was told of. Else it is damage: events that
 * somebody may have read are lost.
 */
export function isTornWrite(tail: Buffer): boolean {
  if (tail.length < FRAME_BYTES || tail.every((byte) => byte === 0)) return true;
  if (FRAME_BYTES + tail.readUInt32LE(0) <= tail.length) return false;
  const isOnlyItsLengthWrong = crc32(tail.subarray(FRAME_BYTES)) === tail.readUInt32LE(4);
  return !isOnlyItsLengthWrong && !hasRecord(tail);
}

/** Whether a whole record stands anywhere behind the beginning. */
function hasRecord(tail: Buffer): boolean {
  for (let at = tail.indexOf(PAYLOAD_START, FRAME_BYTES + 1); at >= 0; at = tail.indexOf(PAYLOAD_START, at + 1)) {
    const length = tail.readUInt32LE(at - FRAME_BYTES);
    const payload = tail.subarray(at, at + length);
    if (payload.length === length && crc32(payload) === tail.readUInt32LE(at - FRAME_BYTES + 4)) return true;
  }
  return false;
}
