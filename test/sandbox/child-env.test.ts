import { describe, expect, test } from 'vitest';
import { childEnvironment } from '../../src/sandbox/child-env.ts';

const ACCOUNT = { name: 'ada', uid: 1000, gid: 1000, home: '/home/ada' };
const environmentOf = (base: Record<string, string>, isSwitched = false): Record<string, string> =>
  childEnvironment(base, ACCOUNT, isSwitched);

test('what is there stays, what a shell needs is added', () => {
  expect(environmentOf({ FOO: 'bar', PATH: '/opt/bin' })).toMatchObject({
    FOO: 'bar',
    PATH: '/opt/bin',
    HOME: '/home/ada',
    USER: 'ada',
    LOGNAME: 'ada',
    SHELL: '/bin/bash',
    TERM: 'xterm-256color',
  });
  expect(environmentOf({})['PATH']).toContain('/usr/bin');
});

test('no pager waits for keys', () => {
  const env = environmentOf({ PAGER: 'less', GIT_PAGER: 'less -R' });
  for (const name of ['PAGER', 'GIT_PAGER', 'MANPAGER', 'SYSTEMD_PAGER'])
    expect([name, env[name]]).toEqual([name, 'cat']);
});

test("the server's own terminal and start are not inherited", () => {
  const base = Object.fromEntries(
    ['COLUMNS', 'LINES', 'TMUX', 'STY', 'OLDPWD', 'SHLVL', 'BASH_ENV', 'TMOUT', 'TERMCAP'].map((name) => [name, 'x']),
  );
  const env = environmentOf({ ...base, TERM: 'dumb' });
  expect(Object.keys(base).filter((name) => name in env)).toEqual([]);
  expect(env['TERM']).toBe('xterm-256color');
});

describe('identity', () => {
  const base = { HOME: '/elsewhere', USER: 'other', LOGNAME: 'other' };

  test('under the own account what the server was started with stands', () => {
    expect(environmentOf(base)).toMatchObject(base);
    expect(environmentOf({ HOME: '/elsewhere' })).toMatchObject({ HOME: '/elsewhere', USER: 'ada' });
  });

  test("under another it is the account's", () => {
    expect(environmentOf(base, true)).toMatchObject({ HOME: '/home/ada', USER: 'ada', LOGNAME: 'ada' });
  });
});

describe('locale', () => {
  test.each([
    [{ LANG: 'de_DE.UTF-8' }, 'de_DE.UTF-8'],
    [{ LC_ALL: 'en_US.utf8' }, undefined],
    [{ LC_CTYPE: 'C.UTF-8', LANG: 'C' }, 'C'],
  ])('a UTF-8 one stays: %j', (base, lang) => {
    expect(environmentOf(base)).toMatchObject(base);
    expect(environmentOf(base)['LANG']).toBe(lang);
  });

  test.each([
    {},
    { LANG: 'C' },
    { LANG: 'POSIX' },
    { LC_ALL: 'C' },
    { LANG: 'de_DE.UTF-8', LC_ALL: 'C' },
    { LC_ALL: '' },
  ])('any other gives way to C.UTF-8: %j', (base) => {
    const env = environmentOf(base);
    expect(env['LC_ALL'] || env['LC_CTYPE'] || env['LANG']).toBe('C.UTF-8');
    expect(env['LC_ALL']).toBeUndefined();
  });
});

test('the base is not changed', () => {
  const base = Object.freeze({ LC_ALL: 'C', TERM: 'dumb', SHLVL: '3' });
  expect(() => environmentOf(base)).not.toThrow();
});
