/** Texts as large as the editor takes: what is done to them takes steps in proportion to their size: with its square a test would end as hung. */
import { expect, test } from 'vitest';
import { insertLines } from '../../../executors/files/insert.ts';
import { offsetOfLine, withPlainEnds } from '../../../executors/files/lines.ts';
import { replaceOnce } from '../../../executors/files/str-replace.ts';

const BYTES = 9_000_000;

test('millions of matches in one line', () => {
  const replace = (): unknown => replaceOnce('x'.repeat(BYTES), 'x', 'y', '/p');
  expect(replace).toThrow('Multiple occurrences of old_str `x` in lines [1]. Please ensure it is unique.');
});

test('millions of lines with matches: a thousand of them are named', () => {
  const replace = (): unknown => replaceOnce('xx\n'.repeat(BYTES / 3), 'x', 'y', '/p');
  expect(replace).toThrow(/in lines \[1, 2, 3, .*, 999, 1000\]\. Please/);
});

test('matches of several lines are named by where they begin', () => {
  expect(() => replaceOnce('a\nb\na\nb\na', 'a\nb', 'c', '/p')).toThrow('in lines [1, 3]. Please');
  expect(() => replaceOnce('a\na\na\na\n', 'a\na', 'c', '/p')).toThrow('in lines [1, 3]. Please');
});

test('line ends of long texts become plain as those of short ones do', () => {
  const piece = 'a\r\nb\rc\n\r\r\n\ud800é😀\n\r';
  const plain = 'a\nb\nc\n\n\n\ud800é😀\n';
  expect(withPlainEnds(piece)).toBe(`${plain}\n`);
  expect(withPlainEnds(piece.repeat(20_000)) === `${plain}\n`.repeat(20_000)).toBe(true);
});

test('lines are found from both ends', () => {
  for (const [text, offsets] of [
    ['a\nb\nc', [0, 2, 4, 5, 5]],
    ['a\r\nb\rc\n', [0, 3, 5, 7, 7]],
  ] as const) {
    expect(offsets.map((_, line) => offsetOfLine(text, line))).toEqual(offsets);
    expect([-1, -2, -3, -4].map((line) => offsetOfLine(text, line))).toEqual([offsets[2], offsets[1], 0, 0]);
  }
});

test('an insertion in the middle of millions of lines', () => {
  const lines = BYTES / 2;
  const { text } = insertLines('a\n'.repeat(lines), lines / 2, 'new', '/p');
  expect(text.indexOf('new')).toBe(lines);
  const plain = insertLines('a\rb\r\nc\nd', 3, 'new', '/p').text;
  expect(plain).toBe('a\rb\r\nc\nnew\nd');
  expect(insertLines('a\r\nb\r\n', 2, 'new', '/p').text).toBe('a\r\nb\r\nnew\r\n');
});
