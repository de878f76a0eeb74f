import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EventFeed } from '../../src/events/subscription-feed.ts';
import {
  type ControlFrame,
  matchesFilter,
  PULL_BELOW_BYTES,
  type Sink,
  Subscription,
  SUBSCRIPTION_LIMITS,
  type SubscriptionEnd,
  type SubscriptionLimits,
  type SubscriptionRequest,
} from '../../src/events/subscription.ts';
import { EVENT_KINDS, type StoredEvent } from '../../src/events/types.ts';
import { MemoryLog } from './subscription-log.ts';

const MAX_SINK_BYTES = 1024 * 1024;
const BIG = 100 * 1024;

/** Frames in the order they came; lets them go at once, or only as far as it is told. */
class TestSink implements Sink {
  readonly frames: (StoredEvent | ControlFrame)[] = [];
  readonly sizes: number[] = [];
  bufferedBytes = 0;
  flushedBytes = 0;
  maxBufferedBytes = 0;
  readonly #isInstant: boolean;
  #onDrain: (() => void)[] = [];
  #onFrame: (() => void)[] = [];

  constructor(isInstant = true) {
    this.#isInstant = isInstant;
  }

  sendEvent(event: StoredEvent): void {
    this.#take(event, event.json.length);
  }

  sendControl(frame: ControlFrame): void {
    this.#take(frame, JSON.stringify(frame).length);
  }

  drained(): Promise<void> {
    if (this.bufferedBytes === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onDrain.push(resolve));
  }

  /** Lets at most so much leave. */
  flush(bytes = Infinity): void {
    const gone = Math.min(bytes, this.bufferedBytes);
    this.bufferedBytes -= gone;
    this.flushedBytes += gone;
    if (this.bufferedBytes === 0) for (const resolve of this.#onDrain.splice(0)) resolve();
  }

  get seqs(): number[] {
    return this.frames.flatMap((frame) => ('json' in frame ? [frame.seq] : []));
  }

  get control(): ControlFrame[] {
    return this.frames.flatMap((frame) => ('json' in frame ? [] : [frame]));
  }

  async until(condition: (sink: this) => boolean): Promise<void> {
    while (!condition(this)) await new Promise<void>((resolve) => this.#onFrame.push(resolve));
  }

  #take(frame: StoredEvent | ControlFrame, bytes: number): void {
    this.frames.push(frame);
    if (this.#isInstant) this.flushedBytes += bytes;
    else this.bufferedBytes += bytes;
    this.maxBufferedBytes = Math.max(this.maxBufferedBytes, this.bufferedBytes);
    for (const resolve of this.#onFrame.splice(0)) resolve();
  }
}

interface Running {
  readonly sink: TestSink;
  readonly subscription: Subscription;
  readonly end: Promise<SubscriptionEnd>;
  readonly stop: () => Promise<SubscriptionEnd>;
}

function follow(
  feed: EventFeed,
  request: SubscriptionRequest = {},
  { sink = new TestSink(), limits = SUBSCRIPTION_LIMITS }: { sink?: TestSink; limits?: SubscriptionLimits } = {},
): Running {
  const gone = new AbortController();
  const subscription = new Subscription(feed, request, sink, gone.signal, limits);
  const end = subscription.run();
  const stop = (): Promise<SubscriptionEnd> => {
    gone.abort();
    return end;
  };
  return { sink, subscription, end, stop };
}

function logOf(count: number, ...rest: ConstructorParameters<typeof MemoryLog>): MemoryLog {
  const log = new MemoryLog(...rest);
  if (count > 0) log.appendMany(count);
  return log;
}

const range = (first: number, last: number): number[] =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);

describe('the frames', () => {
  test('without a cursor: hello, then only what is new', async () => {
    const log = logOf(3);
    const { sink, stop } = follow(new EventFeed(log));
    log.appendMany(2);
    await sink.until(({ seqs }) => seqs.length === 2);
    expect(sink.control).toEqual([{ kind: 'hello', stream: 'g1', oldest: 1, latest: 3 }]);
    expect(sink.seqs).toEqual([4, 5]);
    expect(await stop()).toBe('gone');
    expect(log.listeners).toBe(0);
  });

  test('with a cursor: hello, what was missed, caught_up, then live', async () => {
    const log = logOf(5);
    const { sink, stop } = follow(new EventFeed(log), { after: 2 });
    await sink.until(({ control }) => control.length === 2);
    log.appendMany(1);
    await sink.until(({ seqs }) => seqs.length === 4);
    expect(sink.frames.map(({ kind }) => kind)).toEqual(['hello', 'output', 'output', 'output', 'caught_up', 'output']);
    expect(sink.control.at(-1)).toEqual({ kind: 'caught_up', seq: 5 });
    expect(sink.seqs).toEqual([3, 4, 5, 6]);
    await stop();
  });

  test.each([
    ['nothing was missed', 4, 4, 4],
    ['the log is empty', 0, 0, 0],
  ])('caught_up is the cursor when %s', async (_what, count, after, seq) => {
    const { sink, stop } = follow(new EventFeed(logOf(count)), { after });
    await sink.until(({ control }) => control.length === 2);
    expect(sink.control[1]).toEqual({ kind: 'caught_up', seq });
    await stop();
  });

  test('caught_up counts what a filter left out', async () => {
    const log = logOf(5);
    const { sink, stop } = follow(new EventFeed(log), { after: 0, kinds: new Set(['server'] as const) });
    await sink.until(({ control }) => control.length === 2);
    expect(sink.frames.map(({ kind }) => kind)).toEqual(['hello', 'caught_up']);
    expect(sink.control[1]).toEqual({ kind: 'caught_up', seq: 5 });
    await stop();
  });

  test.each([
    ['generation', { after: 2, stream: 'g0' }],
    ['generation', { stream: 'g0' }],
    ['ahead', { after: 6 }],
    ['ahead', { after: Number.MAX_SAFE_INTEGER, stream: 'g1' }],
    ['trimmed', { after: 0 }],
    ['trimmed', { after: 1 }],
  ] as const)('resync %s for %j, then all from the oldest', async (reason, request) => {
    const log = logOf(5);
    log.trim(3);
    const { sink, stop } = follow(new EventFeed(log), request);
    await sink.until(({ control }) => control.length === 3);
    expect(sink.control).toEqual([
      { kind: 'hello', stream: 'g1', oldest: 3, latest: 5 },
      { kind: 'resync', reason, stream: 'g1', oldest: 3 },
      { kind: 'caught_up', seq: 5 },
    ]);
    expect(sink.seqs).toEqual([3, 4, 5]);
    await stop();
  });

  test.each([{ after: 2 }, { after: 5 }, { after: 2, stream: 'g1' }])('no resync for %j', async (request) => {
    const log = logOf(5);
    log.trim(3);
    const { sink, stop } = follow(new EventFeed(log), request);
    await sink.until(({ control }) => control.length === 2);
    expect(sink.control.map(({ kind }) => kind)).toEqual(['hello', 'caught_up']);
    await stop();
  });

  test('a cursor ahead of an empty log', async () => {
    const log = logOf(0);
    const { sink, stop } = follow(new EventFeed(log), { after: 7 });
    log.appendMany(1);
    await sink.until(({ seqs }) => seqs.length === 1);
    expect(sink.control.map((frame) => Object.values(frame))).toEqual([
      ['hello', 'g1', 0, 0],
      ['resync', 'ahead', 'g1', 0],
      ['caught_up', 0],
    ]);
    await stop();
  });

  test('trimming that overtakes a slow reader: resync again, and on from the oldest', async () => {
    const log = new MemoryLog();
    log.appendMany(40, { bytes: BIG });
    const sink = new TestSink(false);
    const { stop } = follow(new EventFeed(log), { after: 0 }, { sink });
    await sink.until(({ seqs }) => seqs.length >= 2);
    const taken = sink.seqs.length;
    log.trim(30);
    const flushing = setInterval(() => sink.flush(), 1);
    await sink.until(({ control }) => control.at(-1)?.kind === 'caught_up');
    clearInterval(flushing);
    expect(sink.control[1]).toEqual({ kind: 'resync', reason: 'trimmed', stream: 'g1', oldest: 30 });
    expect(sink.seqs).toEqual([...range(1, taken), ...range(30, 40)]);
    await stop();
  });

  test('a log that begins anew under a reader: resync, and all from its beginning', async () => {
    const log = logOf(3);
    const { sink, stop } = follow(new EventFeed(log), { after: 3 });
    await sink.until(({ control }) => control.length === 2);
    log.restart('g2');
    log.appendMany(2);
    await sink.until(({ seqs }) => seqs.length === 2);
    expect(sink.control.at(-1)).toEqual({ kind: 'resync', reason: 'generation', stream: 'g2', oldest: 1 });
    expect(sink.seqs).toEqual([1, 2]);
    await stop();
  });

  test('a log that cannot be read: rejects, and lets go of it', async () => {
    const log = logOf(3);
    log.fails = true;
    const { end } = follow(new EventFeed(log), { after: 0 });
    await expect(end).rejects.toThrow('the disk is gone');
    expect(log.listeners).toBe(0);
  });

  test('filters by kind and action', async () => {
    const log = new MemoryLog();
    log.append({ kind: 'action', actionId: 'a' }, { kind: 'output', actionId: 'a' }, { kind: 'server' });
    log.append({ kind: 'action', actionId: 'b' }, { kind: 'observation', actionId: 'a' });
    const seqsOf = async (request: SubscriptionRequest): Promise<number[]> => {
      const { sink, stop } = follow(new EventFeed(log), { after: 0, ...request });
      await sink.until(({ control }) => control.length === 2);
      await stop();
      return sink.seqs;
    };
    expect(await seqsOf({ kinds: new Set(['action', 'server'] as const) })).toEqual([1, 3, 4]);
    expect(await seqsOf({ actionId: 'a' })).toEqual([1, 2, 5]);
    expect(await seqsOf({ actionId: 'a', kinds: new Set(['observation'] as const) })).toEqual([5]);
    expect(await seqsOf({ actionId: 'c' })).toEqual([]);
  });
});

describe('readers that do not keep up', () => {
  test('a sink is filled up to its bound and no further', async () => {
    const log = new MemoryLog();
    log.appendMany(100, { bytes: BIG });
    const sink = new TestSink(false);
    const { stop } = follow(new EventFeed(log), { after: 0 }, { sink });
    const flushing = setInterval(() => sink.flush(PULL_BELOW_BYTES / 3), 0);
    await sink.until(({ seqs }) => seqs.length === 100);
    clearInterval(flushing);
    expect(sink.maxBufferedBytes).toBeGreaterThan(PULL_BELOW_BYTES);
    expect(sink.maxBufferedBytes).toBeLessThan(MAX_SINK_BYTES);
    await stop();
  });

  test('live, full, and more than the limit appended: slow', async () => {
    const log = new MemoryLog();
    const feed = new EventFeed(log);
    const sink = new TestSink(false);
    const { end } = follow(feed, {}, { sink, limits: { maxMissedBytes: 10 * BIG, stallMs: 60_000 } });
    const appending = setInterval(() => log.append({ bytes: BIG }), 1);
    expect(await end).toBe('slow');
    clearInterval(appending);
    expect(log.history.length).toBeGreaterThanOrEqual(13);
    expect(sink.seqs).toEqual(range(1, sink.seqs.length));
    expect(sink.maxBufferedBytes).toBeLessThan(MAX_SINK_BYTES);
  });

  test('what its filter leaves out is nothing that it misses', async () => {
    const log = new MemoryLog();
    const sink = new TestSink(false);
    const limits = { maxMissedBytes: BIG, stallMs: 60_000 };
    const { stop } = follow(new EventFeed(log), { kinds: new Set(['action'] as const) }, { sink, limits });
    log.append({ kind: 'action', bytes: BIG }, { kind: 'action', bytes: BIG }, { kind: 'action', bytes: BIG });
    await sink.until(({ seqs }) => seqs.length >= 2);
    for (let i = 0; i < 50; i += 1) {
      log.append({ kind: 'output', bytes: BIG });
      await nextTurn();
    }
    sink.flush();
    log.append({ kind: 'action' });
    await sink.until(({ seqs }) => seqs.at(-1) === 54);
    expect(await stop()).toBe('gone');
  });

  test('in its replay it may take as long as it likes, whatever is appended', async () => {
    const log = new MemoryLog();
    log.appendMany(10, { bytes: BIG });
    const sink = new TestSink(false);
    const limits = { maxMissedBytes: BIG, stallMs: 60_000 };
    const { stop } = follow(new EventFeed(log), { after: 0 }, { sink, limits });
    await sink.until(({ seqs }) => seqs.length >= 2);
    for (let i = 0; i < 50; i += 1) {
      log.append({ bytes: BIG });
      await nextTurn();
    }
    const flushing = setInterval(() => sink.flush(), 0);
    await sink.until(({ control }) => control.length === 2);
    clearInterval(flushing);
    expect(await stop()).toBe('gone');
  });

  test('no progress at all for too long: slow', async () => {
    const log = new MemoryLog();
    log.appendMany(10, { bytes: BIG });
    const sink = new TestSink(false);
    const began = performance.now();
    const { end } = follow(new EventFeed(log), { after: 0 }, { sink, limits: { maxMissedBytes: BIG, stallMs: 40 } });
    expect(await end).toBe('slow');
    expect(performance.now() - began).toBeGreaterThanOrEqual(40);
  });

  test('no progress with little in the buffer, seen with a poke', async () => {
    const log = logOf(0);
    const sink = new TestSink(false);
    const { end } = follow(new EventFeed(log), {}, { sink, limits: { maxMissedBytes: BIG, stallMs: 40 } });
    expect(await end).toBe('slow');
    const quiet = new TestSink(false);
    const other = follow(new EventFeed(log), {}, { sink: quiet, limits: { maxMissedBytes: BIG, stallMs: 40 } });
    quiet.flush();
    other.subscription.poke();
    quiet.bufferedBytes = 6;
    await nextTurn();
    other.subscription.poke();
    expect(await other.end).toBe('slow');
  });

  test('a little progress is enough', async () => {
    const log = new MemoryLog();
    log.appendMany(4, { bytes: BIG });
    const sink = new TestSink(false);
    const { stop, end } = follow(
      new EventFeed(log),
      { after: 0 },
      { sink, limits: { maxMissedBytes: BIG, stallMs: 200 } },
    );
    const began = performance.now();
    await new Promise<void>((resolve) => {
      const flushing = setInterval(() => {
        sink.flush(1);
        if (performance.now() - began < 500) return;
        clearInterval(flushing);
        resolve();
      }, 20);
    });
    expect(await Promise.race([end, Promise.resolve('going on')])).toBe('going on');
    await stop();
  });
});

describe('many readers', () => {
  test('100 live ones get the same buffers from one read each time', async () => {
    const log = logOf(10);
    const feed = new EventFeed(log);
    const all = range(1, 100).map(() => follow(feed));
    expect(log.listeners).toBe(1);
    await nextTurn();
    const before = log.reads;
    for (let i = 0; i < 50; i += 1) {
      log.append({}, {});
      await nextTurn();
    }
    await Promise.all(all.map(({ sink }) => sink.until(({ seqs }) => seqs.length === 100)));
    expect(log.reads - before).toBeLessThan(20);
    for (const { sink } of all) {
      expect(sink.seqs).toEqual(range(11, 110));
      expect(sink.frames.at(-1)).toBe(log.history[109]);
    }
    await Promise.all(all.map(({ stop }) => stop()));
    expect(log.listeners).toBe(0);
  });

  test('a stalled one costs the others nothing', async () => {
    const log = new MemoryLog();
    const feed = new EventFeed(log);
    const stalled = follow(feed, {}, { sink: new TestSink(false) });
    const healthy = follow(feed);
    for (let i = 0; i < 200; i += 1) {
      log.append({ bytes: BIG });
      await nextTurn();
    }
    await healthy.sink.until(({ seqs }) => seqs.length === 200);
    expect(healthy.sink.seqs).toEqual(range(1, 200));
    expect(await stalled.end).toBe('slow');
    await healthy.stop();
  });

  test('the signal ends one at any point', async () => {
    const log = new MemoryLog('g1', [5]);
    log.appendMany(10, { bytes: BIG });
    const feed = new EventFeed(log);
    const early = follow(feed, { after: 0 });
    expect(await early.stop()).toBe('gone');
    const full = follow(feed, { after: 0 }, { sink: new TestSink(false) });
    await full.sink.until(({ seqs }) => seqs.length > 1);
    expect(await full.stop()).toBe('gone');
    const aborted = new Subscription(feed, { after: 0 }, new TestSink(), AbortSignal.abort());
    expect(await aborted.run()).toBe('gone');
    expect(log.listeners).toBe(0);
  });
});

type Step =
  | { readonly do: 'append'; readonly count: number; readonly bytes: number }
  | { readonly do: 'trim'; readonly keep: number }
  | { readonly do: 'connect'; readonly after: number | undefined; readonly filter: number; readonly isInstant: boolean }
  | { readonly do: 'flush'; readonly bytes: number }
  | { readonly do: 'turn' };

const FILTERS: readonly SubscriptionRequest[] = [
  {},
  { kinds: new Set(['action', 'server'] as const) },
  { actionId: 'a0' },
  { actionId: 'a1', kinds: new Set(['output'] as const) },
];

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('append' as const),
      count: fc.integer({ min: 1, max: 40 }),
      bytes: fc.constantFrom(0, 0, 5_000, BIG),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('trim' as const), keep: fc.integer({ min: 0, max: 60 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('connect' as const),
      after: fc.option(fc.integer({ min: 0, max: 300 }), { nil: undefined }),
      filter: fc.nat(FILTERS.length - 1),
      isInstant: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant('flush' as const), bytes: fc.constantFrom(1_000, BIG, Infinity) }),
  },
  { weight: 4, arbitrary: fc.constant({ do: 'turn' as const }) },
);

test('property: whenever one connects, whatever is appended and trimmed meanwhile, it gets exactly what follows its cursor', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 40 }),
      fc.array(fc.constantFrom(-1, -1, 0, 1), { minLength: 1, maxLength: 5 }),
      async (steps, delays) => {
        const log = new MemoryLog('g1', delays);
        const feed = new EventFeed(log);
        const readers: (Running & { readonly request: SubscriptionRequest })[] = [];
        for (const one of steps) {
          if (one.do === 'append')
            log.append(...range(1, one.count).map((i) => draft(log.history.length + i, one.bytes)));
          if (one.do === 'trim') log.trim(log.history.length - one.keep);
          if (one.do === 'flush') for (const { sink } of readers) sink.flush(one.bytes);
          if (one.do === 'turn') await nextTurn();
          if (one.do === 'connect') {
            const { after } = one;
            const request = { ...FILTERS[one.filter], ...(after === undefined ? {} : { after }) };
            const limits = { maxMissedBytes: Infinity, stallMs: 60_000 };
            readers.push({ request, ...follow(feed, request, { sink: new TestSink(one.isInstant), limits }) });
          }
        }
        // Every reader is let run until it has seen the last event, which all filters want.
        log.append(
          ...EVENT_KINDS.flatMap((kind) => [
            { kind, actionId: 'a0' },
            { kind, actionId: 'a1' },
          ]),
        );
        const flushing = setInterval(() => {
          for (const { sink } of readers) sink.flush();
        }, 0);
        await Promise.all(readers.map(({ sink, request }) => sink.until(() => isAtEnd(sink, request, log))));
        clearInterval(flushing);
        await Promise.all(readers.map(({ stop }) => stop()));
        for (const { sink, request } of readers) {
          expect(faultOf(sink.frames, request, log.history)).toBeUndefined();
          expect(sink.maxBufferedBytes).toBeLessThan(MAX_SINK_BYTES);
        }
        expect(log.listeners).toBe(0);
      },
    ),
    { numRuns: 150 },
  );
});

function draft(seq: number, bytes: number): { kind: (typeof EVENT_KINDS)[number]; actionId: string; bytes: number } {
  return { kind: EVENT_KINDS[seq % 4]!, actionId: `a${seq % 3}`, bytes };
}

function isAtEnd(sink: TestSink, request: SubscriptionRequest, log: MemoryLog): boolean {
  const last = log.history.findLast(({ kind, actionId }) => matchesFilter(request, kind, actionId));
  const needsCaughtUp = request.after !== undefined;
  const isCaughtUp = sink.control.at(-1)?.kind === 'caught_up' || sink.control.some(({ kind }) => kind === 'caught_up');
  return sink.seqs.at(-1) === last?.seq && (!needsCaughtUp || isCaughtUp);
}

/** What is wrong with a reader's frames, given all that ever happened. */
function faultOf(
  frames: readonly (StoredEvent | ControlFrame)[],
  request: SubscriptionRequest,
  history: readonly StoredEvent[],
): string | undefined {
  const [hello] = frames;
  if (hello?.kind !== 'hello') return 'no hello first';
  const wanted = history.filter(({ kind, actionId }) => matchesFilter(request, kind, actionId)).map(({ seq }) => seq);
  const nextAfter = (seq: number): number | undefined => wanted.find((one) => one > seq);
  let cursor = request.after ?? hello.latest;
  let caughtUp = 0;
  for (const frame of frames.slice(1)) {
    if ('json' in frame) {
      if (frame !== history[frame.seq - 1]) return `seq ${frame.seq} is not the event of the log`;
      if (frame.seq !== nextAfter(cursor)) return `seq ${frame.seq} after ${cursor}, wanted ${nextAfter(cursor)}`;
      cursor = frame.seq;
    } else if (frame.kind === 'resync') {
      if (frame.reason === 'trimmed' && frame.oldest <= cursor + 1) return `resync to ${frame.oldest} at ${cursor}`;
      if (frame.reason === 'ahead' && cursor <= hello.latest) return `ahead at ${cursor} of ${hello.latest}`;
      cursor = Math.max(0, frame.oldest - 1);
    } else if (frame.kind === 'caught_up') {
      caughtUp += 1;
      const skipped = nextAfter(cursor);
      if (skipped !== undefined && skipped <= frame.seq) return `caught_up ${frame.seq} skips ${skipped}`;
      if (frame.seq < Math.max(cursor, hello.latest)) return `caught_up ${frame.seq} at ${cursor} of ${hello.latest}`;
      cursor = frame.seq;
    } else return 'hello twice';
  }
  if (caughtUp !== (request.after === undefined ? 0 : 1)) return `${caughtUp} times caught_up`;
  return nextAfter(cursor) === undefined ? undefined : `ends at ${cursor}`;
}
