/** Modules run inside the daemon: what one leaves behind must not end it. */
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Build, Daemon, run } from '../support/built-server.ts';
import { until } from '../support/wait.ts';

const CARELESS = join(import.meta.dirname, '../fixtures/plugins/careless.mjs');

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
    const reply = await fetch(`${url}/execute_action`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ action: { action: 'careless', args: { fault } } }),
    });
    expect(((await reply.json()) as { content: string }).content).toBe('answered');
    await until(`the ${fault} to be told`, () => told(text));
    expect((await run(url, 'echo lives')).content).toBe('lives');
  }
  expect(daemon.stdout).toContain(`"plugin":"${CARELESS}"`);
});
