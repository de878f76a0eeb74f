import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { StreamText, withoutEscapes } from '../../../executors/jupyter/stream-text.ts';

function shown(...pieces: string[]): string {
  const stream = new StreamText(1_000_000, 1_000_000);
  for (const piece of pieces) stream.write(piece);
  return stream.finish().head;
}

describe('text as it ends', () => {
  test.each([
    ['plain', ['a\nb\n'], 'a\nb\n'],
    ['a carriage return', ['10%\r20%\r100%\n'], '100%\n'],
    ['a shorter line over a longer one', ['longer\rab'], 'abnger'],
    ['CR LF', ['a\r\nb\r\n'], 'a\nb\n'],
    ['backspaces', ['abc\b\bX'], 'aXc'],
    ['colours', ['\u001b[1;31mred\u001b[0m'], 'red'],
    ['erasing to the end of the line', ['abcdef\r\u001b[Kxy'], 'xy'],
    ['erasing the whole line', ['abcdef\u001b[2K\rxy'], 'xy'],
    ['two bars below each other', ['one 0\ntwo 0\u001b[A\rone 9\n\rtwo 9\n'], 'one 9\ntwo 9\n'],
    ['a bar that erases itself', ['x\n 50%|##\r       \r'], 'x\n'],
    ['blanks that were written', ['x\ny  '], 'x\ny  '],
    ['a title', ['\u001b]0;title\u0007x\u001b]8;;http://a\u001b\\link'], 'xlink'],
    ['a sequence in pieces', ['a\u001b', '[3', '1mb'], 'ab'],
    ['a bell', ['a\u0007b'], 'ab'],
    ['an escape that is none', ['a\u001b\nb'], 'a\nb'],
  ])('%s', (_, pieces, expected) => {
    expect(shown(...pieces)).toBe(expected);
  });

  test('does not depend on where the pieces end', () => {
    const part = fc.constantFrom(
      'a',
      'bc',
      '\n',
      '\r',
      '\b',
      '\u001b[K',
      '\u001b[2A',
      '\u001b[31m',
      '龍',
      '\u{1f4a9}',
      '\t',
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 60 }), fc.array(fc.nat(100), { maxLength: 10 }), (parts, cuts) => {
        const text = parts.join('');
        const places = [0, ...cuts.filter((cut) => cut < text.length).toSorted((a, b) => a - b), text.length];
        const pieces = places.slice(1).map((end, index) => text.slice(places[index], end));
        expect(shown(...pieces)).toBe(shown(text));
      }),
    );
  });

  test('text without control characters stays as it is', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: fc.constantFrom('a', ' ', '\n', '龍', '\t') })), (pieces) => {
        expect(shown(...pieces)).toBe(pieces.join(''));
      }),
    );
  });
});

describe('more text than is kept', () => {
  test.each([
    ['in lines', (index: number) => `line ${index}\n`],
    ['in one line', (index: number) => `${index},`],
    ['in one line with control characters', (index: number) => `${index},\u001b[0m`],
  ])('%s keeps its beginning and its end', (_, piece) => {
    const stream = new StreamText(1000, 1000);
    let all = '';
    for (let index = 0; index < 50_000; index += 1) {
      stream.write(piece(index));
      all += withoutEscapes(piece(index));
    }
    const { head, tail, dropped } = stream.finish();
    expect(head).toBe(all.slice(0, 1000));
    expect(all.endsWith(tail)).toBe(true);
    expect(tail.length).toBeGreaterThanOrEqual(1000);
    expect(tail.length).toBeLessThan(40_000);
    expect(head.length + dropped + tail.length).toBe(all.length);
  });
});

test('a line above the last one is bounded, too', () => {
  const stream = new StreamText(1000, 1000);
  stream.write('first\nlast\u001b[A\r');
  for (let index = 0; index < 10_000; index += 1) stream.write('0123456789\u001b[m');
  expect(stream.length).toBeLessThan(100_000);
  const { head, tail, dropped } = stream.finish();
  expect(head.startsWith('0123456789')).toBe(true);
  expect(tail.endsWith('6789\nlast')).toBe(true);
  expect(head.length + dropped + tail.length).toBe(100_000 + '\nlast'.length);
});

test('beginnings of sequences that never end are looked through once', () => {
  // Through each of them to the end it would be 10 ** 12 steps.
  const beginnings = '\u009d'.repeat(1_500_000);
  expect(shown(beginnings)).toBe('');
  expect(withoutEscapes(beginnings)).toBe('');
});

test('escapes are taken out of text that stands alone', () => {
  expect(withoutEscapes('\u001b[0;31mError\u001b[0m: \u001b[1mx\u001b[22;24m')).toBe('Error: x');
  expect(withoutEscapes('plain \r text')).toBe('plain \r text');
  expect(withoutEscapes('\u001b]0;t\u0007a\u001b(Bb\u001b')).toBe('ab');
});
