import { isUtf8 } from 'node:buffer';

const TEXT_CONTROLS: ReadonlySet<number> = new Set([0x07, 0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x1b]);
const BYTE_ORDER_MARKS: readonly (readonly number[])[] = [
  [0xef, 0xbb, 0xbf],
  [0xff, 0xfe],
  [0xfe, 0xff],
  [0x00, 0x00, 0xfe, 0xff],
];

/** From here on a guess of the encoding counts as certain, in percent. */
const SURE_PERCENT = 90;

/**
 * Whether a file is binary, from its name and first 1024 bytes, by the rules of binaryornot 0.4.4 (V0 §7.2). Bytes without any control
 * character are text in every encoding, whatever the guess; there V0 was wrong about short files in old encodings.
 */
export async function isBinary(name: string, head: Uint8Array): Promise<boolean> {
  if (name.endsWith('.pyc')) return true;
  if (head.length === 0 || hasByteOrderMark(head)) return false;
  const isAscii = head.every((byte) => byte < 0x80);
  if (!isAscii && isUtf8(withoutCutEnd(head))) return false;
  if (looksLikeUtf16(head) !== undefined || (!isAscii && (await isDecodable(head)))) return false;
  const unprintable = share(head, (byte) => !isPrintableAscii(byte));
  const notHigh = share(head, (byte) => byte < 127);
  const isLikely = (unprintable > 0.3 && notHigh < 0.05) || (unprintable > 0.8 && notHigh > 0.8);
  const hasControls = head.some((byte) => byte < 0x20 && !TEXT_CONTROLS.has(byte));
  return (isLikely && hasControls) || head.includes(0) || (head.includes(0xff) && hasControls);
}

/** UTF-16 without a mark: text of mostly Latin letters has a zero in every other byte. */
export function looksLikeUtf16(head: Uint8Array): 'utf-16le' | 'utf-16be' | undefined {
  const units = Math.floor(head.length / 2);
  if (units < 2) return undefined;
  let [evenZeros, oddZeros] = [0, 0];
  for (let index = 0; index < units * 2; index += 2) {
    if (head[index] === 0) evenZeros += 1;
    if (head[index + 1] === 0) oddZeros += 1;
  }
  if (evenZeros === 0 && oddZeros > units * 0.7) return hasTextUnits(head, 0) ? 'utf-16le' : undefined;
  if (oddZeros === 0 && evenZeros > units * 0.7) return hasTextUnits(head, 1) ? 'utf-16be' : undefined;
  return undefined;
}

/** Whether no 16-bit unit is a control character. @param low index of the first low byte */
function hasTextUnits(head: Uint8Array, low: 0 | 1): boolean {
  return head.every(
    (byte, index) => index % 2 !== low || byte >= 0x20 || head[index ^ 1] !== 0 || TEXT_CONTROLS.has(byte),
  );
}

function hasByteOrderMark(head: Uint8Array): boolean {
  return BYTE_ORDER_MARKS.some((mark) => mark.every((byte, index) => head[index] === byte));
}

async function isDecodable(head: Uint8Array): Promise<boolean> {
  if (head.includes(0)) return false;
  const { default: chardet } = await import('chardet');
  const best = chardet.analyse(head)[0];
  return best !== undefined && best.name !== 'ASCII' && best.confidence > SURE_PERCENT;
}

/** The last character may be cut in the middle. */
function withoutCutEnd(head: Uint8Array): Uint8Array {
  for (let back = 1; back <= Math.min(3, head.length); back += 1) {
    const byte = head[head.length - back] ?? 0;
    if (byte >= 0xc0) return head.subarray(0, head.length - back);
    if (byte < 0x80) break;
  }
  return head;
}

function share(bytes: Uint8Array, holds: (byte: number) => boolean): number {
  let count = 0;
  for (const byte of bytes) if (holds(byte)) count += 1;
  return count / bytes.length;
}

function isPrintableAscii(byte: number): boolean {
  return (byte >= 0x20 && byte < 0x7f) || (byte >= 0x08 && byte <= 0x0d && byte !== 0x0b);
}
