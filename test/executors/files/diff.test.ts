import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { unifiedDiff } from '../../../executors/files/diff.ts';

/** What V0 runs (V0 §7.6). */
const PYTHON = `import difflib,json,sys
def diff(a, b): return '\\n'.join(l.rstrip() for l in difflib.unified_diff(a.split('\\n'), b.split('\\n'), fromfile='p', tofile='p', n=0, lineterm=''))
print(json.dumps([diff(a, b) for a, b in json.load(sys.stdin)]))`;

function byPython(pairs: readonly (readonly [string, string])[]): string[] {
  const output = execFileSync('python3', ['-c', PYTHON], { input: JSON.stringify(pairs), encoding: 'utf8' });
  return JSON.parse(output) as string[];
}

test('is what difflib makes, also where several answers are right', () => {
  const line = fc.constantFrom('a', 'b', 'c', '', '  x  ');
  const text = fc.array(line, { maxLength: 30 }).map((lines) => lines.join('\n'));
  const pairs = fc.sample(fc.tuple(text, text), 300);
  expect(pairs.map(([a, b]) => unifiedDiff('p', a, b))).toEqual(byPython(pairs));
});

function long(changed: number): string {
  const line = (index: number): string => (index === changed ? 'changed' : index % 3 === 0 ? '' : `${index % 90}`);
  return Array.from({ length: 400 }, (_, index) => line(index)).join('\n');
}

test('frequent lines of long texts are left out of its index, as difflib does', () => {
  const pairs = [
    [long(-1), long(200)],
    [long(5), long(350)],
    [long(0), `${long(0)}\nmore`],
  ] as const;
  expect(pairs.map(([a, b]) => unifiedDiff('p', a, b))).toEqual(byPython(pairs));
});

/** What a diff without context makes of a text. */
function patched(text: string, diff: string): string {
  const lines = text.split('\n');
  let shift = 0;
  let place = 0;
  for (const line of diff.split('\n').slice(2)) {
    const [, from = '', count = '1'] = /^@@ -(\d+)(?:,(\d+))? /.exec(line) ?? [];
    if (from !== '') {
      place = Number(from) - (count === '0' ? 0 : 1) + shift;
    } else if (line.startsWith('-')) {
      expect(lines.splice(place, 1)).toEqual([line.slice(1)]);
      shift -= 1;
    } else {
      lines.splice(place, 0, line.slice(1));
      place += 1;
      shift += 1;
    }
  }
  return lines.join('\n');
}

test('what large texts have in common is set aside, and the rest is right', () => {
  const padding = 'x'.repeat(1024 * 1024);
  const lines = fc.array(fc.constantFrom('a', 'b', ''), { maxLength: 4 });
  const text = fc.tuple(lines, lines).map(([first, last]) => [...first, padding, ...last].join('\n'));
  for (const [before, after] of fc.sample(fc.tuple(text, text), 200)) {
    const diff = unifiedDiff('p', before, after);
    expect(before === after || patched(before, diff) === after).toBe(true);
  }
});

test('thousands of changes are not looked for one by one to the end, and are right', () => {
  const text = (word: string): string =>
    Array.from({ length: 10_000 }, (_, index) => `${index % 2 === 0 ? 'same' : word} ${index}`).join('\n');
  const [before, after] = [text('old'), text('new')];
  const diff = unifiedDiff('p', before, after);
  expect(patched(before, diff) === after).toBe(true);
  expect(diff.match(/^@@ /gm)?.length).toBeLessThan(5000);
});

test('a change of millions of lines has no diff', () => {
  expect(unifiedDiff('p', '', 'a\n'.repeat(1_000_000))).toContain('@@ -0,0 +1,1000000 @@');
  expect(unifiedDiff('p', '', 'a\n'.repeat(3_000_000))).toBe('');
});

test('a large file takes no time', () => {
  const lines = Array.from({ length: 200_000 }, (_, index) => `line ${index % 1000}`);
  const changed = lines.with(100_000, 'changed');
  const diff = unifiedDiff('p', lines.join('\n'), changed.join('\n'));
  expect(diff).toBe('--- p\n+++ p\n@@ -100001 +100001 @@\n-line 0\n+changed');
});
