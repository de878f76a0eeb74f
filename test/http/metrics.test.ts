import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { begin, cancel, post, runOf } from '../support/actions.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

/** Family or sample with labels → value. */
async function samplesOf(server: TestServer): Promise<Map<string, number>> {
  const { status, headers, json } = await server.request('GET', '/metrics');
  expect(status).toBe(200);
  expect(headers.get('content-type')).toMatch(/^text\/plain; version=/);
  const samples = new Map<string, number>();
  for (const line of String(json).split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const [, name = '', value = ''] = /^(\S+(?:\{.*\})?) (\S+)$/.exec(line) ?? [];
    expect(name, line).not.toBe('');
    samples.set(name, Number(value));
  }
  return samples;
}

const FAMILIES = [
  ['actiond_actions_total', 'counter'],
  ['actiond_action_queue_seconds', 'histogram'],
  ['actiond_action_duration_seconds', 'histogram'],
  ['actiond_output_bytes_total', 'counter'],
  ['actiond_unknown_args_total', 'counter'],
  ['actiond_actions_in_flight', 'gauge'],
  ['actiond_actions_running', 'gauge'],
  ['actiond_sessions', 'gauge'],
  ['actiond_event_log_bytes', 'gauge'],
  ['actiond_event_log_segments', 'gauge'],
  ['actiond_event_log_appended', 'gauge'],
  ['actiond_event_log_syncs', 'gauge'],
  ['actiond_event_log_sync_seconds', 'gauge'],
  ['actiond_event_log_writable', 'gauge'],
  ['actiond_subscribers', 'gauge'],
  ['actiond_dropped_readers', 'gauge'],
  ['actiond_resident_memory_bytes', 'gauge'],
  ['actiond_event_loop_delay_seconds', 'gauge'],
  ['actiond_event_loop_delay_max_seconds', 'gauge'],
] as const;

test('every family is there from the start, with its kind and its help', async () => {
  await using server = await TestServer.start();
  const text = String((await server.request('GET', '/metrics')).json);
  for (const [name, kind] of FAMILIES) {
    expect(text).toMatch(new RegExp(`^# HELP ${name} \\S`, 'm'));
    expect(text).toContain(`# TYPE ${name} ${kind}\n`);
  }
  const samples = await samplesOf(server);
  for (const [name, value] of samples) expect(value, name).toBeGreaterThanOrEqual(0);
  expect(samples.get('actiond_event_log_writable')).toBe(1);
  expect(samples.get('actiond_resident_memory_bytes')).toBeGreaterThan(10_000_000);
});

test('actions by type and outcome, with their times', async () => {
  await using server = await TestServer.start(['--no-enable-browser']);
  await post(server, runOf('echo one'));
  await post(server, runOf('false'));
  await post(server, { action: 'read', args: { path: '/etc/hostname' } });
  await post(server, { action: 'read', args: { path: '/nowhere' } });
  await post(server, { action: 'browse', args: { url: 'http://localhost' } });
  const id = await begin(server, 'sleep 100', { session: 'a' });
  await cancel(server, id);
  const samples = await samplesOf(server);
  expect(samples.get('actiond_actions_total{type="run",outcome="ok"}')).toBe(2);
  expect(samples.get('actiond_actions_total{type="read",outcome="ok"}')).toBe(1);
  expect(samples.get('actiond_actions_total{type="read",outcome="error"}')).toBe(1);
  expect(samples.get('actiond_actions_total{type="browse",outcome="error"}')).toBe(1);
  expect(samples.get('actiond_actions_total{type="run",outcome="cancelled"}')).toBe(1);
  expect(samples.get('actiond_action_duration_seconds_count{type="run"}')).toBe(3);
  expect(samples.get('actiond_action_queue_seconds_count{type="read"}')).toBe(2);
});

test('what is so at this moment', async () => {
  await using server = await TestServer.start();
  const on = join(server.workingDir, 'on');
  const running = await begin(server, `touch ${on}; sleep 100`, { session: 'a' });
  await begin(server, 'echo waits', { session: 'a' });
  await until('it runs', () => existsSync(on));
  const before = await samplesOf(server);
  expect(before.get('actiond_actions_running')).toBe(1);
  expect(before.get('actiond_actions_in_flight')).toBe(2);
  expect(before.get('actiond_sessions')).toBe(2);
  expect(before.get('actiond_event_log_bytes')).toBeGreaterThan(0);
  expect(before.get('actiond_event_log_segments')).toBe(1);
  await cancel(server, running);
  await until('both are over', async () => (await samplesOf(server)).get('actiond_actions_in_flight') === 0);
  const after = await samplesOf(server);
  expect(after.get('actiond_event_log_appended')).toBeGreaterThan(before.get('actiond_event_log_appended') ?? Infinity);
  expect(after.get('actiond_event_log_syncs')).toBeGreaterThan(before.get('actiond_event_log_syncs') ?? Infinity);
});

test('output of commands is counted', async () => {
  await using server = await TestServer.start();
  await post(server, runOf('printf %1000s x'));
  expect((await samplesOf(server)).get('actiond_output_bytes_total')).toBeGreaterThanOrEqual(1000);
});

test('needs the key where there is one', async () => {
  await using server = await TestServer.start([], { SESSION_API_KEY: 'metrics-key' });
  expect((await server.request('GET', '/metrics')).status).toBe(403);
  expect((await server.request('GET', '/metrics', undefined, { 'x-session-api-key': 'metrics-key' })).status).toBe(200);
});

test('arguments of newer clients are counted by name, and made-up names without end are one', async () => {
  await using server = await TestServer.start();
  const send = (args: object) => server.action({ action: 'run', args: { command: 'true', blocking: true, ...args } });
  await send({ newer: 1, newest: 2 });
  await send({ newer: 1 });
  await send(Object.fromEntries(Array.from({ length: 1500 }, (_, index) => [`made_up_${index}`, 1])));
  const samples = await samplesOf(server);
  expect(samples.get('actiond_unknown_args_total{name="run.newer"}')).toBe(2);
  expect(samples.get('actiond_unknown_args_total{name="run.newest"}')).toBe(1);
  expect(samples.get('actiond_unknown_args_total{name="other"}')).toBe(1500 - 998);
});
