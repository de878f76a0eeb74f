import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { CommandPipe } from '../../../executors/bash/command-pipe.ts';
import { makeTemporaryFolder } from '../../support/temporary-folder.ts';
import { until } from '../../support/wait.ts';

test('what a reader has not taken yet is counted, goes down as it reads, and comes in order', async () => {
  const folder = makeTemporaryFolder('actiond-command-pipe-');
  const path = join(folder.path, 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  const pipe = new CommandPipe(openSync(path, constants.O_WRONLY | constants.O_NONBLOCK));
  try {
    const lines = Array.from({ length: 200_000 }, (_, index) => `line ${index}\n`);
    pipe.write(lines.slice(0, -1).join(''));
    pipe.write(lines.at(-1) ?? '');
    const whole = lines.join('');
    expect(pipe.untakenBytes).toBe(whole.length);
    const [buffer, counts] = [Buffer.alloc(100_000), [pipe.untakenBytes]];
    let seen = '';
    await until('all of it', () => {
      try {
        seen += buffer.toString('latin1', 0, readSync(reader, buffer, 0, buffer.length, null));
      } catch {
        // EAGAIN: more is to come.
      }
      counts.push(pipe.untakenBytes);
      return seen.length === whole.length;
    });
    expect(seen).toBe(whole);
    await until('nothing is left', () => pipe.untakenBytes === 0);
    expect(counts).toEqual(counts.toSorted((a, b) => b - a));
    expect(new Set(counts).size).toBeGreaterThan(5);
  } finally {
    pipe.destroy();
    closeSync(reader);
    folder.remove();
  }
});
