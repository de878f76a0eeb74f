import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { exportedVariables } from '../../src/sandbox/shell-state.ts';

/** What bash says, and what a child of it sees. */
function exportsOf(env: Readonly<Record<string, string>>): { declared: string; seen: Map<string, string> } {
  const options = { env: { ...env, PATH: '/usr/bin:/bin', LC_ALL: 'C.UTF-8' }, encoding: 'utf8' } as const;
  const declared = execFileSync('bash', ['--norc', '-c', 'declare -px'], options);
  const entries = execFileSync('bash', ['--norc', '-c', 'env -0'], options).split('\0').slice(0, -1);
  const seen = entries.map((entry): [string, string] => [
    entry.slice(0, entry.indexOf('=')),
    entry.slice(entry.indexOf('=') + 1),
  ]);
  const own = new Set(['PWD', 'SHLVL', '_', 'OLDPWD']);
  return { declared, seen: new Map(seen.filter(([name]) => !own.has(name))) };
}

test('reads what bash writes, for values of every kind', () => {
  const value = fc.string({
    unit: fc.constantFrom(
      'a',
      ' ',
      '"',
      "'",
      '\\',
      '$',
      '`',
      '\n',
      '\t',
      '\u0001',
      '\u001b',
      '!',
      'é',
      '龍',
      '=',
      ')',
      '#',
    ),
  });
  fc.assert(
    fc.property(value, value, (one, two) => {
      const { declared, seen } = exportsOf({ ONE: one, TWO: two });
      expect(exportedVariables(declared)).toEqual(seen);
    }),
    { numRuns: 40 },
  );
});

test('a value that looks like a declaration is none', () => {
  const { declared, seen } = exportsOf({ ONE: 'x\ndeclare -x FAKE="1"\n', TWO: '"\ndeclare -x FAKE="2' });
  expect(exportedVariables(declared)).toEqual(seen);
  expect(seen.has('FAKE')).toBe(false);
});

test('what is only marked for export, or belongs to the shell, is left out', () => {
  const text =
    'declare -x EMPTY=""\ndeclare -x MARKED\ndeclare -x PWD="/"\ndeclare -ax LIST=([0]="a")\ndeclare -rx FIXED="1"\n';
  expect([...exportedVariables(text)]).toEqual([
    ['EMPTY', ''],
    ['FIXED', '1'],
  ]);
});
