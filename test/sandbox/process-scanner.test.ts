import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ProcessScanner } from '../../src/sandbox/process-scanner.ts';

const SPARE = 40;

function limitOpenFiles(limit: string): void {
  execFileSync('prlimit', ['--pid', `${process.pid}`, `--nofile=${limit}:`]);
}

/** Takes all descriptors there are, for the length of an action. */
async function withoutDescriptors<T>(action: () => Promise<T>): Promise<T> {
  const limits = execFileSync('prlimit', ['--pid', `${process.pid}`, '--nofile', '--noheadings', '--output', 'SOFT']);
  const highest = Math.max(...readdirSync('/proc/self/fd').map(Number));
  const taken: number[] = [];
  limitOpenFiles(`${highest + SPARE}`);
  try {
    for (;;) taken.push(openSync('/dev/null', 'r'));
  } catch {
    // EMFILE
  }
  try {
    return await action();
  } finally {
    for (const fd of taken) closeSync(fd);
    limitOpenFiles(limits.toString().trim());
  }
}

test('a look that fails does not cost the next one', async () => {
  const scanner = new ProcessScanner();
  const failure = await withoutDescriptors(() => scanner.list().catch((error: unknown) => error));
  expect(failure).toMatchObject({ code: 'EMFILE' });
  const pids = (await scanner.list()).map(({ pid }) => pid);
  expect(pids).toContain(process.pid);
});
