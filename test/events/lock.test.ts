import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { acquireLock, DirectoryInUseError } from '../../src/events/lock.ts';
import { openLog, range, temporaryDirectory } from './support.ts';

const DEAD = { pid: 2 ** 22 - 1, startTime: '1', bootId: 'another', nonce: 'dead' };

async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim();
}

async function lockNames(directory: string): Promise<string[]> {
  return (await readdir(directory)).filter((name) => name.startsWith('lock'));
}

describe('a directory has one server', () => {
  test('a second log in the same process is refused, and the first is not disturbed', async () => {
    await using directory = await temporaryDirectory();
    const events = path.join(directory.path, 'events');
    {
      await using opened = await openLog(events);
      await expect(openLog(events)).rejects.toThrow(
        `The state directory ${directory.path} is in use by this process. Stop it, or give this one a directory of its own.`,
      );
      await opened.log.flush(opened.log.append({ kind: 'server' }));
    }
    await using again = await openLog(events);
    expect(again.log.extent.latest).toBe(1);
  });

  test('another living process is named', async () => {
    await using directory = await temporaryDirectory();
    const other = spawn('sleep', ['60']);
    try {
      await once(other, 'spawn');
      const stat = await readFile(`/proc/${other.pid}/stat`, 'utf8');
      const startTime = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
      const holder = { pid: other.pid, startTime, bootId: await bootId(), nonce: 'n' };
      await writeFile(path.join(directory.path, 'lock'), JSON.stringify(holder));
      const error = await acquireLock(directory.path).catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(DirectoryInUseError);
      expect((error as Error).message).toContain(`a running server (process ${other.pid})`);
      expect(await lockNames(directory.path)).toEqual(['lock']);
      const ended = once(other, 'exit');
      other.kill('SIGKILL');
      await ended;
      await (await acquireLock(directory.path)).release();
    } finally {
      other.kill('SIGKILL');
    }
  });

  test('twenty starters at once: one wins', async () => {
    for (const before of ['nothing', 'a dead lock', 'a dead lock and a dead claim', 'garbage']) {
      await using directory = await temporaryDirectory();
      const file = (name: string): string => path.join(directory.path, name);
      if (before.startsWith('a dead lock')) await writeFile(file('lock'), JSON.stringify(DEAD));
      if (before.endsWith('claim')) {
        await writeFile(file('lock.dead.claim'), JSON.stringify({ ...DEAD, nonce: 'claimant' }));
      }
      if (before === 'garbage') await writeFile(file('lock'), '');
      const results = await Promise.allSettled(range(1, 20).map(() => acquireLock(directory.path)));
      const won = results.filter(({ status }) => status === 'fulfilled');
      expect(won, before).toHaveLength(1);
      for (const result of results) {
        if (result.status === 'rejected') expect(result.reason).toBeInstanceOf(DirectoryInUseError);
        else await result.value.release();
      }
      expect(await lockNames(directory.path)).toEqual([]);
    }
  });
});

describe('a stale lock is no obstacle', () => {
  test.each([
    ['a dead process', async () => JSON.stringify({ ...DEAD, bootId: await bootId() })],
    ['an earlier boot', async () => JSON.stringify({ ...DEAD, pid: process.pid })],
    [
      'a process id that is used anew',
      async () => JSON.stringify({ ...DEAD, pid: process.pid, bootId: await bootId() }),
    ],
    ['an empty file', async () => ''],
    ['garbage', async () => '{"pid":1,"nonce":"../x"}'],
  ])('%s', async (_name, content) => {
    await using directory = await temporaryDirectory();
    await writeFile(path.join(directory.path, 'lock'), await content());
    await writeFile(path.join(directory.path, 'lock.old.new'), JSON.stringify(DEAD));
    await using opened = await openLog(directory.path);
    expect(opened.problems).toEqual([]);
    expect(JSON.parse(await readFile(path.join(directory.path, 'lock'), 'utf8'))).toMatchObject({ pid: process.pid });
    expect(await lockNames(directory.path)).toEqual(['lock']);
    await expect(openLog(directory.path)).rejects.toBeInstanceOf(DirectoryInUseError);
  });
});
