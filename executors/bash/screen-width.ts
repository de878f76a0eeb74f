/** Columns a terminal gives to a character, and which texts need no such question. */

/** East Asian wide and fullwidth blocks as [first, last] pairs, ascending. */
const WIDE_RANGES: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2329, 0x232a],
  [0x2e80, 0x303e],
  [0x3041, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe10, 0xfe19],
  [0xfe30, 0xfe6f],
  [0xff01, 0xff60],
  [0xffe0, 0xffe6],
  [0x16fe0, 0x18dff],
  [0x1aff0, 0x1b2ff],
  [0x1f200, 0x1f265],
  [0x20000, 0x3fffd],
];

/** Conjoining Hangul vowels and tails are drawn inside the leading consonant's cell. */
const ZERO_WIDTH = /^[\p{Mn}\p{Me}\p{Cf}\u1160-\u11ff]$/u;
const EMOJI = /^\p{Emoji_Presentation}$/u;

/** Only characters of one UTF-16 unit and one column, so that an index is also a column. */
const SIMPLE_TEXT =
  // oxlint-disable-next-line no-control-regex -- NUL stands for a cell never written
  /^[\0\x20-\x7e\u00a0-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u2319\u2500-\u25fc\u2706-\u2709\u270c-\u2727\u2729-\u274b\u2800-\u28ff]*$/;

export function isSimpleText(text: string): boolean {
  return SIMPLE_TEXT.test(text);
}

export function charWidth(codePoint: number): 0 | 1 | 2 {
  if (codePoint < 0x300) return 1;
  // Ideographs and Hangul syllables are the bulk of wide text: spare them the expressions below.
  if (codePoint >= 0x3400 && codePoint <= 0xa4cf) return 2;
  if (codePoint >= 0xac00 && codePoint <= 0xd7a3) return 2;
  // Lines, blocks and the shapes progress bars are made of.
  if (codePoint >= 0x2500 && codePoint <= 0x25fc) return 1;
  const char = String.fromCodePoint(codePoint);
  if (ZERO_WIDTH.test(char)) return 0;
  return isWide(codePoint) || EMOJI.test(char) ? 2 : 1;
}

function isWide(codePoint: number): boolean {
  for (const [first, last] of WIDE_RANGES) {
    if (codePoint <= last) return codePoint >= first;
  }
  return false;
}

/** Column the cursor reaches with a tab: every 8 columns, never beyond the last one. */
export function tabStop(column: number, columns: number): number {
  return Math.min(column - (column % 8) + 8, columns - 1);
}
