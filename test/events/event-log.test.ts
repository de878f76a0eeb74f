import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import type { EventLog } from '../../src/events/event-log.ts';
import { filesOf, KIB, MIB, openLog, range, readAll, seqsOf, temporaryDirectory, waitFor } from './support.ts';

const ONE = { maxEvents: 1, maxBytes: 1 };

describe('append and flush', () => {
  test('an event as it is stored', async () => {
    await using directory = await temporaryDirectory();
    const time = new Date('2024-02-03T04:05:06.789Z');
    await using opened = await openLog(directory.path, { now: () => time });
    const { log } = opened;
    expect(log.extent).toMatchObject({ oldest: 0, latest: 0 });
    const seq = log.append({
      text: 'é\u0000\ud800',
      lane: 'bash:default',
      kind: 'output',
      action_id: 'a1',
      extra: { deep: [1] },
    });
    expect(seq).toBe(1);
    expect(log.extent.latest).toBe(0);
    expect(await log.read(0, ONE)).toEqual([]);
    await log.flush(seq);
    expect(log.extent).toMatchObject({ oldest: 1, latest: 1 });
    const [stored] = await log.read(0, ONE);
    expect(stored).toMatchObject({ seq: 1, kind: 'output', actionId: 'a1' });
    expect(stored!.json.toString()).toBe(
      `{"seq":1,"id":"${log.extent.stream.slice(0, 8)}-1","time":"2024-02-03T04:05:06.789Z","kind":"output","action_id":"a1",` +
        '"lane":"bash:default","text":"é\\u0000\\ud800","extra":{"deep":[1]}}',
    );
    expect(await log.load(1)).toEqual(JSON.parse(stored!.json.toString()));
    for (const none of [0, 2, -1, 1.5, NaN, Infinity]) expect(await log.load(none)).toBeUndefined();
  });

  test('fields of the log cannot be given from outside', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const { log } = opened;
    log.append({ kind: 'server', seq: 99, id: 'x', time: 'y', payload_ref: { bytes: 1, sha256: 'z' } });
    await log.flush();
    const event = await log.load(1);
    expect(event).toMatchObject({ seq: 1, kind: 'server' });
    expect(event).not.toHaveProperty('payload_ref');
    expect(Date.parse(event!.time)).toBeGreaterThan(0);
  });

  test('never throws: what is no JSON is stored without its payload', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const { log, problems } = opened;
    const circular: Record<string, unknown> = {};
    circular['self'] = circular;
    log.append({ kind: 'observation', action_id: 'a', circular });
    log.append({ kind: 'server', big: 1n });
    await log.flush();
    expect(await readAll(log)).toMatchObject([
      { seq: 1, kind: 'observation', action_id: 'a', problem: expect.stringContaining('circular') },
      { seq: 2, kind: 'server', problem: expect.stringContaining('BigInt') },
    ]);
    expect(problems).toHaveLength(2);
  });

  test('is a snapshot: later changes of the object do not show', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const payload = { text: 'before' };
    opened.log.append({ kind: 'server', payload });
    payload.text = 'after';
    await opened.log.flush();
    expect(await opened.log.load(1)).toMatchObject({ payload: { text: 'before' } });
  });

  test('what is appended together goes out as one write', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const { log } = opened;
    await Promise.all(range(1, 500).map((n) => log.flush(log.append({ kind: 'action', action_id: `a${n}` }))));
    expect(log.stats()).toMatchObject({ appended: 500, syncs: 1, queuedEvents: 0, isWritable: true });
  });

  test('output alone waits a little, and an urgent event takes it along', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const { log } = opened;
    log.append({ kind: 'output' });
    await waitFor(() => log.extent.latest === 1);
    const start = performance.now();
    for (const seq of range(2, 200)) {
      log.append({ kind: 'output' });
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      if (seq % 50 === 0) await waitFor(() => log.extent.latest >= seq);
    }
    await waitFor(() => log.extent.latest === 200);
    expect(log.stats().syncs).toBeLessThanOrEqual((performance.now() - start) / 20 + 2);
    const before = log.stats().syncs;
    log.append({ kind: 'output' });
    await log.flush(log.append({ kind: 'observation', action_id: 'a' }));
    expect(log.extent.latest).toBe(202);
    expect(log.stats().syncs).toBeLessThanOrEqual(before + 2);
  });

  test('flush waits for no more than its seq, and a seq of the future for all there is', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const { log } = opened;
    await log.flush();
    await log.flush(99);
    log.append({ kind: 'output' });
    await log.flush(99);
    expect(log.extent.latest).toBe(1);
    await expect(log.flush(-1)).rejects.toThrow('did not take the event');
  });

  test('live output is refused when the disk is far behind, nothing else is', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const { log } = opened;
    const text = 'x'.repeat(100 * KIB);
    const output = range(1, 400).map(() => log.append({ kind: 'output', text }));
    const taken = output.indexOf(-1);
    expect(taken * 100 * KIB).toBeGreaterThan(31 * MIB);
    expect(taken * 100 * KIB).toBeLessThan(33 * MIB);
    expect(output.slice(taken).every((seq) => seq === -1)).toBe(true);
    expect(log.append({ kind: 'observation', action_id: 'a' })).toBe(taken + 1);
    expect(log.append({ kind: 'action', action_id: 'b' })).toBe(taken + 2);
    await log.flush();
    expect(log.append({ kind: 'output', text })).toBe(taken + 3);
    expect(log.stats().refused).toBe(400 - taken);
  });

  test('after close nothing is taken, and what was appended before is there', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const { log } = opened;
    log.append({ kind: 'output' });
    const closed = log.close();
    expect(log.append({ kind: 'action', action_id: 'a' })).toBe(-1);
    expect(log.stats().isWritable).toBe(false);
    await closed;
    await log.close();
    await using again = await openLog(directory.path);
    expect(again.log.extent.latest).toBe(1);
    expect(again.log.recovered).toEqual({ openActions: [], cutBytes: 0, wasClean: true });
  });
});

describe('listeners', () => {
  test('hear of the newest seq, at most once per change, until disposed; a faulty one disturbs nobody', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const { log, problems } = opened;
    const heard: number[] = [];
    const faulty = log.onAppend(() => {
      throw new Error('faulty');
    });
    const first = log.onAppend(({ latest }) => heard.push(latest));
    for (const n of range(1, 100)) log.append({ kind: 'observation', action_id: `a${n}` });
    await log.flush();
    await waitFor(() => heard.includes(100));
    expect(heard.every((seq, at) => at === 0 || seq > heard[at - 1]!)).toBe(true);
    expect(problems[0]).toContain('listener');
    faulty.dispose();
    first.dispose();
    const { length } = heard;
    const ended = new Promise<void>((resolve) => {
      log.onAppend(() => resolve());
    });
    log.append({ kind: 'observation', action_id: 'z' });
    await ended;
    expect(heard).toHaveLength(length);
  });
});

describe('after a restart', () => {
  const fill = async (log: EventLog): Promise<void> => {
    for (const n of range(1, 30)) {
      const idempotency = n % 2 === 0 ? { key: `k${n}`, hash: `h${n}` } : undefined;
      log.append({ kind: 'action', action_id: `a${n}`, ...(idempotency && { idempotency }), text: 'x'.repeat(100) });
      log.append({ kind: 'output', action_id: `a${n}` });
      if (n % 10 !== 0) log.append({ kind: 'observation', action_id: `a${n}`, ...(n === 2 && { refused: true }) });
      await log.flush();
    }
  };

  test.each(['with indexes', 'without indexes', 'with damaged indexes'])(
    'actions and keys are known, %s',
    async (how) => {
      await using directory = await temporaryDirectory();
      let before;
      {
        await using opened = await openLog(directory.path, { segmentBytes: 1500 });
        await fill(opened.log);
        before = { ...snapshot(opened.log), extent: opened.log.extent };
      }
      const indexes = await filesOf(directory.path, '.idx');
      expect(indexes.length).toBeGreaterThan(3);
      for (const name of indexes) {
        const file = path.join(directory.path, name);
        if (how === 'without indexes') await rm(file);
        if (how === 'with damaged indexes') await writeFile(file, (await readFile(file, 'utf8')).replace('a1', 'b1'));
      }
      await using opened = await openLog(directory.path, { segmentBytes: 1500 });
      const { log } = opened;
      expect({ ...snapshot(log), extent: log.extent }).toEqual(before);
      expect(log.recovered.openActions).toEqual(
        [10, 20, 30].map((n) => ({ action_id: `a${n}`, seq: log.find(`a${n}`)!.actionSeq })),
      );
      expect(log.find('a1')).toEqual({ actionSeq: 1, observationSeq: 3 });
      expect(log.find('none')).toBeUndefined();
      expect(log.byKey('k4')).toEqual({ action_id: 'a4', hash: 'h4' });
      expect(log.byKey('k1')).toBeUndefined();
      // Refused: its key is free.
      expect(log.byKey('k2')).toBeUndefined();
      expect(log.append({ kind: 'server' })).toBe(88);
      await log.flush();
      expect(seqsOf(await readAll(log))).toEqual(range(1, 88));
    },
  );

  const snapshot = (log: EventLog) => ({
    actions: new Map(log.actions()),
    keys: range(1, 30).map((n) => log.byKey(`k${n}`)),
  });

  test('ids with any characters', async () => {
    await using directory = await temporaryDirectory();
    const ids = ['plain', 'with "quotes"', 'back\\slash', 'ümläut', '日本', '\n', '', 'x'.repeat(2000)];
    {
      await using opened = await openLog(directory.path);
      for (const id of ids)
        opened.log.append({ kind: 'action', action_id: id, idempotency: { key: `k${id}`, hash: id } });
    }
    await using opened = await openLog(directory.path);
    for (const [at, id] of ids.entries()) {
      expect(opened.log.find(id)).toEqual({ actionSeq: at + 1 });
      expect(opened.log.byKey(`k${id}`)).toEqual({ action_id: id, hash: id });
    }
    const stored = await opened.log.read(0, { maxEvents: 99, maxBytes: MIB });
    expect(stored.map(({ actionId }) => actionId)).toEqual(ids);
  });
});
