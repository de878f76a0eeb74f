/** What the daemon promises whatever runs in it, seen from outside. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { Build, Daemon, run } from '../support/built-server.ts';
import { until } from '../support/wait.ts';

let build: Build;
beforeAll(() => {
  build = new Build();
});
afterAll(() => build[Symbol.dispose]());

function start(name: string, ...flags: readonly string[]): Daemon {
  const directory = build.directory(name);
  return new Daemon(build, ['0', '--state-dir', directory, '--working-dir', directory, ...flags], {
    env: { HOME: directory },
  });
}

test('live output arrives before the command ends', async () => {
  using daemon = start('first-byte');
  const url = await daemon.url();
  const socket = new WebSocket(`${url.replace('http', 'ws')}/events/stream`);
  let outputs = 0;
  let endings = 0;
  socket.on('message', (data: Buffer) => {
    const event = JSON.parse(data.toString()) as { kind: string; text?: string };
    if (event.kind === 'output' && event.text?.includes('early')) {
      outputs += 1;
      expect(endings).toBe(outputs - 1);
    }
    if (event.kind === 'observation') endings += 1;
  });
  await new Promise((resolve) => socket.once('open', resolve));
  for (let round = 0; round < 10; round += 1) await run(url, 'echo early; read -rt 0.15 <> <(:)');
  await until('all are over', () => endings === 10);
  socket.terminate();
  expect(outputs).toBe(10);
});

test('a second server on the same state directory ends with a plain message, and the first goes on', async () => {
  using first = start('shared');
  const url = await first.url();
  using second = start('shared');
  expect((await second.exited).code).toBe(1);
  expect(second.stderr).toBe(
    `actiond: The state directory ${build.directory('shared')} is in use by a running server (process ${first.pid}). Stop it, or give this one a directory of its own.\n`,
  );
  expect((await run(url, 'echo on')).content).toBe('on');
  first.signal('SIGKILL');
  await first.exited;
  using third = start('shared');
  expect((await run(await third.url(), 'echo third')).content).toBe('third');
});

test('when memory runs out the kernel takes what commands started first', async () => {
  using daemon = start('oom');
  const url = await daemon.url();
  const score = (file: string): number => Number(readFileSync(file, 'utf8'));
  const own = score(`/proc/${daemon.pid}/oom_score_adj`);
  const { content } = await run(url, 'cat /proc/$$/oom_score_adj /proc/self/oom_score_adj');
  for (const child of content.split('\n').map(Number)) expect(child).toBeGreaterThan(own);
});

test('there are never more connections than --max-connections: a new one takes the place of the one idle longest', async () => {
  using daemon = start('connections', '--max-connections', '3');
  const port = Number(new URL(await daemon.url()).port);
  const open = async (): Promise<Socket> => {
    const socket = connect(port, '127.0.0.1');
    socket.write('GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n');
    await once(socket, 'data');
    return socket;
  };
  const first = [await open(), await open(), await open()];
  const closed = first.map((socket) => once(socket, 'close'));
  const more = [await open(), await open()];
  await Promise.all(closed.slice(0, 2));
  expect([...first, ...more].map((socket) => socket.destroyed)).toEqual([true, true, false, false, false]);
  for (const socket of [...first, ...more]) socket.destroy();
});
