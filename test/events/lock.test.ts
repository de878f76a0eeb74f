import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readdir, readFile, readlink, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Beacon, isLit } from '../../src/events/beacon.ts';
import { acquireLock, DirectoryInUseError } from '../../src/events/lock.ts';
import { openLog, range, temporaryDirectory } from './support.ts';

const DEAD = { pid: 2 ** 22 - 1, startTime: '1', bootId: '00000000', nonce: 'dead' };

/** What a lock leads to. */
function lockOf({ pid, startTime, bootId, nonce }: { [K in keyof typeof DEAD]: (typeof DEAD)[K] | undefined }): string {
  return [pid, startTime, bootId, nonce].join(':');
}

async function currentBoot(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).slice(0, 8);
}

async function lockNames(directory: string): Promise<string[]> {
  return (await readdir(directory)).filter((name) => name.startsWith('lock') && !name.endsWith('.alive'));
}

async function beacons(directory: string): Promise<string[]> {
  return (await readdir(directory)).filter((name) => name.endsWith('.alive'));
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
      const holder = { pid: other.pid, startTime, bootId: await currentBoot(), nonce: 'n' };
      await symlink(lockOf(holder), path.join(directory.path, 'lock'));
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
      if (before.startsWith('a dead lock')) await symlink(lockOf(DEAD), file('lock'));
      if (before.endsWith('claim')) {
        await symlink(lockOf({ ...DEAD, nonce: 'claimant' }), file('lock.dead.claim'));
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
      expect(await beacons(directory.path)).toEqual([]);
    }
  });

  test('one that lives where its process cannot be seen is not displaced, whatever its path; once it is dead it is', async () => {
    await using directory = await temporaryDirectory();
    const deep = path.join(directory.path, 'd'.repeat(120), 'events');
    await mkdir(deep, { recursive: true });
    const beacon = await Beacon.light(path.join(deep, `lock.${DEAD.nonce}.alive`));
    expect(beacon).toBeDefined();
    await symlink(lockOf({ ...DEAD, bootId: await currentBoot() }), path.join(deep, 'lock'));
    await expect(acquireLock(deep)).rejects.toThrow(
      `is in use by a running server in another container (process ${DEAD.pid} there)`,
    );
    expect(await beacons(deep)).toEqual([`lock.${DEAD.nonce}.alive`]);
    await beacon?.[Symbol.asyncDispose]();
    await (await acquireLock(deep)).release();
    expect(await readdir(deep)).toEqual([]);
  });

  test('a beacon that went out with its process is cleared away', async () => {
    await using directory = await temporaryDirectory();
    const file = path.join(directory.path, `lock.${DEAD.nonce}.alive`);
    const script = 'require("net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))';
    await once(spawn(process.execPath, ['-e', script, file]), 'exit');
    expect(await isLit(file)).toBe(false);
    await symlink(lockOf(DEAD), path.join(directory.path, 'lock'));
    const lock = await acquireLock(directory.path);
    expect(await beacons(directory.path)).not.toContain(path.basename(file));
    await lock.release();
    expect(await readdir(directory.path)).toEqual([]);
  });
});

describe('a stale lock is no obstacle', () => {
  test.each([
    ['a dead process', async () => lockOf({ ...DEAD, bootId: await currentBoot() })],
    ['an earlier boot', async () => lockOf({ ...DEAD, pid: process.pid })],
    ['a process id that is used anew', async () => lockOf({ ...DEAD, pid: process.pid, bootId: await currentBoot() })],
    ['garbage', async () => '1:1:1:../x'],
    ['an empty file', undefined],
  ])('%s', async (_name, target) => {
    await using directory = await temporaryDirectory();
    const lock = path.join(directory.path, 'lock');
    await (target ? symlink(await target(), lock) : writeFile(lock, ''));
    await symlink(lockOf(DEAD), path.join(directory.path, 'lock.old.new'));
    await using opened = await openLog(directory.path);
    expect(opened.problems).toEqual([]);
    expect(await readlink(lock)).toMatch(new RegExp(`^${process.pid}:\\d+:${await currentBoot()}:[\\da-f]+$`));
    expect((await readlink(lock)).length).toBeLessThan(60);
    expect(await lockNames(directory.path)).toEqual(['lock']);
    await expect(openLog(directory.path)).rejects.toBeInstanceOf(DirectoryInUseError);
  });
});
