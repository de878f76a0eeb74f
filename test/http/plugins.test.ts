/** Action types that `--plugin` modules add: they are actions like any other, and a bad module costs only itself. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

function plugin(name: string): string {
  return fileURLToPath(new URL(`../fixtures/plugins/${name}.mjs`, import.meta.url));
}

const NAMES = ['throws', 'word-count', 'takes-run', 'never-starts', 'wrong-answer', 'misbehaves', 'missing'];

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start(
    NAMES.flatMap((name) => ['--plugin', plugin(name)]),
    { INIT_PLUGIN_TIMEOUT: '1' },
  );
});
afterAll(() => server[Symbol.asyncDispose]());

describe('an action type of a plugin', () => {
  test('is carried out where the shell is, answered, and recorded with its live output', async () => {
    writeFileSync(join(server.workingDir, 'poem.txt'), 'one two\nthree\n');
    const reply = await server.action({ action: 'word_count', args: { path: 'poem.txt' } });
    expect(reply.body).toMatchObject({ observation: 'word_count', content: '3', extras: { path: 'poem.txt' } });
    const id = reply.body.action_id;
    const { json } = await server.request('GET', `/events?action_id=${id}`);
    expect(json.events.map(({ kind }: { kind: string }) => kind)).toEqual(['action', 'output', 'observation']);
    expect(json.events[0].lane).toBe('word-count:default');
    expect(json.events[1].text).toBe('3 words\n');
  });

  test('is validated by its schema, with the name of the field', async () => {
    const missing = await server.action({ action: 'word_count', args: {} });
    expect([missing.observation, missing.content]).toEqual([
      'error',
      expect.stringContaining('action.args.path: expected a string'),
    ]);
    const extra = await server.action({ action: 'word_count', args: { path: 'poem.txt', newer: 1 } });
    expect(extra.content).toBe('3');
  });

  test('that fails answers with an error, and the next one works', async () => {
    const failed = await server.action({ action: 'word_count', args: { path: 'none.txt' } });
    expect([failed.observation, failed.content]).toEqual(['error', expect.stringContaining('ENOENT')]);
    expect((await server.action({ action: 'word_count', args: { path: 'poem.txt' } })).content).toBe('3');
  });

  test('is named where types are listed', async () => {
    const unknown = await server.action({ action: 'no_such_type', args: {} });
    expect(unknown.content).toMatch(/Available: run, .*word_count/);
    expect((await server.request('GET', '/server_info')).json.capabilities).toContain('word_count');
  });

  test.each(['nothing', 'text', 'throw'])('whose plugin answers with %s is an error', async (how) => {
    expect((await server.action({ action: 'wrong', args: { how } })).observation).toBe('error');
  });

  test('whose plugin does not start is an error when its time is over', async () => {
    const reply = await server.action({ action: 'wait_for_it', args: {} });
    expect([reply.observation, reply.content]).toEqual(['error', expect.stringContaining('longer than 1 seconds')]);
  });
});

test('a plugin that fails is told in /ready, by its path or name, and the server is ready', async () => {
  const ready = async () => (await server.request('GET', '/ready')).json;
  await until('the start to be given up', async () => (await ready()).subsystems['never-starts'] === 'failed');
  const { status, subsystems, reasons } = await ready();
  expect(status).toBe('ready');
  expect(subsystems).toMatchObject({ 'word-count': 'ready', 'wrong-answer': 'ready', bash: 'ready' });
  expect(subsystems[plugin('throws')]).toBe('failed');
  expect(reasons[plugin('throws')]).toContain('this module cannot be evaluated');
  expect(reasons[plugin('takes-run')]).toContain('actions.run: this type is served already');
  expect(reasons[plugin('missing')]).toContain('Cannot find module');
  expect((await server.run('echo works')).content).toBe('works');
});

test('a plugin that throws whenever it is asked costs only itself', async () => {
  const { body } = await server.action({ action: 'misbehave', args: {} });
  expect([body.observation, body.content]).toEqual(['error', expect.stringContaining('laneOf: expected text')]);
  const { status, json } = await server.request('GET', '/ready');
  expect([status, json.subsystems.misbehaves]).toEqual([200, 'failed']);
  expect(json.reasons.misbehaves).toContain('this plugin misbehaves');
  expect((await server.request('GET', '/sessions')).status).toBe(200);
  expect(String((await server.request('GET', '/metrics')).json)).toContain('actiond_sessions ');
  expect((await server.request('DELETE', '/sessions/nobody')).status).toBe(404);
  expect((await server.request('GET', '/actions')).status).toBe(200);
});
