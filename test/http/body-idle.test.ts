/** A body may take any time while it comes, and is given up when it stands still. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RawConnection } from '../support/http.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

const IDLE_SECONDS = 2;

let server: TestServer;

beforeAll(async () => {
  server = await TestServer.start(['--body-idle-seconds', String(IDLE_SECONDS)]);
});

afterAll(() => server[Symbol.asyncDispose]());

const put = (name: string, length: number): string =>
  `PUT /files${join(server.workingDir, name)} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n\r\n`;

test('one that stands still is answered with 408, and leaves nothing', async () => {
  using connection = await RawConnection.open(server.url);
  await connection.send(`${put('still', 100)}half`);
  await until('the end of the connection', () => connection.isClosed);
  expect(connection.received).toContain('408 Request Timeout');
  await until('no file', () => readdirSync(server.workingDir).every((name) => name === '.downloads'));
});

test('also after an answer that came before the end of its body, to a client that keeps its side open', async () => {
  const key = 'the-key-of-this-test';
  await using locked = await TestServer.start(['--body-idle-seconds', String(IDLE_SECONDS)], { SESSION_API_KEY: key });
  const socket = connect({ port: Number(new URL(locked.url).port), host: '127.0.0.1', allowHalfOpen: true });
  try {
    let received = '';
    socket.setEncoding('utf8').on('data', (text: string) => (received += text));
    socket.write('POST /execute_action HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n');
    await until('the early answer', () => received.includes('Invalid API Key'));
    const file = join(locked.workingDir, 'later');
    const request = `PUT /files${file} HTTP/1.1\r\nHost: localhost\r\nX-Session-API-Key: ${key}\r\nContent-Length: 100\r\n\r\n`;
    socket.write(`rest${request}half`);
    await until('the late one', () => received.includes('408 Request Timeout'));
    await until('no file', () => readdirSync(locked.workingDir).every((name) => name === '.downloads'));
  } finally {
    socket.destroy();
  }
});

test('an action that never comes whole is answered with 408', async () => {
  using connection = await RawConnection.open(server.url);
  await connection.send(
    'POST /execute_action HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"act\r\n',
  );
  await until('the end of the connection', () => connection.isClosed);
  expect(connection.received).toContain('408 Request Timeout');
});

test('one that comes a byte at a time for several times as long is stored', async () => {
  using connection = await RawConnection.open(server.url);
  const text = 'slow but sure';
  const duration = IDLE_SECONDS * 3000;
  const end = performance.now() + duration;
  await connection.send(put('slow', text.length));
  for (const [index, byte] of Array.from(text).entries()) {
    const due = end - ((text.length - index) * duration) / text.length;
    await until('the next byte is due', () => performance.now() >= due);
    await connection.send(byte);
  }
  await until('the answer', () => connection.received.includes('201 Created'));
  expect(readFileSync(join(server.workingDir, 'slow'), 'utf8')).toBe(text);
});

test('a long action is no idle body', async () => {
  const reply = await server.run(`sleep ${IDLE_SECONDS * 3}; echo done`);
  expect(reply.content).toBe('done');
  expect(existsSync(server.workingDir)).toBe(true);
});
