import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readlinkSync, statSync, utimesSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { makeOwnDir } from '../../src/sandbox/runtime-dir.ts';
import { makeTemporaryFolder } from '../support/temporary-folder.ts';

const temporary = makeTemporaryFolder('runtime-dir-');
const folder = temporary.path;
afterAll(() => temporary.remove());
const namespace = /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0];
/** Of a process that has ended. */
const deadPid = Number(execFileSync('sh', ['-c', 'echo $$'], { encoding: 'utf8' }));

function make(name: string, ageDays = 0): string {
  const path = join(folder, name);
  mkdirSync(path);
  const time = Date.now() / 1000 - ageDays * 86_400;
  utimesSync(path, time, time);
  return path;
}

test('a folder is private, and those of dead processes of this namespace go, of others only when old', () => {
  const dead = make(`actiond-${deadPid}-${namespace}-abcdef`);
  const alive = make(`actiond-${process.pid}-${namespace}-abcdef`, 30);
  const foreign = make(`actiond-${deadPid}-1-abcdef`, 6);
  const oldForeign = make(`actiond-${deadPid}-1-uvwxyz`, 8);
  const other = make('actiond-notes', 30);
  const own = makeOwnDir(folder);
  expect(statSync(own).mode & 0o777).toBe(0o700);
  expect(basename(own)).toMatch(new RegExp(`^actiond-${process.pid}-${namespace}-`));
  expect([dead, alive, foreign, oldForeign, other, own].map((path) => existsSync(path))).toEqual([
    false,
    true,
    true,
    false,
    true,
    true,
  ]);
});
