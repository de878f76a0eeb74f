import { cp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import fc from 'fast-check';
import { beforeAll, afterAll, describe, expect, test } from 'vitest';
import type { LoggedEvent } from '../../src/events/types.ts';
import { StreamClient, StreamServer } from '../ws/harness.ts';
import {
  filesOf,
  FRAME,
  HEADER,
  MIB,
  openLog,
  range,
  readAll,
  seqsOf,
  temporaryDirectory,
  type TemporaryDirectory,
} from './support.ts';

/** A closed log of several segments, to be copied and damaged. */
interface Sample {
  readonly directory: TemporaryDirectory;
  readonly stream: string;
  readonly events: readonly LoggedEvent[];
  readonly segments: readonly string[];
  readonly last: Buffer;
  /** Events before those in the last segment. */
  readonly before: number;
}

let sample: Sample;

beforeAll(async () => {
  sample = await buildSample();
});

afterAll(async () => {
  await sample.directory[Symbol.asyncDispose]();
});

async function buildSample(): Promise<Sample> {
  const directory = await temporaryDirectory();
  await using opened = await openLog(directory.path, { segmentBytes: 2000 });
  const { log } = opened;
  for (let n = 1; n <= 40; n += 1) {
    const kind = (['action', 'output', 'observation'] as const)[n % 3]!;
    await log.flush(log.append({ kind, action_id: `a${Math.floor(n / 3)}`, text: 'ä'.repeat((n * 7) % 50) }));
  }
  const events = await readAll(log);
  await log.close();
  const segments = await filesOf(directory.path, '.seg');
  const name = segments.at(-1)!;
  const last = await readFile(path.join(directory.path, name));
  return { directory, stream: log.extent.stream, events, segments, last, before: Number(name.slice(0, 20)) - 1 };
}

/** A copy of the sample with another last segment. */
async function copyWith(last: Buffer, isWithIndex: boolean): Promise<TemporaryDirectory> {
  const copy = await temporaryDirectory();
  await cp(sample.directory.path, copy.path, { recursive: true });
  await writeFile(path.join(copy.path, sample.segments.at(-1)!), last);
  if (!isWithIndex) for (const name of await filesOf(copy.path, '.idx')) await rm(path.join(copy.path, name));
  return copy;
}

/** How many events of the last segment are whole when the file is sound up to an offset. */
function wholeBefore(offset: number): number {
  let at = HEADER;
  let count = 0;
  while (at + FRAME <= sample.last.length) {
    at += FRAME + sample.last.readUInt32LE(at);
    if (at > offset) break;
    count += 1;
  }
  return offset < HEADER ? 0 : count;
}

/** @param isLost whether events that somebody may have read are gone: then their seqs may only come again in another stream */
async function expectPrefix(directory: string, count: number, isLost: boolean): Promise<void> {
  const expected = sample.events.slice(0, count);
  let stream: string;
  {
    await using opened = await openLog(directory, { segmentBytes: 2000 });
    const { log } = opened;
    expect(log.extent).toMatchObject({ oldest: 1, latest: count });
    stream = log.extent.stream;
    expect(stream !== sample.stream).toBe(isLost);
    expect(await readAll(log)).toEqual(expected);
    const seq = log.append({ kind: 'server', text: 'goes on' });
    expect(seq).toBe(count + 1);
    await log.flush();
    expect(seqsOf(await readAll(log))).toEqual(range(1, count + 1));
  }
  await using again = await openLog(directory);
  expect(again.log.recovered).toMatchObject({ cutBytes: 0, wasClean: true });
  expect(again.log.extent.stream).toBe(stream);
  expect((await readAll(again.log)).slice(0, -1)).toEqual(expected);
}

describe('the last segment', () => {
  test('cut at any byte: what is before stays, and the log goes on', async () => {
    await fc.assert(
      fc.asyncProperty(fc.nat(sample.last.length), fc.boolean(), async (length, isWithIndex) => {
        await using copy = await copyWith(sample.last.subarray(0, length), isWithIndex);
        // Only the index, which is there when the log was closed, tells that there had been more.
        await expectPrefix(copy.path, sample.before + wholeBefore(length), isWithIndex && length < sample.last.length);
      }),
      { numRuns: 120 },
    );
  });

  test('any byte flipped: what is before stays, and the log goes on', async () => {
    const flip = fc.tuple(fc.nat(sample.last.length - 1), fc.integer({ min: 1, max: 255 }), fc.boolean());
    await fc.assert(
      fc.asyncProperty(flip, async ([offset, bits, isWithIndex]) => {
        const last = Buffer.from(sample.last);
        last[offset]! ^= bits;
        await using copy = await copyWith(last, isWithIndex);
        // A version that is not ours with a right checksum is no flipped byte; a flipped one fails the checksum.
        await expectPrefix(copy.path, sample.before + wholeBefore(offset), true);
        expect(await filesOf(copy.path, '.torn')).toHaveLength(1);
      }),
      { numRuns: 120 },
    );
  });

  test('any byte flipped: a reader with a cursor is told, and gets each seq of the new stream once', async () => {
    const last = Buffer.from(sample.last);
    last[last.length - 3]! ^= 4;
    await using copy = await copyWith(last, false);
    await using opened = await openLog(copy.path);
    const { log } = opened;
    await log.flush(log.append({ kind: 'server', text: 'in place of event 40' }));
    await using server = await StreamServer.start({ reader: log });
    using client = await StreamClient.connect(server, `after=40&stream=${sample.stream}`);
    await client.until(({ seqs }) => seqs.length === 40);
    expect(client.control[1]).toEqual({ kind: 'resync', reason: 'generation', stream: log.extent.stream, oldest: 1 });
    expect(client.seqs).toEqual(range(1, 40));
  });

  test('damaged twice: both times another stream, and the older segments are kept', async () => {
    const streams = new Set([sample.stream]);
    await using copy = await copyWith(sample.last, true);
    for (const round of range(1, 3)) {
      const name = (await filesOf(copy.path, '.seg')).at(-1)!;
      const data = await readFile(path.join(copy.path, name));
      data[data.length - 2]! ^= 1;
      await writeFile(path.join(copy.path, name), data);
      await using opened = await openLog(copy.path, { segmentBytes: 2000 });
      const { log } = opened;
      streams.add(log.extent.stream);
      expect(streams.size).toBe(round + 1);
      expect(log.extent.oldest).toBe(1);
      for (let n = 0; n < 20; n += 1) await log.flush(log.append({ kind: 'server', text: 'x'.repeat(300) }));
      expect(seqsOf(await readAll(log))).toEqual(range(1, log.extent.latest));
    }
  });

  test.each(['gone', 'without a byte', 'without a record'])('all segments %s: another stream', async (how) => {
    for (const isWithIndex of [true, false]) {
      await using copy = await copyWith(sample.last, isWithIndex);
      for (const name of await filesOf(copy.path, '.seg')) {
        const file = path.join(copy.path, name);
        if (how === 'gone') await rm(file);
        else await writeFile(file, how === 'without a byte' ? '' : (await readFile(file)).subarray(0, 32));
        if (!isWithIndex) await rm(file.replace('.seg', '.idx'), { force: true });
      }
      await using opened = await openLog(copy.path);
      expect(opened.log.extent.stream).not.toBe(sample.stream);
    }
  });

  test('any bytes after its end are cut off', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ minLength: 1, maxLength: 100 }), async (junk) => {
        await using copy = await copyWith(Buffer.concat([sample.last, junk]), true);
        await using opened = await openLog(copy.path);
        // Zeros are an empty record with a right checksum: no event either.
        expect(opened.log.recovered).toMatchObject({ cutBytes: junk.length, wasClean: false });
        expect(opened.log.extent.latest).toBe(40);
        expect(opened.problems).toEqual([expect.stringContaining('after event 40 were cut off')]);
      }),
      { numRuns: 30 },
    );
  });
});

describe('damage in an older segment', () => {
  const damage = async (isWithIndex: boolean): Promise<TemporaryDirectory> => {
    const copy = await copyWith(sample.last, isWithIndex);
    const file = path.join(copy.path, sample.segments[2]!);
    const data = await readFile(file);
    data[data.length - 5]! ^= 1;
    await writeFile(file, data);
    return copy;
  };

  test('found at the start: what is up to it is no longer readable, and that is said', async () => {
    await using copy = await damage(false);
    await using opened = await openLog(copy.path);
    const oldest = Number(sample.segments[3]!.slice(0, 20));
    expect(opened.log.extent).toEqual({ stream: sample.stream, oldest, latest: 40 });
    expect(seqsOf(await readAll(opened.log))).toEqual(range(oldest, 40));
    expect(opened.problems).toEqual([expect.stringContaining(`events 1 to ${oldest - 1} are no longer readable`)]);
    expect(await filesOf(copy.path, '.torn')).toHaveLength(3);
  });

  test('found while reading: the same', async () => {
    await using copy = await damage(true);
    await using opened = await openLog(copy.path);
    const { log, problems } = opened;
    expect(log.extent.oldest).toBe(1);
    const oldest = Number(sample.segments[3]!.slice(0, 20));
    const seen = seqsOf(await readAll(log));
    expect(log.extent).toEqual({ stream: sample.stream, oldest, latest: 40 });
    expect(seen).toEqual([
      ...range(
        1,
        seen.findIndex((seq, at) => seq !== at + 1),
      ),
      ...range(oldest, 40),
    ]);
    expect(problems).toEqual([expect.stringContaining(`Events before ${oldest} are no longer readable`)]);
  });

  test('a missing segment: what is before the gap is not readable', async () => {
    await using copy = await copyWith(sample.last, true);
    await rm(path.join(copy.path, sample.segments[1]!));
    await using opened = await openLog(copy.path);
    expect(opened.log.extent.oldest).toBe(Number(sample.segments[2]!.slice(0, 20)));
  });
});

describe('the generation', () => {
  test('is taken from the segments when its file is lost or damaged', async () => {
    for (const text of [undefined, '', 'x', '00000000-0000-4000-8000-000000000000']) {
      await using copy = await copyWith(sample.last, true);
      const file = path.join(copy.path, 'generation');
      await (text === undefined ? rm(file) : writeFile(file, text));
      await using opened = await openLog(copy.path);
      expect(opened.log.extent).toEqual({ stream: sample.stream, oldest: 1, latest: 40 });
      expect((await readFile(file, 'utf8')).trim()).toBe(sample.stream);
    }
  });

  test('is new when nothing can be read: a seq is not given twice', async () => {
    await using copy = await copyWith(sample.last, true);
    for (const name of await filesOf(copy.path, '.seg')) await truncate(path.join(copy.path, name), HEADER + 3);
    await using opened = await openLog(copy.path);
    expect(opened.log.extent).toMatchObject({ oldest: 0, latest: 0 });
    expect(opened.log.extent.stream).not.toBe(sample.stream);
    await opened.log.flush(opened.log.append({ kind: 'server' }));
    expect(seqsOf(await readAll(opened.log))).toEqual([1]);
  });

  test('a segment of another log is set aside', async () => {
    await using other = await temporaryDirectory();
    {
      await using opened = await openLog(other.path);
      await opened.log.flush(opened.log.append({ kind: 'server' }));
    }
    await using copy = await copyWith(sample.last, true);
    const foreign = await readFile(path.join(other.path, `${'1'.padStart(20, '0')}.seg`));
    await writeFile(path.join(copy.path, `${'41'.padStart(20, '0')}.seg`), foreign);
    await using opened = await openLog(copy.path);
    expect(opened.log.extent).toEqual({ stream: sample.stream, oldest: 1, latest: 40 });
    expect(opened.problems).toEqual([expect.stringContaining('not of this log')]);
  });

  test('a log of a newer version is refused and left alone', async () => {
    const { crc32 } = await import('node:zlib');
    const newer = Buffer.from(sample.last);
    newer.writeUInt32LE(2, 8);
    newer.writeUInt32LE(crc32(newer.subarray(0, 28)), 28);
    await using copy = await copyWith(newer, false);
    await expect(openLog(copy.path)).rejects.toThrow('newer version');
    expect(await readFile(path.join(copy.path, sample.segments.at(-1)!))).toEqual(newer);
    // The lock was let go.
    await expect(openLog(copy.path)).rejects.toThrow('newer version');
  });
});

test('what is set aside is bounded', async () => {
  await using copy = await copyWith(sample.last, true);
  for (const n of range(1, 5)) {
    const name = `${String(1000 + n).padStart(20, '0')}.seg`;
    await writeFile(path.join(copy.path, name), Buffer.alloc(20 * MIB, 1));
  }
  await using opened = await openLog(copy.path);
  expect(opened.log.extent).toMatchObject({ oldest: 1, latest: 40 });
  expect(await filesOf(copy.path, '.torn')).toHaveLength(3);
});
