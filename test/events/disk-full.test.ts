import { execFileSync } from 'node:child_process';
import { appendFile, readdir, rm, statfs, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, test, type TestContext } from 'vitest';
import { DirectoryInUseError } from '../../src/events/lock.ts';
import {
  KIB,
  MIB,
  openLog,
  range,
  readAll,
  seqsOf,
  temporaryDirectory,
  waitFor,
  type TemporaryDirectory,
} from './support.ts';

/** A file system of 2 MiB; the test is skipped where none can be mounted. */
async function smallDisk(context: TestContext): Promise<TemporaryDirectory> {
  const directory = await temporaryDirectory();
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', directory.path], { stdio: 'pipe' });
  } catch {
    await directory[Symbol.asyncDispose]();
    context.skip('no right to mount a file system');
  }
  return {
    path: directory.path,
    [Symbol.asyncDispose]: async () => {
      execFileSync('umount', ['-l', directory.path]);
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** Leaves no byte on the disk. */
async function fill(disk: string): Promise<string> {
  const { bavail, bsize } = await statfs(disk);
  const file = path.join(disk, 'ballast');
  await writeFile(file, Buffer.alloc(bavail * bsize));
  return file;
}

const text = 'x'.repeat(4000);

test('a full disk: writers hear of it, readers go on, and it recovers by itself', async (context) => {
  await using disk = await smallDisk(context);
  await using opened = await openLog(path.join(disk.path, 'events'));
  const { log, problems } = opened;
  for (const n of range(1, 50)) log.append({ kind: 'output', n, text });
  await log.flush();
  const ballast = await fill(disk.path);

  const first = log.append({ kind: 'action', action_id: 'a', text });
  await expect(log.flush(first)).rejects.toMatchObject({ code: 'ENOSPC' });
  expect(first).toBe(51);
  expect(log.stats()).toMatchObject({ isWritable: false, queuedEvents: 1 });
  expect(log.extent.latest).toBe(50);
  expect(seqsOf(await readAll(log))).toEqual(range(1, 50));

  // No live output meanwhile; the rest keeps its place.
  expect(log.append({ kind: 'output', text })).toBe(-1);
  expect(log.append({ kind: 'observation', action_id: 'a' })).toBe(52);
  expect(log.append({ kind: 'server' })).toBe(53);
  await expect(log.flush()).rejects.toMatchObject({ code: 'ENOSPC' });
  expect(log.find('a')).toBeUndefined();

  // Without anybody asking: by the timer.
  await rm(ballast);
  await waitFor(() => log.stats().isWritable);
  expect(log.extent.latest).toBe(53);
  expect(log.find('a')).toEqual({ actionSeq: 51, observationSeq: 52 });
  expect(log.append({ kind: 'output', text })).toBe(54);
  await log.flush();

  // With somebody asking: at once.
  const again = await fill(disk.path);
  await expect(log.flush(log.append({ kind: 'action', action_id: 'b', text }))).rejects.toThrow('ENOSPC');
  await rm(again);
  await log.flush(log.append({ kind: 'action', action_id: 'c' }));
  expect(log.extent.latest).toBe(56);
  expect(problems.filter((problem) => problem.includes('cannot be written'))).toHaveLength(2);
  await log.close();

  await using reopened = await openLog(path.join(disk.path, 'events'));
  expect(reopened.log.recovered).toMatchObject({ cutBytes: 0, wasClean: true });
  expect(seqsOf(await readAll(reopened.log))).toEqual(range(1, 56));
});

test('what waits is bounded, and observations are always taken', async (context) => {
  await using disk = await smallDisk(context);
  await using opened = await openLog(path.join(disk.path, 'events'));
  const { log } = opened;
  await log.flush(log.append({ kind: 'server' }));
  const ballast = await fill(disk.path);
  await expect(log.flush(log.append({ kind: 'action', action_id: 'a', text }))).rejects.toThrow('ENOSPC');
  const small = range(1, 2000).map((n) => log.append({ kind: 'action', action_id: `s${n}` }));
  expect(small.indexOf(-1)).toBe(999);
  expect(log.stats()).toMatchObject({ queuedEvents: 1000, refused: 1001 });
  await expect(log.flush(-1)).rejects.toThrow('ENOSPC');
  const large = range(1, 20).map((n) => log.append({ kind: 'observation', action_id: `s${n}`, text: 'x'.repeat(MIB) }));
  expect(large).toEqual(range(1002, 1021));
  // One whole event beyond the limit, then only cut ones.
  expect(log.stats().queuedBytes).toBeLessThan(2 * MIB + 20 * 130 * KIB);
  await rm(ballast);
  await log.flush();
  expect(seqsOf(await readAll(log))).toEqual(range(1, 1021));
});

test('old segments make room, one before the next write succeeds', async (context) => {
  await using disk = await smallDisk(context);
  const directory = path.join(disk.path, 'events');
  await using opened = await openLog(directory, { segmentBytes: 100 * KIB });
  const { log } = opened;
  // Far more than the disk holds.
  for (const n of range(1, 1000)) await log.flush(log.append({ kind: 'observation', action_id: `a${n}`, text }));
  expect(log.extent.latest).toBe(1000);
  expect(log.extent.oldest).toBeGreaterThan(500);
  const { oldest } = log.extent;
  await fill(disk.path);
  for (const n of range(1, 30)) {
    await log
      .flush(log.append({ kind: 'observation', action_id: `b${n}`, text: 'x'.repeat(20 * KIB) }))
      .catch(() => undefined);
  }
  expect(log.extent.oldest).toBeGreaterThan(oldest);
  expect(seqsOf(await readAll(log))).toEqual(range(log.extent.oldest, log.extent.latest));
});

test('a large event for which there is no room is cut, and holds up nothing', async (context) => {
  await using disk = await smallDisk(context);
  const directory = path.join(disk.path, 'events');
  await using opened = await openLog(directory);
  const { log } = opened;
  await log.flush(log.append({ kind: 'observation', action_id: 'a', text: 'x'.repeat(3 * MIB) }));
  expect(await log.load(1)).toMatchObject({ text: expect.stringContaining('left out') });
  expect(await readdir(path.join(directory, 'blobs'))).toEqual([]);
  await log.flush(log.append({ kind: 'observation', action_id: 'b', text: 'x'.repeat(500 * KIB) }));
  expect(await log.load(2)).toMatchObject({ text: 'x'.repeat(500 * KIB) });
});

test('a start on a full disk: readers are served, and it recovers by itself', async (context) => {
  await using disk = await smallDisk(context);
  const directory = path.join(disk.path, 'events');
  {
    await using first = await openLog(directory);
    for (const n of range(1, 20)) first.log.append({ kind: 'output', n, text });
    await first.log.flush(first.log.append({ kind: 'action', action_id: 'open' }));
  }
  const ballast = await fill(disk.path);
  await using opened = await openLog(directory);
  const { log } = opened;
  expect(seqsOf(await readAll(log))).toEqual(range(1, 21));
  expect(log.recovered.openActions).toEqual([{ action_id: 'open', seq: 21 }]);
  // More than the index file that goes at the start leaves free.
  await expect(log.flush(log.append({ kind: 'action', action_id: 'a', text: text.repeat(5) }))).rejects.toThrow(
    new RegExp(`ENOSPC.*${directory}/[0-9]{20}.seg`),
  );
  // Nor does a full disk let a second one in.
  await expect(openLog(directory)).rejects.toBeInstanceOf(DirectoryInUseError);
  await rm(ballast);
  await waitFor(() => log.stats().isWritable);
  expect(log.extent.latest).toBe(22);
});

test('a start on a full disk after a kill, with a torn tail', async (context) => {
  await using disk = await smallDisk(context);
  const directory = path.join(disk.path, 'events');
  {
    await using first = await openLog(directory);
    for (const n of range(1, 5)) await first.log.flush(first.log.append({ kind: 'server', n }));
  }
  for (const name of await readdir(directory)) {
    if (name.endsWith('.idx')) await rm(path.join(directory, name));
    if (name.endsWith('.seg')) await appendFile(path.join(directory, name), Buffer.from([200, 0, 0, 0, 1, 2, 3, 4, 5]));
  }
  await symlink('1:1:00000000:dead', path.join(directory, 'lock'));
  const ballast = await fill(disk.path);
  await using opened = await openLog(directory);
  expect(opened.log.recovered).toMatchObject({ cutBytes: 9, wasClean: false });
  expect(seqsOf(await readAll(opened.log))).toEqual(range(1, 5));
  await rm(ballast);
  await opened.log.flush(opened.log.append({ kind: 'server' }));
  expect(opened.log.extent.latest).toBe(6);
});

test('the first start of all on a full disk', async (context) => {
  await using disk = await smallDisk(context);
  const directory = path.join(disk.path, 'events');
  const ballast = await fill(disk.path);
  let stream: string;
  {
    await using opened = await openLog(directory);
    const { log, problems } = opened;
    stream = log.extent.stream;
    expect(problems).toEqual([expect.stringContaining('cannot be written')]);
    await expect(log.flush(log.append({ kind: 'server' }))).rejects.toThrow(/ENOSPC.*generation/);
    await rm(ballast);
    await waitFor(() => log.stats().isWritable);
    expect(log.extent).toEqual({ stream, oldest: 1, latest: 1 });
  }
  await using again = await openLog(directory);
  expect(again.log.extent).toEqual({ stream, oldest: 1, latest: 1 });
});
