/** Modules run inside the daemon: what one leaves behind must not end it. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Build, Daemon, run } from '../support/built-server.ts';
import { until } from '../support/wait.ts';

const fixture = (name: string): string => join(import.meta.dirname, '../fixtures/plugins', name);
const CARELESS = fixture('careless.mjs');

async function act(url: string, action: string, args: object = {}, timeout?: number): Promise<string> {
  const reply = await fetch(`${url}/execute_action`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ action: { action, args, timeout } }),
  });
  return ((await reply.json()) as { content: string }).content;
}

let build: Build;
beforeAll(() => {
  build = new Build();
});
afterAll(() => build[Symbol.dispose]());

test('a promise or a timer of a module that fails is told in the log, and the server goes on', async () => {
  const directory = build.directory('state');
  using daemon = new Daemon(build, ['0', '--state-dir', directory, '--working-dir', directory, '--plugin', CARELESS]);
  const url = await daemon.url();
  const told = (text: string): boolean =>
    daemon.stdout.split('\n').some((line) => line.includes('the server goes on') && line.includes(text));
  await until('the fault of the import to be told', () => told('at import'));
  for (const [fault, text] of Object.entries({ rejection: 'nobody waits for', timer: 'a timer', text: 'only text' })) {
    expect(await act(url, 'careless', { fault })).toBe('answered');
    await until(`the ${fault} to be told`, () => told(text));
    expect((await run(url, 'echo lives')).content).toBe('lives');
  }
  expect(daemon.stdout).toContain(`"plugin":"${CARELESS}"`);
});

test('its timeout and a cancellation end an action, whether the module minds them or not, and the next one has its turn', async () => {
  const directory = build.directory('deaf');
  const flags = ['0', '--state-dir', directory, '--working-dir', directory, '--plugin', fixture('deaf.mjs')];
  using daemon = new Daemon(build, flags);
  const url = await daemon.url();
  expect(await act(url, 'hears', {}, 0.2)).toBe('told to end');
  expect(await act(url, 'deaf', {}, 0.2)).toMatch(/^The plugin deaf did not end the action within 3 s of being asked/);
  const endless = act(url, 'deaf');
  const running = async (): Promise<string | undefined> => {
    const reply = await fetch(`${url}/actions?status=running`);
    return ((await reply.json()) as { actions: { action_id: string }[] }).actions[0]?.action_id;
  };
  await until('it to run', async () => (await running()) !== undefined);
  await fetch(`${url}/actions/${await running()}/cancel`, { method: 'POST' });
  expect(await endless).toMatch(/did not end the action/);
  expect(await act(url, 'deaf', {}, 0.2)).toMatch(/did not end the action/);
});
