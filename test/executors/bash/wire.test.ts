import { expect, test } from 'vitest';
import { ReportReader } from '../../../executors/bash/wire.ts';

function report(token: string, exitCode: number): string {
  return `${[token, exitCode, '', '/tmp', 'hiB', '/bin', ''].join('\0')}\0`;
}

test.each([1, 7, 40, 1000])('the first report of a command counts, also when they come in pieces of %i', (size) => {
  const text = `!one\0${report('one', 3)}${report('one', 0)}${report('one', 0)}!two\0${report('two', 0)}${report('two', 1)}`;
  const reader = new ReportReader();
  const seen: [string, number][] = [];
  for (let at = 0; at < text.length; at += size) {
    for (const [token, { exitCode }] of reader.read(text.slice(at, at + size))) seen.push([token, exitCode]);
  }
  expect(seen).toEqual([
    ['one', 3],
    ['two', 0],
  ]);
  expect(reader.begun).toBe('two');
});

test('what has no end is not kept, and the next report is read', () => {
  const reader = new ReportReader();
  for (let count = 0; count < 5; count += 1) reader.read('x'.repeat(1024 * 1024));
  expect(Array.from(reader.read(report('one', 3)).keys())).toEqual(['one']);
});
