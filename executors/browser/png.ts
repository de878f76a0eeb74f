import { promisify } from 'node:util';
import { constants, crc32, deflate, inflate } from 'node:zlib';

/*
 * Just what a picture of the browser needs: 8 bits, RGB or RGBA, not interlaced. General libraries take five times as long, on the
 * thread that everything else waits for.
 */

const inflated = promisify(inflate);
const deflated = promisify<Buffer, object, Buffer>(deflate);

const SIGNATURE = Buffer.from('89504e470d0a1a0a', 'hex');
/** A picture of a viewport is a hundred times smaller. */
const MAX_PIXELS = 64 * 1024 * 1024;
const CHANNELS: ReadonlyMap<number, number> = new Map([
  [2, 3],
  [6, 4],
]);

/** Pixels by rows, without padding. */
export interface Picture {
  readonly width: number;
  readonly height: number;
  /** 3: RGB, 4: RGBA. */
  readonly channels: number;
  readonly pixels: Buffer;
}

/** @throws for what is no such picture */
export async function decodePng(png: Buffer): Promise<Picture> {
  if (!png.subarray(0, 8).equals(SIGNATURE)) throw new Error('no PNG');
  const width = png.readUInt32BE(16);
  const height = png.readUInt32BE(20);
  const channels = CHANNELS.get(png[25] ?? 0);
  if (png[24] !== 8 || png[28] !== 0 || channels === undefined || width * height > MAX_PIXELS)
    throw new Error('this form of PNG is not read');
  const parts: Buffer[] = [];
  for (let at = 8; at + 12 <= png.length;) {
    const length = png.readUInt32BE(at);
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  const lines = await inflated(Buffer.concat(parts), { maxOutputLength: (width * channels + 1) * height });
  return { width, height, channels, pixels: unfiltered(lines, width * channels, height, channels) };
}

/** Every line is kept as the difference to its neighbours, in the way that its first byte says (PNG §9). */
function unfiltered(lines: Buffer, stride: number, height: number, step: number): Buffer {
  const pixels = Buffer.allocUnsafe(stride * height);
  const blank = Buffer.alloc(stride);
  let above: Buffer = blank;
  for (let y = 0; y < height; y += 1) {
    const from = y * (stride + 1);
    const line = lines.subarray(from + 1, from + 1 + stride);
    const out = pixels.subarray(y * stride, (y + 1) * stride);
    unfilterLine(lines[from] ?? 0, line, above, out, step);
    above = out;
  }
  return pixels;
}

function unfilterLine(filter: number, line: Buffer, above: Buffer, out: Buffer, step: number): void {
  const { length } = line;
  switch (filter) {
    case 0:
      line.copy(out);
      return;
    case 1:
      line.copy(out, 0, 0, step);
      for (let x = step; x < length; x += 1) out[x] = (line[x] as number) + (out[x - step] as number);
      return;
    case 2:
      for (let x = 0; x < length; x += 1) out[x] = (line[x] as number) + (above[x] as number);
      return;
    case 3:
      for (let x = 0; x < step; x += 1) out[x] = (line[x] as number) + ((above[x] as number) >> 1);
      for (let x = step; x < length; x += 1)
        out[x] = (line[x] as number) + (((out[x - step] as number) + (above[x] as number)) >> 1);
      return;
    case 4:
      for (let x = 0; x < step; x += 1) out[x] = (line[x] as number) + (above[x] as number);
      for (let x = step; x < length; x += 1) {
        const corner = above[x - step] as number;
        out[x] = (line[x] as number) + nearest(out[x - step] as number, above[x] as number, corner);
      }
      return;
    default:
      throw new Error('a broken PNG');
  }
}

/** Of the three, the one nearest to left + above - corner. */
function nearest(left: number, above: number, corner: number): number {
  const toLeft = Math.abs(above - corner);
  const toAbove = Math.abs(left - corner);
  const toCorner = Math.abs(left + above - 2 * corner);
  if (toLeft <= toAbove && toLeft <= toCorner) return left;
  return toAbove <= toCorner ? above : corner;
}

/** Lines as they are, and the fastest compression. */
export async function encodePng({ width, height, channels, pixels }: Picture): Promise<Buffer> {
  const stride = width * channels;
  const lines = Buffer.allocUnsafe((stride + 1) * height);
  for (let y = 0; y < height; y += 1) {
    const at = y * (stride + 1);
    lines[at] = 0;
    pixels.copy(lines, at + 1, y * stride, (y + 1) * stride);
  }
  const data = await deflated(lines, { level: constants.Z_BEST_SPEED });
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, channels === 3 ? 2 : 6, 0, 0, 0], 8);
  return Buffer.concat([SIGNATURE, chunk('IHDR', head), chunk('IDAT', data), chunk('IEND', Buffer.alloc(0))]);
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length, 0);
  body.copy(framed, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}
