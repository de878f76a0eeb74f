/** One bash on its terminal, without a session around it. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, expect, test } from 'vitest';
import { Shell } from '../../../executors/bash/shell.ts';

/** Longer than a shell waits for output of which nothing comes. */
const SLOW_DISK_MS = 1500;

const runtimeDir = join(tmpdir(), `actiond-shell-test-${process.pid}`);
afterAll(() => rmSync(runtimeDir, { recursive: true, force: true }));

/** A shell, and what its commands print. */
class Bench implements AsyncDisposable {
  readonly shell: Shell;
  readonly #read: () => string;

  private constructor(shell: Shell, read: () => string) {
    this.shell = shell;
    this.#read = read;
  }

  static async start(): Promise<Bench> {
    let output = '';
    const shell = await Shell.start({
      cwd: '/',
      env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm' },
      account: undefined,
      runtimeDir,
      columns: 80,
      rows: 24,
      preamble: ':',
      hasStartupFiles: false,
      onOutput: (chunk) => (output += chunk.toString()),
    });
    const before = output.length;
    return new Bench(shell, () => output.slice(before));
  }

  get output(): string {
    return this.#read();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.shell.kill();
    await this.shell.exited;
  }
}

test('while the terminal is not read, because the disk is slow, a command has not completed', async () => {
  await using bench = await Bench.start();
  bench.shell.pause();
  const completed = bench.shell.run('echo late', false);
  await Promise.race([completed, delay(SLOW_DISK_MS)]);
  bench.shell.resume();
  expect(await completed).toMatchObject({ kind: 'reported', report: { exitCode: 0 } });
  expect(bench.output).toBe('late\r\n');
});

test('what stands in the terminal when its shell has ended is read, though nobody read it meanwhile', async () => {
  await using bench = await Bench.start();
  bench.shell.pause();
  expect(await bench.shell.run('seq 1 1500; exit 3', false)).toEqual({ kind: 'ended', exitCode: 3 });
  const numbers = Array.from({ length: 1500 }, (_, index) => `${index + 1}\r\n`).join('');
  expect(bench.output).toBe(`${numbers}exit\r\n`);
});
