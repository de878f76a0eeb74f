/** Clients that do nothing, or next to nothing, keep nobody out. */
import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { TestApp } from '../support/app.ts';
import { RawConnection, rawRequest } from '../support/http.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

const LIMIT = 8;
const HEAD = 'GET /health HTTP/1.1\r\nhost: localhost\r\n';

const open = (url: string, count: number): Promise<RawConnection[]> =>
  Promise.all(Array.from({ length: count }, () => RawConnection.open(url)));

function dispose(connections: readonly RawConnection[]): void {
  for (const connection of connections) connection[Symbol.dispose]();
}

const openCount = (connections: readonly RawConnection[]): number =>
  connections.filter(({ isClosed }) => !isClosed).length;

describe('--max-connections', () => {
  test.each([
    { name: 'silent', text: '' },
    { name: 'with half a header', text: `${HEAD}x: ` },
    { name: 'kept alive', text: `${HEAD}\r\n` },
    { name: 'with half a request line', text: 'POST /execute_act' },
  ])('connections $name make room, the oldest first', async ({ text }) => {
    await using server = await TestServer.start(['--max-connections', String(LIMIT)]);
    const idle: RawConnection[] = [];
    try {
      for (let count = 0; count < 3 * LIMIT; count += 1) {
        const connection = await RawConnection.open(server.url);
        idle.push(connection);
        await connection.send(text).catch(() => undefined);
        if (text.endsWith('\r\n\r\n')) await until('its answer', () => connection.received.includes('"ok"'));
      }
      await until('the older to be closed', () => openCount(idle) <= LIMIT);
      expect(idle.map(({ isClosed }) => isClosed).lastIndexOf(true)).toBe(2 * LIMIT - 1);
      expect((await server.request('GET', '/alive')).status).toBe(200);
      expect((await server.run('echo served')).content).toBe('served');
    } finally {
      dispose(idle);
    }
  });

  test('those that never sent a request go before those that are kept alive', async () => {
    await using server = await TestServer.start(['--max-connections', String(LIMIT)]);
    using kept = await RawConnection.open(server.url);
    await kept.send(`${HEAD}\r\n`);
    await until('its answer', () => kept.received.includes('"ok"'));
    const silent = await open(server.url, 3 * LIMIT);
    try {
      await until('the older to be closed', () => openCount(silent) < LIMIT);
      expect(kept.isClosed).toBe(false);
      await kept.send(`${HEAD}\r\n`);
      await until('another answer', () => kept.received.split('"ok"').length === 3);
    } finally {
      dispose(silent);
    }
  });

  test('requests at work and streams stay; when there is nothing else a newcomer is turned away', async () => {
    await using server = await TestServer.start(['--max-connections', '3']);
    const stream = new WebSocket(`${server.url.replace('http', 'ws')}/events/stream`);
    let isStreamOver = false;
    stream.on('close', () => (isStreamOver = true));
    await once(stream, 'message');
    using sse = await RawConnection.open(server.url);
    await sse.send('GET /events/stream HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n');
    await until('the stream', () => sse.received.includes('hello'));
    using working = await RawConnection.open(server.url);
    const body = JSON.stringify({
      action: { action: 'run', args: { command: 'until [ -e go ]; do sleep 0.02; done; echo done', blocking: true } },
    });
    await working.send(
      `POST /execute_action HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await until('the action in the stream', () => sse.received.includes('"kind":"action"'));
    const turnedAway = await open(server.url, 2 * LIMIT);
    try {
      await until('them to be closed', () => openCount(turnedAway) === 0);
    } finally {
      dispose(turnedAway);
    }
    expect([isStreamOver, sse.isClosed, working.isClosed]).toEqual([false, false, false]);
    stream.close();
    await until('room again', async () => {
      const wanted = { method: 'PUT', path: `/files${server.workingDir}/go` };
      const reply = await rawRequest(server.url, wanted).catch(() => undefined);
      return reply?.status === 201;
    });
    await until('the answer of the action', () => working.received.includes('"content":"done"'));
  });
});

test('bodies that hardly come make room, once they had their time; one that comes does not', async () => {
  await using app = await TestApp.start({ maxConnections: LIMIT, headersLimitMs: 300, maxBodyBytes: 2 ** 30 });
  const head = `POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${2 ** 29}\r\nexpect: 100-continue\r\n\r\n`;
  const slow = await open(app.url, LIMIT - 1);
  using fast = await RawConnection.open(app.url);
  try {
    for (const connection of [fast, ...slow]) {
      await connection.send(head);
      await until('it to be taken', () => connection.received.includes('100 Continue'));
    }
    // Until then newcomers are turned away.
    await until('room', async () => {
      await fast.send(' '.repeat(100_000));
      const reply = await rawRequest(app.url, { path: '/health' }).catch(() => undefined);
      return reply?.status === 200;
    });
    expect([fast.isClosed, openCount(slow)]).toEqual([false, LIMIT - 2]);
  } finally {
    dispose(slow);
  }
});

describe('a request whose header does not come', () => {
  test.each(['', HEAD, 'G'])('%j: the connection is closed after the limit, with an answer', async (text) => {
    await using app = await TestApp.start({ headersLimitMs: 200 });
    using connection = await RawConnection.open(app.url);
    await connection.send(text);
    await until('the end', () => connection.isClosed);
    expect(connection.received).toMatch(/^HTTP\/1\.1 408 .*\{"detail":"[^"]+"\}$/s);
  });

  test('nor one that sends a byte now and then', async () => {
    await using app = await TestApp.start({ headersLimitMs: 200 });
    using connection = await RawConnection.open(app.url);
    await connection.send(`${HEAD}x: `);
    await until('the end', async () => {
      await connection.send('x').catch(() => undefined);
      return connection.isClosed;
    });
  });

  test('the limit of a server as it is shipped is seconds', async () => {
    await using server = await TestServer.start();
    using half = await RawConnection.open(server.url);
    await half.send(HEAD);
    await until('the end', () => half.isClosed);
  });
});
