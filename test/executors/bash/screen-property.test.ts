import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Screen, type ScreenOptions, type ScreenReport } from '../../../executors/bash/screen.ts';
import { charWidth, isSimpleText } from '../../../executors/bash/screen-width.ts';

/** Small enough that wrapping, scrolling and dropping happen all the time. */
const SMALL: ScreenOptions = { columns: 12, rows: 4, historyLines: 6 };

const SEQUENCE_FINALS = '@ABCDEFGHJKLMPSTXabdefhlmrsu`'.split('');

const sequence = fc
  .tuple(
    fc.constantFrom('', '', '?'),
    fc.array(fc.constantFrom('', '0', '1', '2', '3', '5', '7', '13', '1049'), { maxLength: 3 }),
    fc.constantFrom(...SEQUENCE_FINALS),
  )
  .map(([marker, params, final]) => `\x1b[${marker}${params.join(';')}${final}`);

const token = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom('abc', 'x', 'hello world, hello', ' ', 'é', '中文', '😀', 'e\u0301', '\u0301', 'a\tb'),
  },
  { weight: 3, arbitrary: fc.constantFrom('\r\n', '\n', '\r', '\t', '\b') },
  { weight: 3, arbitrary: sequence },
  {
    weight: 1,
    arbitrary: fc.constantFrom('\x1b7', '\x1b8', '\x1bD', '\x1bE', '\x1bM', '\x1bc', '\x1b(0', '\x1b(B'),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom('\x1b]0;t\x07', '\x1b]0;t', '\x1bPq\x1b\\', '\x18', '\x1b'),
  },
);

const tokens = fc.array(token, { maxLength: 60, size: 'max' }).map((parts) => Buffer.from(parts.join('')));
const randomBytes = fc.uint8Array({ maxLength: 400, size: 'max' }).map((bytes) => Buffer.from(bytes));
const output = fc.oneof({ weight: 3, arbitrary: tokens }, { weight: 1, arbitrary: randomBytes });
const cuts = fc.array(fc.nat(400), { maxLength: 12 });

function split(bytes: Buffer, at: readonly number[]): Buffer[] {
  const borders = [0, ...at.filter((cut) => cut < bytes.length), bytes.length];
  borders.sort((a, b) => a - b);
  return borders.slice(1).map((end, index) => bytes.subarray(borders[index], end));
}

function reportOf(chunks: readonly Buffer[], options = SMALL): ScreenReport {
  const screen = new Screen(options);
  for (const chunk of chunks) screen.write(chunk);
  return screen.take();
}

describe('any output', () => {
  it('reads the same however it is cut into chunks', () => {
    fc.assert(
      fc.property(output, cuts, (bytes, at) => {
        expect(reportOf(split(bytes, at))).toEqual(reportOf([bytes]));
      }),
      { numRuns: 1000 },
    );
  });

  it('reads the same however often it is looked at meanwhile', () => {
    fc.assert(
      fc.property(output, cuts, (bytes, at) => {
        const screen = new Screen(SMALL);
        for (const chunk of split(bytes, at)) {
          screen.write(chunk);
          screen.peek();
          screen.signature();
        }
        expect(screen.take()).toEqual(reportOf([bytes]));
      }),
      { numRuns: 1000 },
    );
  });

  it('has no control characters but line feed and tab', () => {
    fc.assert(
      fc.property(output, cuts, (bytes, at) => {
        const screen = new Screen(SMALL);
        for (const chunk of split(bytes, at)) {
          screen.write(chunk);
          expect(screen.take().text).not.toMatch(/[^\P{Cc}\n\t]/u);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('gives the whole window when nothing was taken, never more rows than fit', () => {
    fc.assert(
      fc.property(output, (bytes) => {
        const { text, keptLines } = reportOf([bytes]);
        const most = SMALL.rows + SMALL.historyLines;
        expect(keptLines).toBeLessThanOrEqual(most);
        expect(text.split('\n').length).toBeLessThanOrEqual(most);
      }),
      { numRuns: 500 },
    );
  });
});

describe('a signature', () => {
  it('is the same only if the text is', () => {
    fc.assert(
      fc.property(tokens, tokens, (before, after) => {
        const screen = new Screen(SMALL);
        screen.write(before);
        const text = screen.peek().text.trimEnd();
        const signature = screen.signature();
        screen.write(after);
        if (screen.signature() === signature) expect(screen.peek().text.trimEnd()).toBe(text);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('printed lines', () => {
  const line = fc.string({ unit: 'grapheme', maxLength: 40 }).filter((text) => !/\p{C}/u.test(text));
  const texts = fc.array(fc.oneof(line, fc.string({ maxLength: 60 })), { maxLength: 40 });
  const wide: ScreenOptions = { columns: 30, rows: 200, historyLines: 200 };

  it('come back as they were', () => {
    fc.assert(
      fc.property(texts, cuts, (lines, at) => {
        const printable = lines.map((text) => text.replace(/^\p{M}+/u, ''));
        const bytes = Buffer.from(printable.join('\r\n'));
        expect(reportOf(split(bytes, at), wide).text).toBe(printable.join('\n'));
      }),
    );
  });

  it('taken piece by piece are the same as taken at once', () => {
    fc.assert(
      fc.property(texts, cuts, (lines, at) => {
        const bytes = Buffer.from(lines.join('\r\n'));
        const screen = new Screen(wide);
        const pieces = split(bytes, at).map((chunk) => {
          screen.write(chunk);
          return screen.take().text;
        });
        expect(pieces.join('')).toBe(reportOf([bytes], wide).text);
      }),
    );
  });

  it('read the same whether most are dropped unread or all are parsed', () => {
    const parts = fc.array(
      fc.constantFrom('y\r\n', 'a longer line that wraps\r\n', '\x1b[32mok\x1b[0m\r\n', 'x\r', '\n', 'é\t'),
      { minLength: 1, maxLength: 8 },
    );
    fc.assert(
      fc.property(parts, fc.integer({ min: 2, max: 6 }), (unit, slices) => {
        const bytes = Buffer.from(`${unit.join('')}\r\n`.repeat(9000));
        const eager = new Screen(SMALL);
        for (let at = 0; at < bytes.length; at += 30_000) {
          eager.write(bytes.subarray(at, at + 30_000));
          eager.peek();
        }
        const size = Math.ceil(bytes.length / slices);
        const lazy = split(
          bytes,
          Array.from({ length: slices }, (_, index) => index * size),
        );
        expect(reportOf(lazy)).toEqual(eager.take());
      }),
      { numRuns: 25 },
    );
  });
});

describe('character widths', () => {
  it('are one column for every character of simple text', () => {
    for (let codePoint = 0x20; codePoint < 0x10000; codePoint += 1) {
      if (isSimpleText(String.fromCharCode(codePoint))) expect(charWidth(codePoint)).toBe(1);
    }
  });

  it.each<[string, number]>([
    ['a', 1],
    ['é', 1],
    ['中', 2],
    ['한', 2],
    ['ｱ', 1],
    ['Ａ', 2],
    ['😀', 2],
    ['✔', 1],
    ['⚡', 2],
    ['█', 1],
    ['\u0301', 0],
    ['\u200d', 0],
    ['\ufe0f', 0],
  ])('%j takes %i', (char, width) => {
    expect(charWidth(char.codePointAt(0) ?? 0)).toBe(width);
  });
});
