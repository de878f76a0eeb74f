/** `--plugins vscode` (V0 §1.6, §2.10): VS Code beside the daemon. A tiny program stands where openvscode-server would. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { basePathOf } from '../../executors/vscode/options.ts';
import { freePort } from '../support/port.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

const BIN = fileURLToPath(new URL('../fixtures/bin', import.meta.url));

let folder: string;
let port: number;
let env: Record<string, string>;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'actiond-vscode-'));
  port = await freePort();
  env = {
    PATH: `${BIN}:${process.env['PATH']}`,
    VSCODE_PORT: `${port}`,
    WORKSPACE_MOUNT_PATH_IN_SANDBOX: folder,
    WORKSPACE_BASE: folder,
    RUNTIME_USERNAME: 'nobody',
  };
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const start = (more: Record<string, string> = {}, flags = ['--plugins', 'vscode']) =>
  TestServer.start(flags, { ...env, ...more });
const tokenOf = async (server: TestServer) =>
  (await server.request('GET', '/vscode/connection_token')).json.token as string | null;
const stateOf = async (server: TestServer) => {
  const { status, subsystems, reasons } = (await server.request('GET', '/ready')).json;
  return { status, state: subsystems.vscode, reason: reasons?.vscode };
};
const ask = async (token: string | null, method = 'GET') => fetch(`http://127.0.0.1:${port}/?tkn=${token}`, { method });

test('starts with a token that the endpoint tells and no argument shows', async () => {
  await using server = await start();
  const token = await tokenOf(server);
  expect(token).toMatch(/^[\da-f-]{36}$/);
  const reply = await ask(token);
  expect(reply.status).toBe(200);
  const { arguments: words, directory } = (await reply.json()) as { arguments: string[]; directory: string };
  expect(directory).toBe(folder);
  expect(words.join(' ')).toContain(`--host 0.0.0.0 --port ${port}`);
  expect(words.join(' ')).not.toContain(token);
  expect((await ask('wrong')).status).toBe(403);
  expect(await stateOf(server)).toEqual({ status: 'ready', state: 'ready', reason: undefined });
});

test('settings are written once, and what somebody wrote stays', async () => {
  const file = join(folder, '.vscode/settings.json');
  {
    await using server = await start();
    await tokenOf(server);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({ 'workbench.startupEditor': 'none' });
  }
  mkdirSync(join(folder, '.vscode'), { recursive: true });
  writeFileSync(file, '{"mine": true}');
  await using again = await start();
  await tokenOf(again);
  expect(readFileSync(file, 'utf8')).toBe('{"mine": true}');
});

test('a busy port leaves no token, and says so', async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(port, '0.0.0.0', resolve));
  try {
    await using server = await start();
    expect(await tokenOf(server)).toBeNull();
    expect(await stateOf(server)).toMatchObject({
      status: 'ready',
      state: 'failed',
      reason: expect.stringContaining('is in use'),
    });
  } finally {
    other.close();
  }
});

test('one that ends at once is told without waiting, and the daemon is ready', async () => {
  await using server = await start({ VSCODE_TEST_EXIT: '3' });
  expect(await tokenOf(server)).toBeNull();
  expect(await stateOf(server)).toMatchObject({
    status: 'ready',
    state: 'failed',
    reason: expect.stringContaining('exit code 3'),
  });
});

test('one that dies is started again, with the same token', async () => {
  await using server = await start();
  const token = await tokenOf(server);
  await ask(token, 'POST').catch(() => undefined);
  await until('it to be down', async () => (await stateOf(server)).state !== 'ready');
  await until('it to be back', async () => (await stateOf(server)).state === 'ready');
  expect(await tokenOf(server)).toBe(token);
  expect((await ask(token)).status).toBe(200);
});

test('it ends with the daemon', async () => {
  const server = await start();
  const token = await tokenOf(server);
  await server[Symbol.asyncDispose]();
  await expect(ask(token)).rejects.toThrow('fetch failed');
});

test.each([
  ['without a port', { VSCODE_PORT: '' }, 'VSCODE_PORT is not set'],
  ['without the program', { PATH: '/usr/bin:/bin' }, 'not in this image'],
])('%s it is off, with a reason', async (_what, more, reason) => {
  await using server = await start(more);
  expect(await tokenOf(server)).toBeNull();
  expect(await stateOf(server)).toMatchObject({ state: 'off', reason: expect.stringContaining(reason) });
});

test('without the plugin there is no token', async () => {
  await using server = await start({}, []);
  expect(await tokenOf(server)).toBeNull();
});

test('the base path is the given one, else that of the public address', () => {
  expect(basePathOf('/given', undefined, undefined)).toBe('/given');
  expect(basePathOf(undefined, 'https://host/abc', 'abc')).toBe('/abc/vscode');
  expect(basePathOf(undefined, 'https://host/abcdef', 'abc')).toBeUndefined();
  expect(basePathOf(undefined, 'https://abc.host/', 'abc')).toBeUndefined();
});
