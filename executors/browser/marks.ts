import type { ElementProperties } from '../../src/protocol/observations.ts';
import { eachPixel, GLYPH_HEIGHT, GLYPH_WIDTH } from './font.ts';
import { decodePng, encodePng, type Picture } from './png.ts';

type Colour = readonly [red: number, green: number, blue: number];

const BLACK: Colour = [0, 0, 0];
const WHITE: Colour = [255, 255, 255];

/** Thickness of the box, and the lengths of its dashes and gaps, in pixels. */
const LINE = 2;
const DASH = 6;
const GAP = 4;
/** Size of a letter's pixel, space between letters, and around the text. */
const SCALE = 2;
const LETTER_GAP = 2;
const PADDING = 3;

/** As `drawMarks`; undefined when it cannot be drawn. */
export async function tryDrawMarks(
  png: Buffer,
  properties: Readonly<Record<string, ElementProperties>>,
): Promise<Buffer | undefined> {
  try {
    return await drawMarks(png, properties);
  } catch {
    return undefined;
  }
}

/**
 * The picture with a dashed box around every element of the set of marks, and its id on a black tag at the upper left (V0 §8.2).
 * @param png of the viewport, one pixel for each CSS pixel
 */
export async function drawMarks(png: Buffer, properties: Readonly<Record<string, ElementProperties>>): Promise<Buffer> {
  const picture = await decodePng(png);
  const marked = Object.entries(properties).filter(([, { set_of_marks: isMarked, bbox }]) => isMarked && bbox !== null);
  for (const [, { bbox }] of marked) drawBox(picture, bbox ?? []);
  // Tags last: boxes do not cross them out.
  for (const [bid, { bbox }] of marked) drawTag(picture, bid, bbox ?? []);
  return encodePng(picture);
}

function drawBox(picture: Picture, bbox: readonly number[]): void {
  const [left = 0, top = 0, width = 0, height = 0] = bbox.map(Math.round);
  const right = left + width - LINE;
  const bottom = top + height - LINE;
  for (let x = Math.max(0, left); x < Math.min(picture.width, left + width); x += 1) {
    if ((x - left) % (DASH + GAP) >= DASH) continue;
    fill(picture, x, top, 1, LINE, BLACK);
    fill(picture, x, bottom, 1, LINE, BLACK);
  }
  for (let y = Math.max(0, top); y < Math.min(picture.height, top + height); y += 1) {
    if ((y - top) % (DASH + GAP) >= DASH) continue;
    fill(picture, left, y, LINE, 1, BLACK);
    fill(picture, right, y, LINE, 1, BLACK);
  }
}

function drawTag(picture: Picture, bid: string, bbox: readonly number[]): void {
  const width = bid.length * (GLYPH_WIDTH * SCALE + LETTER_GAP) - LETTER_GAP + 2 * PADDING;
  const height = GLYPH_HEIGHT * SCALE + 2 * PADDING;
  const [x = 0, y = 0] = bbox.map(Math.round);
  // An element that begins outside of the picture has its tag on the edge.
  const left = Math.max(0, Math.min(x, picture.width - width));
  const top = Math.max(0, Math.min(y, picture.height - height));
  fill(picture, left, top, width, height, WHITE);
  fill(picture, left + 1, top + 1, width - 2, height - 2, BLACK);
  [...bid].forEach((letter, index) => {
    const at = left + PADDING + index * (GLYPH_WIDTH * SCALE + LETTER_GAP);
    eachPixel(letter, (px, py) => fill(picture, at + px * SCALE, top + PADDING + py * SCALE, SCALE, SCALE, WHITE));
  });
}

function fill(
  picture: Picture,
  left: number,
  top: number,
  width: number,
  height: number,
  [red, green, blue]: Colour,
): void {
  for (let y = Math.max(0, top); y < Math.min(picture.height, top + height); y += 1) {
    for (let x = Math.max(0, left); x < Math.min(picture.width, left + width); x += 1) {
      const at = (y * picture.width + x) * picture.channels;
      picture.pixels[at] = red;
      picture.pixels[at + 1] = green;
      picture.pixels[at + 2] = blue;
      if (picture.channels === 4) picture.pixels[at + 3] = 255;
    }
  }
}
