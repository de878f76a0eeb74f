import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { oomKills } from '../../src/sandbox/out-of-memory.ts';
import { TestServer } from '../support/server.ts';

const GROUPS = '/sys/fs/cgroup/memory';
/** A group of our own can be made: root, and version 1 with a writable tree. */
const canLimit = process.getuid?.() === 0 && existsSync(`${GROUPS}/memory.oom_control`);

test('kills are counted where the control group tells them', () => {
  const kills = oomKills();
  expect(kills === undefined || (Number.isInteger(kills) && kills >= 0)).toBe(true);
});

test.runIf(canLimit)('a command that the kernel kills for its memory is told why, and the next one works', async () => {
  const group = `${GROUPS}/actiond-test-${process.pid}`;
  mkdirSync(group);
  const home = /:memory:(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/';
  try {
    writeFileSync(`${group}/memory.limit_in_bytes`, `${1024 * 2 ** 20}`);
    writeFileSync(`${group}/cgroup.procs`, `${process.pid}`);
    await using server = await TestServer.start();
    const hog = await server.run(`python3 -c 'x = bytearray(2 ** 31)'; (exit $?)`);
    expect(hog.exitCode).toBe(137);
    expect(hog.suffix).toContain('ran out of memory');
    expect((await server.run('echo lives')).content).toBe('lives');
    expect((await server.run('(exit 3)')).suffix).not.toContain('memory');
  } finally {
    writeFileSync(`${GROUPS}${home === '/' ? '' : home}/cgroup.procs`, `${process.pid}`);
    rmdirSync(group);
  }
});
