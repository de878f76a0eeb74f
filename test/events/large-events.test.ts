import { createHash } from 'node:crypto';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cutString, MAX_RECORD_JSON_BYTES } from '../../src/events/cut.ts';
import { encodeEvent, parseHead, parseKey } from '../../src/events/record.ts';
import type { NewEvent } from '../../src/events/types.ts';
import { KIB, MIB, openLog, temporaryDirectory } from './support.ts';

const STAMP = { seq: 7, id: 'abcdef12-7', time: '2024-01-01T00:00:00.000Z' };
const ONE = { maxEvents: 1, maxBytes: 1 };

describe('a large event', () => {
  test('is cut in the log and whole beside it, also after a restart', async () => {
    await using directory = await temporaryDirectory();
    const content = `head${'x'.repeat(300 * KIB)}tail`;
    const event: NewEvent = {
      kind: 'observation',
      action_id: 'a',
      lane: 'l',
      observation: { content, extras: { n: 1 } },
    };
    {
      await using opened = await openLog(directory.path);
      await opened.log.flush(opened.log.append(event));
    }
    await using opened = await openLog(directory.path);
    const { log } = opened;
    const [stored] = await log.read(0, ONE);
    const cut = JSON.parse(stored!.json.toString());
    expect(stored!.json.length).toBeLessThanOrEqual(MAX_RECORD_JSON_BYTES);
    expect(cut.observation.extras).toEqual({ n: 1 });
    expect(cut.observation.content).toMatch(/^headx+… \[\d+ characters left out\] …x+tail$/);
    const blob = await readFile(path.join(directory.path, 'blobs/1.json'));
    expect(cut.payload_ref).toEqual({ bytes: blob.length, sha256: createHash('sha256').update(blob).digest('hex') });
    expect(await log.load(1)).toEqual({ ...event, seq: 1, id: cut.id, time: cut.time });
    expect(log.stats().bytes).toBeGreaterThan(blob.length);
  });

  test('whose whole is lost or damaged is answered as it was cut, and that is said', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const { log, problems } = opened;
    await log.flush(log.append({ kind: 'server', text: 'x'.repeat(100 * KIB) }));
    const file = path.join(directory.path, 'blobs/1.json');
    const blob = await readFile(file);
    blob[50]! ^= 1;
    await writeFile(file, blob);
    expect(await log.load(1)).toHaveProperty('payload_ref');
    await rm(file);
    expect(await log.load(1)).toMatchObject({ text: expect.stringContaining('left out') });
    expect(problems).toHaveLength(2);
  });

  test('beyond the limit of one file is only cut', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const { log } = opened;
    await log.flush(log.append({ kind: 'server', text: 'x'.repeat(65 * MIB) }));
    const event = await log.load(1);
    expect(event).not.toHaveProperty('payload_ref');
    expect(event).toMatchObject({ text: expect.stringContaining('left out') });
  });

  test('whose record never came is removed at the next start', async () => {
    await using directory = await temporaryDirectory();
    const text = 'x'.repeat(100 * KIB);
    {
      await using opened = await openLog(directory.path);
      await opened.log.flush(opened.log.append({ kind: 'server', text }));
    }
    await writeFile(path.join(directory.path, 'blobs/2.json'), 'half');
    await using opened = await openLog(directory.path);
    expect(await readdir(path.join(directory.path, 'blobs'))).toEqual(['1.json']);
    await opened.log.flush(opened.log.append({ kind: 'server', text }));
    expect(await opened.log.load(2)).toMatchObject({ text });
  });

  test('live output of 64 KiB stays whole in the log', async () => {
    await using directory = await temporaryDirectory();
    await using opened = await openLog(directory.path);
    const { log } = opened;
    await log.flush(log.append({ kind: 'output', action_id: 'a', text: 'x'.repeat(64 * KIB) }));
    const [stored] = await log.read(0, ONE);
    expect(JSON.parse(stored!.json.toString()).text).toHaveLength(64 * KIB);
  });
});

describe('any event', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 50 }),
    fc
      .tuple(fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }), fc.integer({ min: 1, max: 20_000 }))
      .map(([s, n]) => s.repeat(n)),
  );
  const payload = fc.dictionary(
    fc.string({ maxLength: 10 }),
    fc.oneof(text, fc.array(text, { maxLength: 5 }), fc.jsonValue()),
    { maxKeys: 8 },
  );
  const event = fc.record(
    {
      kind: fc.constantFrom('action', 'output', 'observation', 'server'),
      action_id: fc.oneof(fc.uuid(), fc.string({ unit: 'binary', maxLength: 40 })),
      idempotency: fc.record({ key: fc.string(), hash: fc.string() }),
      refused: fc.boolean(),
      payload,
    },
    { requiredKeys: ['kind', 'payload'] },
  );

  test('fits into its record, and its head is read back', () => {
    fc.assert(
      fc.property(event, ({ payload: extra, ...rest }) => {
        const encoded = encodeEvent({ ...extra, ...rest }, STAMP, true);
        expect(encoded.json.length).toBeLessThanOrEqual(MAX_RECORD_JSON_BYTES);
        expect(parseHead(encoded.json)).toEqual(encoded.head);
        expect(JSON.parse(encoded.json.toString())).toMatchObject({ ...STAMP, kind: rest.kind });
        if (encoded.head.hasKey) expect(parseKey(encoded.json)).toEqual(encoded.key);
        expect(encoded.blob === undefined).toBe(encoded.head.blobBytes === 0);
      }),
      { numRuns: 150 },
    );
  });

  test.each<[string, Record<string, unknown>]>([
    ['many numbers', { values: Array.from({ length: 100_000 }, (_, n) => n) }],
    ['many strings', { values: Array.from({ length: 20_000 }, (_, n) => `string ${n}`) }],
    ['many fields', Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`field ${n}`, n]))],
    ['a long field name', { ['x'.repeat(MIB)]: 1 }],
    ['a deep structure', { deep: JSON.parse('['.repeat(3000) + '"x"' + ']'.repeat(3000)), text: 'x'.repeat(MIB) }],
    ['control characters', { text: '\u0001'.repeat(200_000) }],
    ['a long lane', { lane: 'x'.repeat(MIB) }],
  ])('%s', (_name, extra) => {
    const encoded = encodeEvent({ kind: 'observation', action_id: 'a', ...extra }, STAMP, true);
    expect(encoded.json.length).toBeLessThanOrEqual(MAX_RECORD_JSON_BYTES);
    expect(parseHead(encoded.json)).toEqual(encoded.head);
    expect(JSON.parse(encoded.blob!.toString())).toEqual({ ...STAMP, kind: 'observation', action_id: 'a', ...extra });
  });

  test('no character is halved by a cut', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', minLength: 70, maxLength: 200 }),
        fc.integer({ min: 4, max: 60 }),
        (string, limit) => {
          const cut = cutString(string, limit);
          expect(Buffer.from(cut).toString()).toBe(cut);
          const left = Number(/\[(\d+) characters/.exec(cut)?.[1]);
          const marker = `… [${left} characters left out] …`;
          expect(cut.length).toBe(string.length - left + marker.length);
        },
      ),
    );
  });
});
