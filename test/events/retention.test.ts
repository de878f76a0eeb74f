import { EventEmitter, once } from 'node:events';
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { expect, test } from 'vitest';
import { filesOf, KIB, openLog, range, readAll, seqsOf, temporaryDirectory, waitFor } from './support.ts';

const HOUR = 3_600_000;

test('by bytes: the oldest segments go, with their indexes, keys and large events', async () => {
  await using directory = await temporaryDirectory();
  const trims: number[] = [];
  const limits = { maxBytes: 400 * KIB, onTrim: ({ oldest }: { oldest: number }) => void trims.push(oldest) };
  await using opened = await openLog(directory.path, limits);
  const { log } = opened;
  for (const n of range(1, 300)) {
    const text = n % 50 === 1 ? 'x'.repeat(80 * KIB) : 'x'.repeat(2000);
    await log.flush(log.append({ kind: 'action', action_id: `a${n}`, idempotency: { key: `k${n}`, hash: 'h' }, text }));
    expect(log.stats().bytes).toBeLessThanOrEqual(400 * KIB);
  }
  const { oldest, latest } = log.extent;
  expect(latest).toBe(300);
  expect(oldest).toBeGreaterThan(100);
  expect(oldest).toBeLessThan(250);
  expect(trims.at(-1)).toBe(oldest);
  expect(seqsOf(await readAll(log))).toEqual(range(oldest, 300));
  expect(log.byKey(`k${oldest - 1}`)).toBeUndefined();
  expect(log.find(`a${oldest - 1}`)).toBeUndefined();
  expect(await log.load(oldest - 1)).toBeUndefined();
  expect(log.find(`a${oldest}`)).toEqual({ actionSeq: oldest });
  expect(log.actions().size).toBe(300 - oldest + 1);
  await log.close();
  const blobs = (await readdir(path.join(directory.path, 'blobs'))).map((name) => Number.parseInt(name, 10));
  expect(blobs.toSorted((a, b) => a - b)).toEqual([51, 101, 151, 201, 251].filter((seq) => seq >= oldest));
  expect((await filesOf(directory.path, '.seg')).length).toBe((await filesOf(directory.path, '.idx')).length);
  await using again = await openLog(directory.path, limits);
  expect(again.log.extent).toMatchObject({ oldest, latest });
});

test('by age: segments whose newest event is too old go, the one in use never', async () => {
  await using directory = await temporaryDirectory();
  let time = Date.parse('2024-01-01T00:00:00Z');
  const options = { maxAgeMs: 24 * HOUR, segmentBytes: 1000, now: () => new Date(time) };
  {
    await using opened = await openLog(directory.path, options);
    const { log } = opened;
    for (const n of range(1, 100)) {
      time += HOUR;
      await log.flush(log.append({ kind: 'server', n, text: 'x'.repeat(100) }));
      const { oldest } = log.extent;
      expect(n - oldest).toBeGreaterThanOrEqual(Math.min(n - 1, 23));
      expect(n - oldest).toBeLessThanOrEqual(24 + 6);
    }
  }
  time += 1000 * HOUR;
  await using opened = await openLog(directory.path, options);
  const { log } = opened;
  expect(log.extent.latest).toBe(100);
  const { oldest } = log.extent;
  expect(oldest).toBeGreaterThan(90);
  expect(oldest).toBeLessThanOrEqual(100);
  // A segment whose first event is too old takes no more: it would never go.
  await log.flush(log.append({ kind: 'server' }));
  expect(log.extent).toMatchObject({ oldest: 101, latest: 101 });
});

test('a reader whose place is dropped goes on with the oldest; no page has a gap', async () => {
  await using directory = await temporaryDirectory();
  await using opened = await openLog(directory.path, { maxBytes: 6000 * KIB, segmentBytes: 100 * KIB });
  const { log } = opened;
  const appended = new EventEmitter();
  log.onAppend(() => appended.emit('append'));
  let isWriting = true;
  let gaps = 0;
  const reader = (async () => {
    let place = 0;
    while (isWriting || place < log.extent.latest) {
      const page = await log.read(place, { maxEvents: 50, maxBytes: 60 * KIB });
      const first = page[0]?.seq ?? place + 1;
      expect(seqsOf(page)).toEqual(range(first, first + page.length - 1));
      if (first !== place + 1) gaps += 1;
      place = page.at(-1)?.seq ?? place;
      if (page.length === 0) await once(appended, 'append');
      // Sleeps until its place is gone, now and then.
      if (page.length > 0 && place % 7 === 0) await waitFor(() => !isWriting || log.extent.oldest > place + 1);
    }
    return place;
  })();
  for (const n of range(1, 15_000)) {
    const seq = log.append({ kind: 'observation', action_id: `a${n}`, text: 'x'.repeat(1500) });
    if (n % 20 === 0) await log.flush(seq);
  }
  isWriting = false;
  await log.flush(log.append({ kind: 'server' }));
  expect(await reader).toBe(15_001);
  expect(gaps).toBeGreaterThan(0);
});

test('an action stays known while its observation is kept; its key goes with its own event', async () => {
  await using directory = await temporaryDirectory();
  await using opened = await openLog(directory.path, { maxBytes: 20 * KIB });
  const { log } = opened;
  log.append({ kind: 'action', action_id: 'long', idempotency: { key: 'k', hash: 'h' } });
  for (const n of range(1, 100))
    await log.flush(log.append({ kind: 'output', action_id: 'long', n, text: 'x'.repeat(500) }));
  expect(log.extent.oldest).toBeGreaterThan(1);
  expect(log.find('long')).toBeUndefined();
  expect(log.byKey('k')).toBeUndefined();
  const seq = log.append({ kind: 'observation', action_id: 'long' });
  await log.flush(seq);
  expect(log.find('long')).toEqual({ observationSeq: seq });
  await log.close();
  await using again = await openLog(directory.path, { maxBytes: 20 * KIB });
  await waitFor(() => again.log.extent.latest === seq);
  expect(again.log.find('long')).toEqual({ observationSeq: seq });
  expect(again.log.recovered.openActions).toEqual([]);
});
