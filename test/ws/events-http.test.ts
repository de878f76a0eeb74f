import { connect, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import { EventKind, EventsReply } from '../../src/protocol/http.ts';
import { EVENT_KINDS } from '../../src/events/types.ts';
import { MemoryLog } from '../events/subscription-log.ts';
import { until } from '../support/wait.ts';
import { StreamClient, StreamServer } from './harness.ts';

const BIG = 200 * 1024;

function logOf(count: number): MemoryLog {
  const log = new MemoryLog();
  if (count > 0) log.appendMany(count);
  return log;
}

const range = (first: number, last: number): number[] =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i);

type Page = ReturnType<typeof EventsReply.parse>;

async function pageOf(server: StreamServer, query = ''): Promise<Page> {
  const reply = await fetch(server.url(`/events?${query}`));
  expect(reply.status).toBe(200);
  expect(reply.headers.get('content-type')).toBe('application/json; charset=utf-8');
  return EventsReply.parse(await reply.json());
}

const seqsOf = ({ events }: Page): number[] => events.map(({ seq }) => seq);

test('the kinds of the protocol are those of the log', () => {
  expect(EventKind.options).toEqual(EVENT_KINDS);
});

describe('GET /events', () => {
  test('pages of 100, from the oldest', async () => {
    await using server = await StreamServer.start({ reader: logOf(250) });
    const first = await pageOf(server);
    expect(first).toMatchObject({ stream: 'g1', oldest: 1, latest: 250, next: 100 });
    expect(seqsOf(first)).toEqual(range(1, 100));
    const third = await pageOf(server, 'after=200');
    expect(seqsOf(third)).toEqual(range(201, 250));
    expect(third.next).toBe(250);
    expect(await pageOf(server, 'after=250')).toMatchObject({ events: [], next: 250 });
  });

  test('an empty log', async () => {
    await using server = await StreamServer.start({ reader: logOf(0) });
    expect(await pageOf(server)).toEqual({ stream: 'g1', oldest: 0, latest: 0, events: [], next: 0 });
  });

  test.each([
    ['limit=1', 1],
    ['limit=1000', 1000],
  ])('?%s', async (query, count) => {
    await using server = await StreamServer.start({ reader: logOf(1500) });
    expect((await pageOf(server, query)).events.length).toBe(count);
  });

  test.each(['limit=0', 'limit=1001', 'limit=-1', 'limit=x', `limit=${'9'.repeat(30)}`])('?%s: 422', async (query) => {
    await using server = await StreamServer.start({ reader: logOf(1) });
    const reply = await fetch(server.url(`/events?${query}`));
    expect(reply.status).toBe(422);
    expect(await reply.json()).toEqual({
      detail: 'Invalid request parameters',
      errors: expect.stringMatching(/^query\.limit: expected an integer from 1 to 1000, got /) as string,
    });
  });

  test('a cursor that is trimmed begins with the oldest; one that is ahead points there', async () => {
    const log = logOf(10);
    log.trim(5);
    await using server = await StreamServer.start({ reader: log });
    expect(seqsOf(await pageOf(server, 'after=1'))).toEqual(range(5, 10));
    for (const after of ['11', '99999999999999999999']) {
      const ahead = await pageOf(server, `after=${after}`);
      expect(ahead).toMatchObject({ oldest: 5, latest: 10, events: [], next: 4 });
    }
  });

  test('filters go on from what was looked at', async () => {
    const log = new MemoryLog();
    for (let i = 1; i <= 300; i += 1) log.append({ kind: i % 100 === 0 ? 'action' : 'output', actionId: `a${i % 2}` });
    await using server = await StreamServer.start({ reader: log });
    const first = await pageOf(server, 'kind=action&limit=2');
    expect(seqsOf(first)).toEqual([100, 200]);
    const second = await pageOf(server, `kind=action&limit=2&after=${first.next}`);
    expect(seqsOf(second)).toEqual([300]);
    expect(second.next).toBe(300);
    expect(await pageOf(server, 'kind=server,observation')).toMatchObject({ events: [], next: 300 });
    expect((await pageOf(server, 'action_id=a1&limit=1000')).events.length).toBe(150);
  });

  test('a page is bounded in bytes; `next` goes on behind it', async () => {
    const log = new MemoryLog();
    log.appendMany(50, { bytes: BIG });
    await using server = await StreamServer.start({ reader: log });
    const seen: number[] = [];
    let after = 0;
    let pages = 0;
    while (after < 50) {
      const reply = await fetch(server.url(`/events?after=${after}&limit=1000`));
      const text = await reply.text();
      expect(text.length).toBeLessThan(4.1 * 1024 * 1024);
      const page = EventsReply.parse(JSON.parse(text));
      seen.push(...seqsOf(page));
      after = page.next;
      pages += 1;
    }
    expect(seen).toEqual(range(1, 50));
    expect(pages).toBe(3);
  });

  test('a search that finds nothing ends after a bounded part of the log, and can go on', async () => {
    const log = new MemoryLog();
    log.appendMany(400, { bytes: BIG });
    await using server = await StreamServer.start({ reader: log });
    const page = await pageOf(server, 'kind=server');
    expect(page.next).toBeGreaterThan(300);
    expect(page.next).toBeLessThan(400);
    expect(await pageOf(server, `kind=server&after=${page.next}`)).toMatchObject({ events: [], next: 400 });
  });

  test('the key: header or query, else 403', async () => {
    await using server = await StreamServer.start({ reader: logOf(1), apiKeys: ['right'] });
    const statusOf = async (query: string, headers: Record<string, string> = {}): Promise<number> => {
      const reply = await fetch(server.url(`/events${query}`), { headers });
      await reply.arrayBuffer();
      return reply.status;
    };
    expect(await statusOf('')).toBe(403);
    expect(await statusOf('?session_api_key=wrong')).toBe(403);
    expect(await statusOf('?session_api_key=right&session_api_key=right')).toBe(403);
    expect(await statusOf('?session_api_key=right')).toBe(200);
    expect(await statusOf('/?session_api_key=right')).toBe(200);
    expect(await statusOf('', { authorization: 'Bearer right' })).toBe(200);
    expect(await statusOf('?session_api_key=right', { origin: 'https://evil.example' })).toBe(403);
    // The key in a query opens nothing else.
    expect((await fetch(server.url('/echo?session_api_key=right'), { method: 'POST' })).status).toBe(403);
  });
});

describe('GET /events/stream without a stream', () => {
  test.each([[{ accept: 'application/json' }], [{}]])('426 says how: %j', async (headers) => {
    await using server = await StreamServer.start({ reader: logOf(1) });
    const reply = await fetch(server.url('/events/stream'), { headers: headers as Record<string, string> });
    expect(reply.status).toBe(426);
    expect(reply.headers.get('upgrade')).toBe('websocket');
    expect(await reply.json()).toEqual({ detail: expect.stringContaining('text/event-stream') as string });
  });

  test('without a key: 403; other methods: 405; HEAD is none of its', async () => {
    await using server = await StreamServer.start({ reader: logOf(1), apiKeys: ['right'] });
    expect((await fetch(server.url('/events/stream'))).status).toBe(403);
    const headers = { 'x-session-api-key': 'right' };
    expect((await fetch(server.url('/events/stream'), { method: 'POST', headers })).status).toBe(405);
    expect((await fetch(server.url('/events/stream'), { method: 'HEAD', headers })).status).toBe(405);
  });
});

describe('upgrades', () => {
  test.each([
    ['a version of its own', 'Sec-WebSocket-Version: 7\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='],
    ['a key that is none', 'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short'],
    ['no key', 'Sec-WebSocket-Version: 13'],
  ])('a handshake with %s: 400', async (_what, headers) => {
    await using server = await StreamServer.start({ reader: logOf(0) });
    const raw = new RawClient(server.port);
    raw.write(
      `GET /events/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${headers}\r\n\r\n`,
    );
    await raw.closed;
    expect(raw.text).toMatch(/^HTTP\/1\.1 400 /);
    expect(server.streams.counters.subscribers).toBe(0);
  });

  test('a client that offers HTTP/2 with each request is served over HTTP/1.1, with its body, again and again', async () => {
    await using server = await StreamServer.start({ reader: logOf(0) });
    const raw = new RawClient(server.port);
    const offer = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n';
    const body = JSON.stringify({ text: 'ä'.repeat(50_000) });
    for (let i = 1; i <= 3; i += 1) {
      raw.write(
        `POST /echo HTTP/1.1\r\nHost: localhost\r\n${offer}Content-Type: application/json\r\n` +
          `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n`,
      );
      raw.write(body);
      await until(
        'the answer',
        () => raw.text.split('HTTP/1.1 200').length === i + 1 && raw.text.endsWith(`{"got":${body}}`),
      );
    }
    raw.write(`GET /health HTTP/1.1\r\nHost: localhost\r\n${offer}\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n`);
    await until('both answers', () => raw.text.split('{"status":"ok"}').length === 3);
    raw.write(`GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close, Upgrade\r\nUpgrade: h2c\r\n\r\n`);
    await raw.closed;
    expect(raw.text).toMatch(/connection: close\r\n[^]*\{"status":"ok"\}$/i);
  });

  test('a WebSocket for another path gets that path’s answer, and its connection is closed', async () => {
    await using server = await StreamServer.start({ reader: logOf(0) });
    for (const [path, status] of [
      ['/health', 200],
      ['/nowhere', 404],
    ] as const) {
      const error: unknown = await StreamClient.connect(server, '', { path }).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ status });
    }
    await until('they are closed', async () => (await server.connections()) === 0);
  });

  test('after the close an upgrade is refused, and holds nothing up', async () => {
    const server = await StreamServer.start({ reader: logOf(0) });
    const raw = new RawClient(server.port);
    raw.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await until('the answer', () => raw.text.includes('ok'));
    raw.write('GET /events/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgr');
    const closing = server.close();
    raw.write('ade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n');
    await closing;
    await raw.closed;
    expect(server.streams.counters.subscribers).toBe(0);
  });
});

/** A TCP connection, and what came over it. */
class RawClient {
  text = '';
  readonly closed: Promise<void>;
  readonly #socket: Socket;

  constructor(port: number) {
    this.#socket = connect(port, '127.0.0.1');
    this.#socket.setEncoding('utf8');
    this.#socket.on('data', (chunk: string) => (this.text += chunk));
    this.#socket.on('error', () => {});
    this.closed = new Promise((resolve) => this.#socket.once('close', () => resolve()));
  }

  write(text: string): void {
    this.#socket.write(text);
  }
}
