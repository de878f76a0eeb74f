/** Answers that are ready before the request has all come reach the client, whatever it still sends, within limits. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestApp } from '../support/app.ts';
import { RawConnection } from '../support/http.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

const MIB = 1024 * 1024;
/** More than the buffers of both systems hold. */
const LARGE = 32 * MIB;
const KEY = 'the-key-of-this-test';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start(['--max-body-bytes', '1M'], { SESSION_API_KEY: KEY });
});
afterAll(() => server[Symbol.asyncDispose]());

const json = { 'content-type': 'application/json', 'x-session-api-key': KEY };

/** A client that reads nothing before it has sent everything. */
async function sendThenRead(url: string, head: readonly string[], body: readonly Buffer[]): Promise<string> {
  const socket = await new Promise<Socket>((resolve, reject) => {
    const opened = connect(Number(new URL(url).port), '127.0.0.1', () => resolve(opened));
    opened.once('error', reject);
  });
  const failed = new Promise<never>((_resolve, reject) => socket.on('error', reject));
  const write = (bytes: Buffer | string): Promise<void> =>
    Promise.race([failed, new Promise<void>((resolve) => socket.write(bytes, () => resolve()))]);
  try {
    await write(`${['POST /execute_action HTTP/1.1', 'Host: localhost', ...head].join('\r\n')}\r\n\r\n`);
    for (const piece of body) await write(piece);
    socket.end();
    return await Promise.race([failed, text(socket)]);
  } finally {
    socket.destroy();
  }
}

const pieces = Array.from({ length: LARGE / MIB }, () => Buffer.alloc(MIB, ' '));
const chunks = [
  ...pieces.flatMap((piece) => [Buffer.from(`${MIB.toString(16)}\r\n`), piece, Buffer.from('\r\n')]),
  Buffer.from('0\r\n\r\n'),
];
const LENGTH = `Content-Length: ${LARGE}`;
const JSON_TYPE = 'Content-Type: application/json';

describe('a client that reads only after it has sent everything gets', () => {
  test.each([
    { name: '413, with a length', status: 413, head: [JSON_TYPE, LENGTH, `X-Session-API-Key: ${KEY}`], body: pieces },
    {
      name: '413, in chunks',
      status: 413,
      head: [JSON_TYPE, 'Transfer-Encoding: chunked', `X-Session-API-Key: ${KEY}`],
      body: chunks,
    },
    {
      name: '413 on a connection that it wants closed',
      status: 413,
      head: [JSON_TYPE, LENGTH, `X-Session-API-Key: ${KEY}`, 'Connection: close'],
      body: pieces,
    },
    { name: '403 without a key', status: 403, head: [JSON_TYPE, LENGTH, 'Connection: close'], body: pieces },
    {
      name: '403 for a page of another site',
      status: 403,
      head: [LENGTH, 'Origin: https://evil.example'],
      body: pieces,
    },
    {
      name: '422 for a type that is not taken',
      status: 422,
      head: ['Content-Type: text/csv', LENGTH, `X-Session-API-Key: ${KEY}`],
      body: pieces,
    },
    {
      name: '417 for what it expects',
      status: 417,
      head: [LENGTH, 'Expect: bogus', 'Connection: close'],
      body: pieces,
    },
  ])('$name', async ({ status, head, body }) => {
    const answer = await sendThenRead(server.url, head, body);
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))).toMatchObject({ detail: expect.any(String) });
  });
});

test("fetch and Python's client get the 413", async () => {
  const body = Buffer.alloc(LARGE, ' ');
  for (let time = 0; time < 3; time += 1) {
    const reply = await fetch(`${server.url}/execute_action`, { method: 'POST', headers: json, body });
    expect([reply.status, await reply.json()]).toEqual([413, { detail: expect.stringContaining('--max-body-bytes') }]);
  }
  const program = `
import http.client, sys
c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))
c.request('POST', '/execute_action', b' ' * ${LARGE}, {'Content-Type': 'application/json', 'X-Session-API-Key': '${KEY}'})
r = c.getresponse()
print(r.status, r.read().decode())`;
  const { stdout } = await promisify(execFile)('python3', ['-c', program, new URL(server.url).port]);
  expect(stdout).toMatch(/^413 \{"detail":/);
});

test('files that cannot be stored: the answer comes though the body is still on its way', async () => {
  writeFileSync(join(server.workingDir, 'plain'), '');
  const put = (path: string, headers: Readonly<Record<string, string>> = {}) =>
    fetch(`${server.url}/files${path}`, {
      method: 'PUT',
      headers: { 'x-session-api-key': KEY, ...headers },
      body: Buffer.alloc(LARGE),
    });
  expect((await put(join(server.workingDir, 'plain/below'))).status).toBe(409);
  expect((await put(join(server.workingDir, 'plain'), { 'if-none-match': '*' })).status).toBe(412);
  expect((await put(server.workingDir)).status).toBe(409);
  const broken = await fetch(`${server.url}/upload_file?destination=${server.workingDir}`, {
    method: 'POST',
    headers: { 'x-session-api-key': KEY, 'content-type': 'multipart/form-data; boundary=x' },
    body: Buffer.concat([Buffer.from('--x\r\nno form at all'), Buffer.alloc(LARGE)]),
  });
  expect([broken.status, await broken.json()]).toEqual([422, expect.objectContaining({ detail: expect.any(String) })]);
});

test('a connection that may go on serves the next request', async () => {
  using connection = await RawConnection.open(server.url);
  await connection.send(`POST /execute_action HTTP/1.1\r\nhost: localhost\r\ncontent-length: ${MIB}\r\n\r\n`);
  await until('the answer', () => connection.received.includes('Invalid API Key'));
  await connection.send(`${'x'.repeat(MIB)}GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n`);
  await until('the next answer', () => /HTTP\/1\.1 200 .*"ok"/s.test(connection.received));
});

describe('what is read of a body that nobody wants is limited', () => {
  const HEAD = 'POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n';

  test.each([
    { name: 'in time', lingerLimits: { maxBytes: 1024 * MIB, maxMs: 200 }, piece: 'x' },
    { name: 'in bytes', lingerLimits: { maxBytes: 4 * MIB, maxMs: 600_000 }, piece: 'x'.repeat(MIB) },
  ])('$name', async ({ lingerLimits, piece }) => {
    await using app = await TestApp.start({ lingerLimits });
    using connection = await RawConnection.open(app.url);
    await connection.send(`${HEAD}content-length: ${1024 * MIB}\r\n\r\n`);
    await until('the answer', () => connection.received.startsWith('HTTP/1.1 413 '));
    await until('the end', async () => {
      await connection.send(piece).catch(() => undefined);
      return connection.isClosed;
    });
  });
});
