/** `GET /files/watch` over a WebSocket and as Server-Sent Events. */
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { WatchEvent } from '../../src/protocol/http.ts';
import { rawRequest } from '../support/http.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

let server: TestServer;
let dir: string;
let count = 0;

beforeAll(async () => {
  server = await TestServer.start([], { SESSION_API_KEY: 'right' });
});

afterAll(() => server[Symbol.asyncDispose]());

beforeEach(() => {
  count += 1;
  dir = join(server.workingDir, `case-${count}`);
  mkdirSync(dir);
});

afterEach(() => rmSync(dir, { recursive: true, force: true }));

interface Watcher extends Disposable {
  readonly events: readonly WatchEvent[];
  readonly isClosed: boolean;
  pause(): void;
  resume(): void;
}

const address = (path: string, key = 'right'): string =>
  `/files/watch?path=${encodeURIComponent(path)}&session_api_key=${key}`;

async function overSocket(path: string): Promise<Watcher> {
  const events: WatchEvent[] = [];
  const socket = new WebSocket(server.url.replace('http', 'ws') + address(path));
  let isClosed = false;
  socket.on('message', (data) => events.push(JSON.parse((data as Buffer).toString()) as WatchEvent));
  socket.on('close', () => (isClosed = true));
  await until('ready', () => events.some(({ kind }) => kind === 'ready'));
  return watcherOf(socket, events, () => isClosed);
}

function watcherOf(socket: WebSocket | Socket, events: readonly WatchEvent[], isClosed: () => boolean): Watcher {
  return {
    events,
    get isClosed() {
      return isClosed();
    },
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    [Symbol.dispose]: () => void (socket instanceof WebSocket ? socket.terminate() : socket.destroy()),
  };
}

async function overStream(path: string): Promise<Watcher> {
  const events: WatchEvent[] = [];
  const socket: Socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  let isClosed = false;
  let rest = '';
  socket.setEncoding('utf8').on('data', (text) => {
    const lines = (rest + String(text)).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines)
      if (line.startsWith('data: ')) events.push(JSON.parse(line.slice('data: '.length)) as WatchEvent);
  });
  socket.on('close', () => (isClosed = true)).on('error', () => {});
  // HTTP/1.0, whose answers have no chunks.
  socket.write(`GET ${address(path)} HTTP/1.0\r\nHost: localhost\r\n\r\n`);
  await until('ready', () => events.some(({ kind }) => kind === 'ready'));
  return watcherOf(socket, events, () => isClosed);
}

const added = ({ events }: Watcher): number => events.filter(({ kind }) => kind === 'add').length;

const ways = [
  ['a WebSocket', overSocket],
  ['Server-Sent Events', overStream],
] as const;

describe.each(ways)('%s', (_name, open) => {
  test('tells what happens, from ready on', async () => {
    writeFileSync(join(dir, 'before'), '');
    symlinkSync('before', join(dir, 'link'));
    mkdirSync(join(dir, 'deep'));
    symlinkSync('none', join(dir, 'deep/link'));
    using watcher = await open(dir);
    expect(watcher.events).toEqual([{ kind: 'ready' }]);
    const path = join(dir, 'ünï "q"\n.txt');
    writeFileSync(path, 'a');
    await until('add', () => watcher.events.length > 1);
    expect(watcher.events[1]).toEqual({ kind: 'add', path });
    rmSync(path);
    await until('unlink', () => watcher.events.some((event) => event.kind === 'unlink' && event.path === path));
    mkdirSync(join(dir, 'sub'));
    await until('addDir', () => watcher.events.some(({ kind }) => kind === 'addDir'));
  });

  test('a client that does not read gets resync in place of what it missed, and then goes on', async () => {
    // Control characters take six bytes each in JSON: few files fill every buffer on the way.
    const deep = join(dir, ...Array.from({ length: 12 }, () => '\u0001'.repeat(250)));
    mkdirSync(deep, { recursive: true });
    const [batches, size] = [50, 20];
    using slow = await open(dir);
    using witness = await open(dir);
    slow.pause();
    // No more at once than the other one reads in time.
    for (let batch = 1; batch <= batches; batch += 1) {
      const place = join(deep, String(batch));
      mkdirSync(place);
      for (let index = 0; index < size; index += 1) writeFileSync(join(place, String(index)), '');
      await until('the other one sees the batch', () => added(witness) === batch * size);
    }
    expect(slow.events).toEqual([{ kind: 'ready' }]);
    slow.resume();
    await until('resync', () => slow.events.some(({ kind }) => kind === 'resync'));
    expect(added(slow)).toBeLessThan(batches * size);
    expect(slow.events.find(({ kind }) => kind === 'resync')?.reason).toContain('look again');
    expect(witness.events.some(({ kind }) => kind === 'resync')).toBe(false);
    writeFileSync(join(dir, 'after'), '');
    await until('what comes then', () => slow.events.at(-1)?.path === join(dir, 'after'));
  });
});

test('what is wrong is said in HTTP, before there is a WebSocket', async () => {
  const upgrade = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
  };
  for (const headers of [{}, upgrade]) {
    expect((await rawRequest(server.url, { path: address('/no/such'), headers })).status).toBe(404);
    expect((await rawRequest(server.url, { path: address(dir, 'wrong'), headers })).status).toBe(403);
    const relative = await rawRequest(server.url, { path: address('src'), headers });
    expect([relative.status, relative.text]).toEqual([
      422,
      expect.stringContaining('query.path: expected an absolute'),
    ]);
  }
});

test('there is a limit of watches, and a closed one makes room', async () => {
  const watchers: Watcher[] = [];
  for (let index = 0; index < 64; index += 1) watchers.push(await overStream(dir));
  expect((await rawRequest(server.url, { path: address(dir) })).status).toBe(429);
  for (const watcher of watchers) watcher[Symbol.dispose]();
  await until('room', async () => {
    const { status } = await rawRequest(server.url, { path: address('/no/such') });
    return status === 404;
  });
  using reopened = await overSocket(dir);
  expect(reopened.isClosed).toBe(false);
});

test('open watches do not hold up the end of the server', async () => {
  const other = await TestServer.start();
  const socket = new WebSocket(`${other.url.replace('http', 'ws')}/files/watch?path=${other.workingDir}`);
  const closed = new Promise<number>((resolve) => socket.once('close', resolve));
  await new Promise((resolve) => socket.once('message', resolve));
  const stream = await fetch(`${other.url}/files/watch?path=${other.workingDir}`);
  await Promise.all([other[Symbol.asyncDispose](), stream.text()]);
  expect(await closed).toBe(1001);
});
