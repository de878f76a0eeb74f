import { describe, expect, test } from 'vitest';
import { MemoryLog } from '../events/subscription-log.ts';
import { until } from '../support/wait.ts';
import { Refused, SseClient, StreamServer } from './harness.ts';

const BIG = 200 * 1024;

function logOf(count: number): MemoryLog {
  const log = new MemoryLog();
  if (count > 0) log.appendMany(count);
  return log;
}

const range = (first: number, last: number): number[] =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);

const isCaughtUp = ({ messages }: SseClient): boolean => messages.some(({ event }) => event === 'caught_up');

test('events have id, event and data; control frames have no id', async () => {
  const log = logOf(0);
  log.append({ kind: 'action' }, { kind: 'server' });
  await using server = await StreamServer.start({ reader: log });
  await using client = await SseClient.connect(server, 'after=0');
  await client.until(isCaughtUp);
  log.append({ kind: 'observation' });
  await client.until(({ seqs }) => seqs.length === 3);
  expect(client.response.headers['content-type']).toBe('text/event-stream; charset=utf-8');
  expect(client.response.headers['cache-control']).toContain('no-cache');
  const event = (seq: number, kind: string): object => ({
    id: String(seq),
    event: kind,
    data: JSON.parse(log.history[seq - 1]!.json.toString()) as object,
  });
  expect(client.messages).toEqual([
    { event: 'hello', data: { kind: 'hello', stream: 'g1', oldest: 1, latest: 2 } },
    event(1, 'action'),
    event(2, 'server'),
    { event: 'caught_up', data: { kind: 'caught_up', seq: 2 } },
    event(3, 'observation'),
  ]);
});

test.each([
  ['', { 'last-event-id': '3' }, 4],
  ['after=0', { 'last-event-id': '3' }, 4],
  ['after=2', { 'last-event-id': '' }, 3],
  ['after=2', {}, 3],
])('resumes: ?%s with %j', async (query, headers, first) => {
  await using server = await StreamServer.start({ reader: logOf(5) });
  await using client = await SseClient.connect(server, query, headers);
  await client.until(isCaughtUp);
  expect(client.seqs).toEqual(range(first, 5));
});

test('an EventSource that comes back again and again gets each event once', async () => {
  const log = logOf(0);
  await using server = await StreamServer.start({ reader: log });
  const seen: number[] = [];
  for (let i = 0; i < 10; i += 1) {
    log.appendMany(7);
    const headers: Record<string, string> = seen.length === 0 ? {} : { 'last-event-id': String(seen.at(-1)) };
    await using client = await SseClient.connect(server, 'after=0', headers);
    await client.until(({ seqs }) => seqs.length >= 5);
    seen.push(...client.seqs);
  }
  expect(seen).toEqual(range(1, seen.length));
  expect(seen.length).toBe(70);
});

test('live only, filters, resync', async () => {
  const log = logOf(4);
  log.trim(3);
  await using server = await StreamServer.start({ reader: log });
  await using live = await SseClient.connect(server, 'kind=server');
  await using old = await SseClient.connect(server, 'after=0');
  await Promise.all([live.until(({ messages }) => messages.length === 1), old.until(isCaughtUp)]);
  log.append({ kind: 'action' }, { kind: 'server' });
  await Promise.all([live.until(({ seqs }) => seqs.length === 1), old.until(({ seqs }) => seqs.length === 4)]);
  expect(live.seqs).toEqual([6]);
  expect(old.messages[1]).toEqual({
    event: 'resync',
    data: { kind: 'resync', reason: 'trimmed', stream: 'g1', oldest: 3 },
  });
  expect(old.seqs).toEqual([3, 4, 5, 6]);
});

test('pings are comments', async () => {
  await using server = await StreamServer.start({ reader: logOf(0), pingMs: 10 });
  await using client = await SseClient.connect(server);
  await client.until(({ messages }) => messages.filter(({ comment }) => comment === 'ping').length >= 3);
  expect(client.messages[0]?.event).toBe('hello');
});

test('ends when the client goes', async () => {
  const log = logOf(0);
  await using server = await StreamServer.start({ reader: log });
  const client = await SseClient.connect(server);
  await client.until(({ messages }) => messages.length === 1);
  expect(server.streams.counters.subscribers).toBe(1);
  await client[Symbol.asyncDispose]();
  await until('it is gone', () => server.streams.counters.subscribers === 0);
  expect(log.listeners).toBe(0);
});

test('the key: header or query, else 403; a foreign Origin: 403', async () => {
  const server = await StreamServer.start({ reader: logOf(1), apiKeys: ['right'] });
  await using _server = server;
  await using byHeader = await SseClient.connect(server, 'after=0', { 'x-session-api-key': 'right' });
  await using byQuery = await SseClient.connect(server, 'after=0&session_api_key=right');
  await Promise.all([byHeader, byQuery].map((client) => client.until(isCaughtUp)));
  const refused = async (query: string, headers: Record<string, string> = {}): Promise<number> => {
    const error: unknown = await SseClient.connect(server, query, headers).catch((thrown: unknown) => thrown);
    return error instanceof Refused ? error.status : 0;
  };
  expect(await refused('')).toBe(403);
  expect(await refused('session_api_key=wrong')).toBe(403);
  expect(await refused('session_api_key=')).toBe(403);
  expect(await refused('session_api_key=right', { origin: 'https://evil.example' })).toBe(403);
  expect(await refused('session_api_key=right', { 'last-event-id': 'x' })).toBe(422);
});

test('no more than the limit: 503', async () => {
  await using server = await StreamServer.start({ reader: logOf(0), maxSubscribers: 1 });
  const first = await SseClient.connect(server);
  await first.until(({ messages }) => messages.length === 1);
  const refused: unknown = await SseClient.connect(server).catch((error: unknown) => error);
  expect(refused).toMatchObject({ status: 503, body: expect.stringContaining('subscribers') as string });
  await first[Symbol.asyncDispose]();
  await until('there is room', () => server.streams.counters.subscribers === 0);
  await using next = await SseClient.connect(server);
  await next.until(({ messages }) => messages.length === 1);
});

describe('endings', () => {
  test('a reader that takes nothing is cut; another gets all', async () => {
    const log = logOf(0);
    log.appendMany(120, { bytes: BIG });
    await using server = await StreamServer.start({ reader: log, stallMs: 500 });
    await using stuck = await SseClient.connect(server, 'after=0', { isPaused: true });
    await using good = await SseClient.connect(server, 'after=0');
    await good.until(isCaughtUp);
    expect(good.seqs).toEqual(range(1, 120));
    await until('it is dropped', () => server.streams.counters.droppedReaders === 1);
    expect(server.streams.counters.subscribers).toBe(1);
    stuck.read();
    expect(await stuck.ended).toBe(false);
    expect(stuck.seqs).toEqual(range(1, stuck.seqs.length));
  });

  test('a log that cannot be read', async () => {
    const log = logOf(1);
    log.fails = true;
    await using server = await StreamServer.start({ reader: log });
    await using client = await SseClient.connect(server, 'after=0');
    expect(await client.ended).toBe(false);
  });

  test('shutdown ends the response properly, also where nobody reads', async () => {
    const log = logOf(0);
    log.appendMany(120, { bytes: BIG });
    const server = await StreamServer.start({ reader: log, shutdownLimitMs: 100 });
    await using client = await SseClient.connect(server);
    await using stuck = await SseClient.connect(server, 'after=0', { isPaused: true });
    await until('both follow', () => server.streams.counters.subscribers === 2);
    await server.close();
    expect(await client.ended).toBe(true);
    stuck.read();
    await stuck.ended;
    expect(stuck.seqs.length).toBeLessThan(120);
  });
});
