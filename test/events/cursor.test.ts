import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { EventLog } from '../../src/events/event-log.ts';
import { MIB, openLog, range, readAll, seqsOf, temporaryDirectory } from './support.ts';

type Step =
  | { readonly type: 'append'; readonly count: number; readonly size: number; readonly isUrgent: boolean }
  | { readonly type: 'flush' }
  | { readonly type: 'reader'; readonly place: number; readonly maxEvents: number; readonly maxBytes: number };

const STEPS = fc.array(
  fc.oneof<fc.Arbitrary<Step>[]>(
    fc.record({
      type: fc.constant('append' as const),
      count: fc.integer({ min: 1, max: 60 }),
      size: fc.integer({ min: 0, max: 3000 }),
      isUrgent: fc.boolean(),
    }),
    fc.record({ type: fc.constant('flush' as const) }),
    fc.record({
      type: fc.constant('reader' as const),
      place: fc.double({ min: 0, max: 1, noNaN: true }),
      maxEvents: fc.integer({ min: 1, max: 200 }),
      maxBytes: fc.integer({ min: 1, max: 100_000 }),
    }),
  ),
  { minLength: 5, maxLength: 40 },
);

interface Reader {
  readonly after: number;
  readonly done: Promise<number[]>;
}

/** Follows the log to the event that is the last, by `onAppend` alone. */
async function follow(
  log: EventLog,
  after: number,
  limits: Limits,
  ended: () => number | undefined,
): Promise<number[]> {
  const seen: number[] = [];
  let wake: (() => void) | undefined;
  const subscription = log.onAppend(() => wake?.());
  for (let place = after; place !== ended();) {
    const changed = new Promise<void>((resolve) => {
      wake = resolve;
    });
    const page = await log.read(place, limits);
    expect(page.length).toBeLessThanOrEqual(limits.maxEvents);
    const bytes = page.reduce((sum, { json }) => sum + json.length, 0);
    expect(page.length === 1 || bytes <= limits.maxBytes).toBe(true);
    for (const { seq, json } of page) {
      expect(JSON.parse(json.toString())).toMatchObject({ seq, n: seq });
      seen.push(seq);
      place = seq;
    }
    if (page.length === 0) await changed;
  }
  subscription.dispose();
  return seen;
}

interface Limits {
  readonly maxEvents: number;
  readonly maxBytes: number;
}

test('every reader sees exactly the contiguous sequence, whenever and wherever it begins', async () => {
  await fc.assert(
    fc.asyncProperty(STEPS, async (steps) => {
      await using directory = await temporaryDirectory();
      await using opened = await openLog(directory.path, { segmentBytes: 20_000 });
      const { log } = opened;
      const readers: Reader[] = [];
      let appended = 0;
      let end: number | undefined;
      for (const step of steps) {
        if (step.type === 'append') {
          for (let n = 0; n < step.count; n += 1) {
            appended += 1;
            const kind = step.isUrgent ? 'observation' : 'output';
            expect(log.append({ kind, n: appended, text: 'x'.repeat(step.size) })).toBe(appended);
          }
        } else if (step.type === 'flush') {
          await log.flush();
          expect(log.extent.latest).toBe(appended);
        } else {
          const after = Math.round(step.place * log.extent.latest);
          readers.push({ after, done: follow(log, after, step, () => end) });
        }
      }
      appended += 1;
      end = log.append({ kind: 'observation', n: appended });
      await log.flush();
      for (const { after, done } of readers) expect(await done).toEqual(range(after + 1, end));
      expect(seqsOf(await readAll(log))).toEqual(range(1, end));
    }),
    { numRuns: 60 },
  );
});

test('events that left the memory are read from the disk, by many readers at once', async () => {
  await using directory = await temporaryDirectory();
  await using opened = await openLog(directory.path, { segmentBytes: 2 * MIB });
  const { log } = opened;
  const count = 30_000;
  for (let n = 1; n <= count; n += 1) log.append({ kind: 'output', n, text: 'x'.repeat(400) });
  await log.flush();
  const starts = [0, 1, 17, 5000, 12_345, 29_000, count - 1, count];
  const results = await Promise.all(starts.map((after) => readAll(log, after, 700)));
  for (const [at, events] of results.entries()) expect(seqsOf(events)).toEqual(range(starts[at]! + 1, count));
});

test('a small read in the midst of a large log takes little', async () => {
  await using directory = await temporaryDirectory();
  await using opened = await openLog(directory.path);
  const { log } = opened;
  for (let n = 1; n <= 20_000; n += 1) log.append({ kind: 'output', n, text: 'x'.repeat(400) });
  await log.flush();
  const page = await log.read(1234, { maxEvents: 1, maxBytes: 1 });
  expect(seqsOf(page)).toEqual([1235]);
  // The event is a view into what was read.
  expect(page[0]!.json.buffer.byteLength).toBeLessThanOrEqual(128 * 1024);
});
