/** A sandbox without Jupyter or Chromium: `/ready` says so before anybody asks for a cell or a page, and is ready all the same. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start(['--jupyter-python', '/no/such/python', '--browser-path', '/no/such/chromium']);
});
afterAll(() => server[Symbol.asyncDispose]());

const ready = async () => (await server.request('GET', '/ready')).json;

test('both are told with what to do', async () => {
  await until('both to be looked for', async () => {
    const { subsystems } = await ready();
    return subsystems.jupyter === 'failed' && subsystems.browser === 'failed';
  });
  const { status, reasons } = await ready();
  expect(status).toBe('ready');
  expect(reasons.jupyter).toMatch(/no jupyter_kernel_gateway with ipykernel\. Install it with/);
  expect(reasons.browser).toBe('--browser-path /no/such/chromium is no program that can be run.');
});

test('an interpreter without Jupyter is not enough', async () => {
  await using other = await TestServer.start(['--jupyter-python', '/bin/false']);
  await until(
    'it to be tried',
    async () => (await other.request('GET', '/ready')).json.subsystems.jupyter === 'failed',
  );
  expect((await other.request('GET', '/ready')).json.reasons.jupyter).toContain(
    '/bin/false has no jupyter_kernel_gateway',
  );
});

test('their actions are errors, and others work', async () => {
  const cell = await server.action({ action: 'run_ipython', args: { code: '1' } });
  expect([cell.observation, cell.content]).toEqual(['error', expect.stringContaining('Jupyter could not be started')]);
  const page = await server.action({ action: 'browse', args: { url: 'http://localhost:1' } });
  expect([page.observation, page.content]).toEqual(['error', expect.stringContaining('/no/such/chromium')]);
  expect((await server.run('echo works')).content).toBe('works');
});
