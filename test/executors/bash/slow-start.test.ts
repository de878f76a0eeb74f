/** A shell whose start-up files take their time, and what happens meanwhile. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { isProcessAlive } from '../../../src/sandbox/processes.ts';
import { begin, cancel, ended } from '../../support/actions.ts';
import { TestServer } from '../../support/server.ts';
import { until } from '../../support/wait.ts';

/** What gives a wrong server the time to do what it should not. */
const TEMPTATION_MS = 1000;

let home: string;
let server: TestServer;

beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), 'actiond-home-'));
  const wait = 'echo $$ > ~/part; mv ~/part ~/started; until [ -e ~/go ]; do sleep 0.02; done';
  writeFileSync(join(home, '.bashrc'), `if [ -e ~/slow ]; then ${wait}; fi\n`);
  server = await TestServer.start([], { HOME: home });
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
  rmSync(home, { recursive: true, force: true });
});

const mark = (name: string): void => writeFileSync(join(home, name), '');
const started = (): Promise<void> => until('the shell starts', () => existsSync(join(home, 'started')));

test('an action that is cancelled meanwhile is answered at once, and its command is never run', async () => {
  mark('slow');
  const id = await begin(server, 'touch ran', { session: 'slow' });
  await started();
  const over = await cancel(server, id);
  expect(over).toMatchObject({
    status: 'cancelled',
    observation: { content: expect.stringMatching(/^Not run: the shell was still starting/) },
  });
  mark('go');
  expect((await server.run('echo next', { session: 'slow' })).content).toBe('next');
  expect(existsSync(join(server.workingDir, 'ran'))).toBe(false);
});

test('an action whose client no longer waits is answered, and its command is never run', async () => {
  mark('slow');
  const reply = await server.run('touch ran', { session: 'slow', timeout: 0.1 });
  expect([reply.observation, reply.content]).toEqual(['error', expect.stringMatching(/^Not run: the shell was still/)]);
  mark('go');
  expect((await server.run('echo next', { session: 'slow' })).content).toBe('next');
  expect(existsSync(join(server.workingDir, 'ran'))).toBe(false);
});

test('a session that is closed meanwhile leaves no shell', async () => {
  const before = (await server.run('echo $$', { session: 'slow' })).content;
  mark('slow');
  const id = await begin(server, 'exit 3', { session: 'slow' });
  await started();
  const closed = server.request('DELETE', '/sessions/bash:slow');
  await Promise.race([closed, delay(TEMPTATION_MS)]);
  mark('go');
  expect((await closed).status).toBe(200);
  expect((await ended(server, id)).observation?.extras.metadata?.exit_code).toBe(3);
  const pid = readFileSync(join(home, 'started'), 'utf8').trim();
  expect(pid).not.toBe(before);
  expect(isProcessAlive(Number(pid))).toBe(false);
});
