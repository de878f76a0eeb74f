import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { EventLog } from '../../src/events/event-log.ts';
import { MemoryLog } from '../events/subscription-log.ts';
import { until } from '../support/wait.ts';
import { type Frame, refusal, StreamClient, StreamServer } from './harness.ts';

const BIG = 200 * 1024;

function logOf(count: number): MemoryLog {
  const log = new MemoryLog();
  if (count > 0) log.appendMany(count);
  return log;
}

const range = (first: number, last: number): number[] =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);

const isCaughtUp = ({ control }: StreamClient): boolean => control.at(-1)?.kind === 'caught_up';

const auth = (key: unknown): string => JSON.stringify({ type: 'auth', session_api_key: key });

/** A real log in a directory of its own. */
async function temporaryLog(): Promise<AsyncDisposable & { readonly log: EventLog }> {
  const directory = mkdtempSync(join(tmpdir(), 'actiond-events-'));
  const log = await EventLog.open({ directory, maxBytes: 2 ** 30, maxAgeMs: 2 ** 40 });
  const dispose = async (): Promise<void> => {
    await log.close();
    rmSync(directory, { recursive: true, force: true });
  };
  return { log, [Symbol.asyncDispose]: dispose };
}

describe('frames', () => {
  test('without a cursor: hello, then live', async () => {
    const log = logOf(3);
    await using server = await StreamServer.start({ reader: log });
    using client = await StreamClient.connect(server);
    await client.until(({ frames }) => frames.length === 1);
    log.append({ kind: 'action', actionId: 'a' }, { kind: 'server' });
    await client.until(({ frames }) => frames.length === 3);
    expect(client.frames[0]).toEqual({ kind: 'hello', stream: 'g1', oldest: 1, latest: 3 });
    expect(client.frames.slice(1)).toEqual(
      log.history.slice(3).map(({ json }) => JSON.parse(json.toString()) as Frame),
    );
  });

  test('with a cursor: replay, caught_up, live', async () => {
    const log = logOf(4);
    await using server = await StreamServer.start({ reader: log });
    using client = await StreamClient.connect(server, 'after=2&stream=g1');
    await client.until(isCaughtUp);
    log.appendMany(1);
    await client.until(({ seqs }) => seqs.length === 3);
    expect(client.frames.map(({ kind, seq }) => [kind, seq])).toEqual([
      ['hello', undefined],
      ['output', 3],
      ['output', 4],
      ['caught_up', 4],
      ['output', 5],
    ]);
  });

  test.each([
    ['after=1', 'trimmed'],
    ['after=2&stream=other', 'generation'],
    ['after=5', 'ahead'],
    ['after=999999999', 'ahead'],
    [`after=${'9'.repeat(400)}`, 'ahead'],
  ])('resync: ?%s', async (query, reason) => {
    const log = logOf(4);
    log.trim(3);
    await using server = await StreamServer.start({ reader: log });
    using client = await StreamClient.connect(server, query);
    await client.until(isCaughtUp);
    expect(client.control[1]).toEqual({ kind: 'resync', reason, stream: 'g1', oldest: 3 });
    expect(client.seqs).toEqual([3, 4]);
  });

  test.each([
    ['kind=action&kind=server', [1, 3, 4]],
    ['kind=action,server', [1, 3, 4]],
    ['action_id=a', [1, 2, 5]],
    ['action_id=a&kind=observation', [5]],
    ['action_id=zzz', []],
  ])('filter: ?%s', async (query, seqs) => {
    const log = new MemoryLog();
    log.append({ kind: 'action', actionId: 'a' }, { kind: 'output', actionId: 'a' }, { kind: 'server' });
    log.append({ kind: 'action', actionId: 'b' }, { kind: 'observation', actionId: 'a' });
    await using server = await StreamServer.start({ reader: log });
    using client = await StreamClient.connect(server, `after=0&${query}`);
    await client.until(isCaughtUp);
    expect(client.seqs).toEqual(seqs);
    expect(client.control.at(-1)).toEqual({ kind: 'caught_up', seq: 5 });
  });

  test('a log that cannot be read: 1011, and a line in the log without the key', async () => {
    const log = logOf(1);
    log.fails = true;
    await using server = await StreamServer.start({ reader: log, apiKeys: ['key-77-secret'] });
    using client = await StreamClient.connect(server, 'after=0&session_api_key=key-77-secret');
    expect((await client.closed).code).toBe(1011);
    expect(server.logged.join('')).toContain('the disk is gone');
    expect(server.logged.join('')).not.toContain('key-77');
    expect((await fetch(server.url('/events?session_api_key=key-77-secret'))).status).toBe(500);
    expect(server.logged.join('')).not.toContain('key-77');
  });
});

describe('with the real log', () => {
  test('connecting at any moment during 5,000 appends: nothing lost, nothing twice', async () => {
    await using temporary = await temporaryLog();
    const { log } = temporary;
    await using server = await StreamServer.start({ reader: log });
    const clients: { readonly after: number | undefined; readonly client: StreamClient }[] = [];
    const connecting: Promise<unknown>[] = [];
    const connect = async (after: number | undefined): Promise<void> => {
      clients.push({ after, client: await StreamClient.connect(server, after === undefined ? '' : `after=${after}`) });
    };
    for (let i = 0; i < 5000; i += 1) {
      log.append({ kind: 'output', action_id: `a${i % 7}`, text: 'x'.repeat(i % 300) });
      if (i % 50 === 0) await nextTurn();
      if (i % 250 === 0) connecting.push(connect([0, Math.floor(log.extent.latest / 2), undefined][(i / 250) % 3]));
    }
    await Promise.all(connecting);
    await log.flush();
    await Promise.all(clients.map(({ client }) => client.until(({ frames }) => frames.length > 0)));
    const last = log.append({ kind: 'server' });
    await log.flush();
    await Promise.all(clients.map(({ client }) => client.until(({ seqs }) => seqs.at(-1) === last)));
    expect(last).toBe(5001);
    expect(clients.length).toBe(20);
    for (const { after, client } of clients) {
      const first = (after ?? (client.frames[0]?.['latest'] as number)) + 1;
      expect(client.seqs).toEqual(range(first, last));
      expect(new Set(client.frames.map(({ id }) => id)).size).toBeGreaterThanOrEqual(client.seqs.length);
      client.socket.terminate();
    }
  });

  test('a generation that is known continues, after a restart too', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'actiond-events-'));
    const options = { directory, maxBytes: 2 ** 30, maxAgeMs: 2 ** 40 };
    let stream = '';
    {
      const log = await EventLog.open(options);
      log.append({ kind: 'server' });
      log.append({ kind: 'server' });
      await log.flush();
      ({ stream } = log.extent);
      await log.close();
    }
    const log = await EventLog.open(options);
    log.append({ kind: 'server' });
    await log.flush();
    {
      await using server = await StreamServer.start({ reader: log });
      using client = await StreamClient.connect(server, `after=1&stream=${stream}`);
      await client.until(isCaughtUp);
      expect(client.control.map(({ kind }) => kind)).toEqual(['hello', 'caught_up']);
      expect(client.seqs).toEqual([2, 3]);
    }
    await log.close();
    rmSync(directory, { recursive: true });
  });

  test('100 subscribers get all of 2,000 events', async () => {
    await using temporary = await temporaryLog();
    const { log } = temporary;
    await using server = await StreamServer.start({ reader: log });
    const clients = await Promise.all(range(1, 100).map(() => StreamClient.connect(server)));
    await Promise.all(clients.map((client) => client.until(({ frames }) => frames.length === 1)));
    expect(server.streams.counters).toEqual({ subscribers: 100, droppedReaders: 0 });
    for (let i = 0; i < 2000; i += 1) {
      log.append({ kind: 'output', action_id: 'a', text: 'x'.repeat(100) });
      if (i % 20 === 0) await log.flush();
    }
    await log.flush();
    await Promise.all(clients.map((client) => client.until(({ seqs }) => seqs.length === 2000)));
    for (const client of clients) expect(client.seqs).toEqual(range(1, 2000));
    for (const client of clients) client.socket.close();
    await until('all have gone', () => server.streams.counters.subscribers === 0);
  });
});

describe('requests that are wrong are refused before the upgrade', () => {
  test.each([
    ['after=-1', 'query.after: expected an integer >= 0'],
    ['after=abc', 'query.after: expected an integer >= 0, the seq of an event, got the string "abc"'],
    ['after=', 'query.after'],
    ['after=1.5', 'query.after'],
    ['after=1&after=2', 'query.after'],
    [
      'kind=bogus',
      'query.kind[0]: expected one of "action", "output", "observation", "server", got the string "bogus"',
    ],
    ['kind=action,', 'query.kind[1]'],
    ['kind=', 'query.kind[0]'],
    ['action_id=', 'query.action_id: expected an action id'],
    ['action_id=a&action_id=b', 'query.action_id'],
    ['stream=a&stream=b', 'query.stream'],
  ])('?%s', async (query, errors) => {
    await using server = await StreamServer.start({ reader: logOf(3) });
    const { status, body } = await refusal(server, query);
    expect(status).toBe(422);
    expect(JSON.parse(body)).toEqual({
      detail: 'Invalid request parameters',
      errors: expect.stringContaining(errors) as string,
    });
    const page = await fetch(server.url(`/events?${query}`));
    expect(page.status).toBe(query.startsWith('stream') ? 200 : 422);
    await page.arrayBuffer();
    const stream = await fetch(server.url(`/events/stream?${query}`), { headers: { accept: 'text/event-stream' } });
    expect(stream.status).toBe(422);
    await stream.arrayBuffer();
  });

  test('a foreign Origin: 403; an allowed one and none: in', async () => {
    await using server = await StreamServer.start({ reader: logOf(0), allowOrigins: ['https://ok.example'] });
    const foreign = await refusal(server, '', { headers: { origin: 'https://evil.example' } });
    expect(foreign.status).toBe(403);
    expect(foreign.body).toContain('--allow-origin');
    expect((await refusal(server, '', { headers: { 'sec-fetch-site': 'cross-site' } })).status).toBe(403);
    expect((await refusal(server, '', { headers: { host: 'evil.example' } })).status).toBe(403);
    using allowed = await StreamClient.connect(server, '', { headers: { origin: 'https://ok.example' } });
    using own = await StreamClient.connect(server, '', { headers: { origin: server.url('') } });
    await Promise.all([allowed, own].map((client) => client.until(({ frames }) => frames.length === 1)));
  });

  test('connections of refused upgrades are closed', async () => {
    await using server = await StreamServer.start({ reader: logOf(0) });
    await refusal(server, 'after=x');
    await refusal(server, '', { headers: { origin: 'https://evil.example' } });
    await refusal(server, '', { path: '/nowhere' });
    await refusal(server, '', { path: '/health' });
    await until('they are closed', async () => (await server.connections()) === 0);
  });
});

describe('keys', () => {
  const apiKeys = ['right', 'other'];

  test.each([
    ['header', '', { 'x-session-api-key': 'right' }],
    ['bearer', '', { authorization: 'Bearer other' }],
    ['query', 'session_api_key=right', {}],
    ['query, with another in the header', 'session_api_key=right', { 'x-session-api-key': 'wrong' }],
  ])('in the %s', async (_where, query, headers) => {
    await using server = await StreamServer.start({ reader: logOf(2), apiKeys });
    using client = await StreamClient.connect(server, `after=0&${query}`, { headers });
    await client.until(isCaughtUp);
    expect(client.seqs).toEqual([1, 2]);
  });

  test('in the first frame: nothing is sent before it', async () => {
    const log = logOf(2);
    await using server = await StreamServer.start({ reader: log, apiKeys });
    using client = await StreamClient.connect(server, 'after=0');
    expect(server.streams.counters.subscribers).toBe(0);
    log.appendMany(1);
    await fetch(server.url('/health'));
    expect(client.frames).toEqual([]);
    client.socket.send(auth('right'));
    await client.until(isCaughtUp);
    expect(client.seqs).toEqual([1, 2, 3]);
  });

  test.each([
    ['a wrong key in the first frame', '', {}, auth('wrong'), 4001],
    ['a key of another type', '', {}, auth(7), 4001],
    ['another first frame', '', {}, '{"type":"ping"}', 4001],
    ['a first frame that is no object', '', {}, 'null', 4001],
    ['text that is no JSON', '', {}, '{not json', 4001],
    ['a binary frame', '', {}, Buffer.from(auth('right')), 1003],
    ['a wrong key in the header', '', { 'x-session-api-key': 'wrong' }, undefined, 4001],
    ['a wrong key in the query', 'session_api_key=wrong', {}, undefined, 4001],
  ])('%s is refused', async (_what, query, headers, frame, code) => {
    await using server = await StreamServer.start({ reader: logOf(2), apiKeys });
    using client = await StreamClient.connect(server, `after=0&${query}`, { headers });
    if (frame !== undefined) client.socket.send(frame);
    expect((await client.closed).code).toBe(code);
    expect(client.frames).toEqual([]);
    expect(server.streams.counters).toEqual({ subscribers: 0, droppedReaders: 0 });
  });

  test('no first frame in time: 4001', async () => {
    await using server = await StreamServer.start({ reader: logOf(2), apiKeys, authLimitMs: 20 });
    using client = await StreamClient.connect(server, 'after=0');
    expect(await client.closed).toEqual({ code: 4001, reason: expect.stringContaining('"type":"auth"') as string });
  });

  test('an auth frame where none is needed is ignored', async () => {
    const log = logOf(0);
    await using server = await StreamServer.start({ reader: log });
    using client = await StreamClient.connect(server);
    client.socket.send(auth('whatever'));
    client.socket.send('{"type":"ping"}');
    client.socket.send('7');
    await client.until(({ frames }) => frames.length === 1);
    log.appendMany(1);
    await client.until(({ seqs }) => seqs.length === 1);
  });

  test('those who have shown no key cannot keep out those who have', async () => {
    await using server = await StreamServer.start({ reader: logOf(0), apiKeys, maxSubscribers: 2 });
    using stranger = await StreamClient.connect(server);
    using another = await StreamClient.connect(server);
    using third = await StreamClient.connect(server);
    expect((await third.closed).code).toBe(1013);
    stranger.socket.send(auth('right'));
    await stranger.until(({ frames }) => frames.length === 1);
    another.socket.send(auth('right'));
    await another.until(({ frames }) => frames.length === 1);
    using late = await StreamClient.connect(server, 'session_api_key=right');
    expect((await late.closed).code).toBe(1013);
    stranger.socket.close();
    await until('there is room', () => server.streams.counters.subscribers === 1);
    using next = await StreamClient.connect(server, 'session_api_key=right');
    await next.until(({ frames }) => frames.length === 1);
  });
});

describe('what clients do wrong ends their own connection only', () => {
  const mask = '00000000';

  test.each([
    ['reserved bits', 1002, (client: StreamClient) => client.sendRaw(`f180${mask}41`)],
    ['close code 1006', 1002, (client: StreamClient) => client.sendRaw(`8882${mask}03ee`)],
    ['close frame of one byte', 1002, (client: StreamClient) => client.sendRaw(`8881${mask}03`)],
    ['a frame without mask', 1002, (client: StreamClient) => client.sendRaw('810141')],
    ['an unknown opcode', 1002, (client: StreamClient) => client.sendRaw(`8380${mask}`)],
    ['text that is no UTF-8', 1007, (client: StreamClient) => client.sendRaw(`8181${mask}ff`)],
    ['text that is no JSON', 1008, (client: StreamClient) => client.socket.send('{not json')],
    ['an empty text', 1008, (client: StreamClient) => client.socket.send('')],
    ['a binary frame', 1003, (client: StreamClient) => client.socket.send(Buffer.from('{}'))],
    ['an oversized frame', 1009, (client: StreamClient) => client.socket.send(`"${'k'.repeat(70_000)}"`)],
    ['a length of 2^62', 1009, (client: StreamClient) => client.sendRaw(`81ff4000000000000000${mask}`)],
    [
      '64 MB after garbage',
      1008,
      (client: StreamClient) => {
        client.socket.send('{not json');
        client.socket.send('k'.repeat(64_000_000));
      },
    ],
  ])('%s: %i', async (_what, code, misbehave) => {
    const log = logOf(0);
    await using server = await StreamServer.start({ reader: log, closeLimitMs: 100 });
    using good = await StreamClient.connect(server);
    using bad = await StreamClient.connect(server);
    await bad.until(({ frames }) => frames.length === 1);
    misbehave(bad);
    expect([code, 1006]).toContain((await bad.closed).code);
    await until('it is gone', () => server.streams.counters.subscribers === 1);
    log.appendMany(1);
    await good.until(({ seqs }) => seqs.length === 1);
    expect((await fetch(server.url('/health'))).status).toBe(200);
  });

  test('the close code arrives', async () => {
    await using server = await StreamServer.start({ reader: logOf(0) });
    for (const [code, frame] of [
      [1008, '{not json'],
      [1003, Buffer.from('x')],
      [1009, 'k'.repeat(70_000)],
    ] as const) {
      using client = await StreamClient.connect(server);
      client.socket.send(frame);
      expect((await client.closed).code).toBe(code);
    }
    using client = await StreamClient.connect(server);
    client.sendRaw(`f180${mask}41`);
    expect((await client.closed).code).toBe(1002);
  });

  test('connections that are reset, destroyed, half a handshake or half a frame', async () => {
    const log = logOf(0);
    await using server = await StreamServer.start({ reader: log });
    const [reset, destroyed, ended, halfFrame] = await Promise.all(range(1, 4).map(() => StreamClient.connect(server)));
    await until('all follow', () => server.streams.counters.subscribers === 4);
    halfFrame!.sendRaw(`81fe`);
    halfFrame!.transport.end();
    reset!.transport.resetAndDestroy();
    destroyed!.transport.destroy();
    ended!.transport.end();
    log.appendMany(10, { bytes: BIG });
    await until('all are gone', () => server.streams.counters.subscribers === 0);
    expect(server.streams.counters.droppedReaders).toBe(0);
    const badHandshakes = [{ 'sec-websocket-version': '7' }, { 'sec-websocket-key': 'short' }];
    for (const headers of badHandshakes) {
      const reply = await fetch(server.url('/events/stream'), { headers }).catch((error: unknown) => error);
      expect(reply).toMatchObject({ status: 426 });
    }
    using fine = await StreamClient.connect(server, 'after=0');
    await fine.until(isCaughtUp);
    expect(fine.seqs).toEqual(range(1, 10));
    expect(fine.largest.bytes).toBeLessThanOrEqual(256 * 1024);
  });
});

describe('readers that are slow or dead', () => {
  test('no pong before the next ping: cut; those who answer stay', async () => {
    const log = logOf(0);
    await using server = await StreamServer.start({ reader: log, pingMs: 40 });
    using dead = await StreamClient.connect(server, '', { autoPong: false });
    using alive = await StreamClient.connect(server);
    expect((await dead.closed).code).toBe(1006);
    let pings = 0;
    await new Promise<void>((resolve) => {
      alive.socket.on('ping', () => {
        pings += 1;
        if (pings === 4) resolve();
      });
    });
    log.appendMany(1);
    await alive.until(({ seqs }) => seqs.length === 1);
    expect(server.streams.counters).toEqual({ subscribers: 1, droppedReaders: 0 });
  });

  test('a burst of pings is no reason to end: the last one is answered', async () => {
    const log = logOf(0);
    await using server = await StreamServer.start({ reader: log });
    using client = await StreamClient.connect(server);
    const answers: string[] = [];
    const last = new Promise<void>((resolve) => {
      client.socket.on('pong', (data) => {
        answers.push(data.toString());
        if (data.toString() === 'ping 9999') resolve();
      });
    });
    for (let n = 0; n < 10_000; n += 1) client.socket.ping(`ping ${n}`);
    await Promise.race([last, client.closed.then((end) => Promise.reject(new Error(JSON.stringify(end))))]);
    expect(answers.length).toBeGreaterThan(1);
    log.appendMany(1);
    await client.until(({ seqs }) => seqs.length === 1);
  });

  test('one that pings and does not read: what waits for it is bounded', async () => {
    await using server = await StreamServer.start({ reader: logOf(0) });
    using client = await StreamClient.connect(server);
    client.socket.pause();
    const before = process.memoryUsage().rss;
    for (let n = 0; n < 200_000; n += 1) client.socket.ping('x'.repeat(125));
    await new Promise<void>((resolve) => client.socket.ping('last', true, () => resolve()));
    using other = await StreamClient.connect(server);
    await other.until(({ frames }) => frames.length === 1);
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
    expect(client.socket.readyState).toBe(client.socket.OPEN);
  });

  test('one that reads nothing is closed with 1013; a healthy one gets all, and memory stays bounded', async () => {
    const log = new MemoryLog();
    await using server = await StreamServer.start({ reader: log, maxMissedBytes: 2 * 1024 * 1024 });
    using stuck = await StreamClient.connect(server);
    using good = await StreamClient.connect(server);
    await Promise.all([stuck, good].map((client) => client.until(({ frames }) => frames.length === 1)));
    stuck.socket.pause();
    let sent = 0;
    while (server.streams.counters.droppedReaders === 0 && sent < 200) {
      log.append({ bytes: BIG });
      sent += 1;
      await good.until(({ seqs }) => seqs.length === sent);
    }
    expect(server.streams.counters).toEqual({ subscribers: 1, droppedReaders: 1 });
    log.append({ bytes: BIG });
    await good.until(({ seqs }) => seqs.length === sent + 1);
    expect(good.seqs).toEqual(range(1, sent + 1));
    stuck.socket.resume();
    expect(await stuck.closed).toEqual({ code: 1013, reason: expect.stringContaining('after=') as string });
    expect(stuck.seqs).toEqual(range(1, stuck.seqs.length));
    // It comes back with its cursor, and has lost nothing.
    using again = await StreamClient.connect(server, `after=${stuck.seqs.length}`);
    await again.until(isCaughtUp);
    expect(again.seqs).toEqual(range(stuck.seqs.length + 1, sent + 1));
  });

  test('no progress for too long, in the replay too: 1013', async () => {
    const log = new MemoryLog();
    log.appendMany(120, { bytes: BIG });
    await using server = await StreamServer.start({ reader: log, stallMs: 60 });
    using stuck = await StreamClient.connect(server, 'after=0');
    stuck.socket.pause();
    await until('it is dropped', () => server.streams.counters.droppedReaders === 1);
    stuck.socket.resume();
    expect((await stuck.closed).code).toBe(1013);
  });

  test('one that does not answer the close is cut', async () => {
    const log = new MemoryLog();
    log.appendMany(120, { bytes: BIG });
    await using server = await StreamServer.start({ reader: log, stallMs: 30, closeLimitMs: 30 });
    using stuck = await StreamClient.connect(server, 'after=0');
    stuck.socket.pause();
    await until('its connection is gone', async () => (await server.connections()) === 0);
  });
});

describe('shutdown', () => {
  test('closes with 1001, also where nobody reads', async () => {
    const log = new MemoryLog();
    log.appendMany(120, { bytes: BIG });
    const server = await StreamServer.start({ reader: log, apiKeys: ['right'], shutdownLimitMs: 100 });
    const key = 'session_api_key=right';
    using live = await StreamClient.connect(server, key);
    using waiting = await StreamClient.connect(server);
    using stuck = await StreamClient.connect(server, `after=0&${key}`);
    stuck.socket.pause();
    await until('both follow', () => server.streams.counters.subscribers === 2);
    const closing = server.close();
    expect((await live.closed).code).toBe(1001);
    expect((await waiting.closed).code).toBe(1001);
    await closing;
    stuck.socket.resume();
    await stuck.closed;
    expect(server.streams.counters.subscribers).toBe(0);
    expect(log.listeners).toBe(0);
  });

  test('without anybody it does not wait', async () => {
    const server = await StreamServer.start({ reader: logOf(0) });
    await server.close();
  });
});
