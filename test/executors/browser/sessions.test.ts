/** Sessions, the browsers they are in, and that nothing of them is left. */
import { spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { findAccount } from '../../../src/sandbox/account.ts';
import { act, browse, needsChromium, open, Site } from '../../support/browser.ts';
import { Build, Daemon } from '../../support/built-server.ts';
import { childrenOf, processesWith } from '../../support/processes.ts';
import { TestServer } from '../../support/server.ts';
import { until } from '../../support/wait.ts';

const PAGE = 'data:text/html,<p>hello</p>';

interface Session {
  readonly lane: string;
  readonly kind: string;
  readonly pid: number;
}

async function sessionsOf(server: TestServer): Promise<Session[]> {
  const { json } = await server.request('GET', '/sessions');
  return (json.sessions as Session[]).filter(({ kind }) => kind === 'browser');
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ');
}

async function openAll(server: TestServer, ...names: readonly string[]): Promise<void> {
  const found = await Promise.all(names.map((session) => browse(server, PAGE, { session })));
  for (const { content } of found) expect(content).toContain('hello');
}

beforeEach(needsChromium);

test('shared: contexts of one browser, bounded in number, closed one by one', async () => {
  await using server = await TestServer.start(['--max-sessions', '2']);
  await openAll(server, 'a', 'b');
  const sessions = await sessionsOf(server);
  expect(sessions.map(({ lane }) => lane).toSorted()).toEqual(['browser:a', 'browser:b']);
  expect(new Set(sessions.map(({ pid }) => pid)).size).toBe(1);
  const third = await browse(server, PAGE, { session: 'c' });
  expect(third.observation).toBe('error');
  expect(third.content).toContain('There are 2 browser sessions already (--max-sessions)');
  expect((await server.request('DELETE', '/sessions/browser:a')).json).toEqual({ closed: 'browser:a' });
  expect((await server.request('DELETE', '/sessions/browser:a')).status).toBe(404);
  await openAll(server, 'c');
});

test('process: a browser for each session, which ends with it', async () => {
  await using server = await TestServer.start(['--browser-mode', 'process']);
  await openAll(server, 'a', 'b');
  const [a, b] = await sessionsOf(server);
  expect(a?.pid).not.toBe(b?.pid);
  await server.request('DELETE', `/sessions/${a?.lane}`);
  expect(() => process.kill(a?.pid ?? 0, 0)).toThrow('ESRCH');
  expect(process.kill(b?.pid ?? 0, 0)).toBe(true);
});

test('pool: not more browsers than asked for', async () => {
  await using server = await TestServer.start(['--browser-mode', 'pool', '--browser-pool-size', '2']);
  await openAll(server, 'a', 'b', 'c', 'd');
  const pids = (await sessionsOf(server)).map(({ pid }) => pid);
  expect(pids).toHaveLength(4);
  expect(new Set(pids).size).toBe(2);
});

test('a browser that is too old is replaced: cookies and tabs move', async () => {
  await using server = await TestServer.start(['--browser-max-age', '2', '--browser-mode', 'pool']);
  await act(server, `goto('${PAGE}') new_tab() goto('data:text/html,<p>second</p>')`);
  const [before] = await sessionsOf(server);
  let found = await act(server, 'noop(0)');
  await until('a new browser', async () => {
    if ((await sessionsOf(server))[0]?.pid !== before?.pid) return true;
    found = await act(server, 'noop(100)');
    return false;
  });
  expect(found.content).toContain('[The browser was replaced because of its age or size');
  expect(found.extras).toMatchObject({ active_page_index: 1, open_pages_urls: [PAGE, 'data:text/html,<p>second</p>'] });
  expect(() => process.kill(before?.pid ?? 0, 0)).toThrow('ESRCH');
});

test.each([
  ['shared', '--browser-max-age', '1'],
  ['process', '--browser-max-age', '1'],
  ['process', '--browser-max-memory', '1'],
  ['pool', '--browser-max-memory', '1'],
])('%s, %s: what is replaced ends, and its session goes on', async (mode, flag, limit) => {
  await using site = await Site.start({
    '/in': (_request, response) => response.writeHead(302, { location: '/', 'set-cookie': 'who=ada' }).end(),
    '/': ({ headers }, response) => response.end(`cookie ${headers.cookie ?? 'none'}`),
  });
  await using server = await TestServer.start(['--browser-mode', mode, flag, limit]);
  await open(server, site.url('/in'));
  const [before] = await sessionsOf(server);
  let found = await act(server, 'noop(0)');
  await until('a new browser', async () => {
    if ((await sessionsOf(server))[0]?.pid !== before?.pid) return true;
    found = await act(server, 'noop(100)');
    return false;
  });
  expect(found.content).toContain('[The browser was replaced because of its age or size');
  expect(found.content).toContain('cookie who=ada');
  expect(() => process.kill(before?.pid ?? 0, 0)).toThrow('ESRCH');
});

test('a session whose browser was replaced can be looked at before its next action', async () => {
  await using server = await TestServer.start(['--browser-max-memory', '1']);
  await openAll(server, 'a', 'busy');
  const park = async (): Promise<void> => {
    await openAll(server, 'busy');
    const find = (await sessionsOf(server)).find(({ lane }) => lane === 'browser:a');
    expect(find).toMatchObject({ pid: null });
  };
  await park();
  const tabs = await server.request('GET', '/browser/tabs?session=a');
  expect([tabs.status, tabs.json]).toEqual([200, { tabs: [{ index: 0, url: PAGE, title: '', active: true }] }]);
  await park();
  const snapshot = await server.request('GET', '/browser/snapshot?session=a');
  expect([snapshot.status, snapshot.json]).toEqual([200, expect.stringContaining('hello')]);
  await park();
  const screenshot = await server.request('GET', '/browser/screenshot?session=a');
  expect([screenshot.status, screenshot.headers.get('content-type')]).toEqual([200, 'image/png']);
});

test('shared: browsers that are too large do not pile up, whatever sessions stand idle', async () => {
  await using server = await TestServer.start(['--browser-max-memory', '1']);
  const mains = (): number[] => {
    const browsers = processesWith('--user-data-dir=');
    return childrenOf(process.pid).filter((pid) => browsers.includes(pid));
  };
  const before = new Set(mains());
  let most = 0;
  const watch = setInterval(() => (most = Math.max(most, mains().filter((pid) => !before.has(pid)).length)), 50);
  try {
    await act(server, `goto('${PAGE}') new_tab() goto('data:text/html,<p>second</p>')`, { session: 'tabs' });
    for (const name of ['a', 'b', 'c']) await openAll(server, name, 'busy');
    const busy = act(server, 'noop(3000)', { session: 'busy' });
    await openAll(server, 'a', 'b', 'c');
    expect((await busy).error).toBe('');
    const back = await act(server, 'noop(0)', { session: 'tabs' });
    expect(back.content).toContain('[The browser was replaced because of its age or size');
    expect(back.extras).toMatchObject({
      active_page_index: 1,
      open_pages_urls: [PAGE, 'data:text/html,<p>second</p>'],
    });
  } finally {
    clearInterval(watch);
  }
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(2);
  const lanes = (await sessionsOf(server)).map(({ lane }) => lane).toSorted();
  expect(lanes).toEqual(['a', 'b', 'busy', 'c', 'tabs'].map((name) => `browser:${name}`));
  for (const lane of lanes) expect((await server.request('DELETE', `/sessions/${lane}`)).status).toBe(200);
  expect(await sessionsOf(server)).toEqual([]);
});

test('nothing is left of a browser: not after the server, nor after its parent process was killed', async () => {
  const server = await TestServer.start();
  await openAll(server, 'a');
  const [session] = await sessionsOf(server);
  const profile = /--user-data-dir=(\S+)/.exec(commandOf(session?.pid ?? 0))?.[1];
  expect(profile).toMatch(/actiond-\d+-\d+-\w+\/browser-/);
  expect(processesWith(profile ?? '').length).toBeGreaterThan(2);
  // What it has among the temporary files is left there when it is killed: that is below its profile.
  expect(readlinkSync(join(profile ?? '', 'SingletonSocket'))).toContain(profile);
  process.kill(session?.pid ?? 0, 'SIGKILL');
  await until('its helpers are gone', () => processesWith(profile ?? '').length === 0);
  await openAll(server, 'a');
  const runtime = (profile ?? '').replace(/\/browser-.*/, '');
  expect(processesWith(runtime).length).toBeGreaterThan(2);
  await server[Symbol.asyncDispose]();
  expect(processesWith(runtime)).toEqual([]);
});

test('nothing is left of a browser when the server is killed', async () => {
  using build = new Build();
  const args = ['0', '--working-dir', build.directory('work'), '--state-dir', build.directory('state')];
  using daemon = new Daemon(build, args);
  const reply = await fetch(`${await daemon.url()}/execute_action`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ action: { action: 'browse', args: { url: PAGE } } }),
  });
  expect(await reply.text()).toContain('hello');
  const browsers = processesWith('--user-data-dir=');
  const browser = childrenOf(daemon.pid).find((pid) => browsers.includes(pid)) ?? 0;
  const [, profile = ''] = /--user-data-dir=(\S+)/.exec(commandOf(browser)) ?? [];
  expect(processesWith(profile).length).toBeGreaterThan(2);
  // In the middle of its work, too.
  const spinning = fetch(`${await daemon.url()}/execute_action`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ action: { action: 'browse', args: { url: 'data:text/html,<script>for(;;);</script>' } } }),
  }).catch(() => {});
  await until('the page', async () => {
    const tabs = await fetch(`${await daemon.url()}/browser/tabs`);
    return (await tabs.text()).includes('for(;;)');
  });
  daemon.signal('SIGKILL');
  await Promise.all([daemon.exited, spinning]);
  await until('the browser is gone', () => processesWith(profile).length === 0);
});

test('without a graphics card pages can draw', async () => {
  await using server = await TestServer.start();
  const script = `const gl = c.getContext('webgl');
    const info = gl && gl.getExtension('WEBGL_debug_renderer_info');
    o.textContent = gl ? 'drawn by ' + gl.getParameter(info.UNMASKED_RENDERER_WEBGL) : 'nothing to draw with'`;
  await using site = await Site.start({ '/': `<canvas id=c></canvas><p id=o></p><script>${script}</script>` });
  const { content } = await browse(server, site.url());
  expect(content).toMatch(/drawn by .*SwiftShader/);
  const [session] = await sessionsOf(server);
  expect(commandOf(session?.pid ?? 0)).toContain(' --disable-gpu ');
});

test('started with the server when that is asked for', async () => {
  await using server = await TestServer.start(['--browser-start', 'eager']);
  await until('ready', async () => (await server.request('GET', '/ready')).json.subsystems.browser === 'ready');
  expect(await sessionsOf(server)).toHaveLength(1);
});

test('a browser that is not there is an answer, and holds up nothing', async () => {
  await using server = await TestServer.start(['--browser-path', '/no/such/chromium']);
  const { observation, content } = await browse(server, PAGE);
  expect(observation).toBe('error');
  expect(content).toContain('Browser functionality is not supported or disabled.');
  expect(content).toContain('--browser-path /no/such/chromium');
  const { status, json } = await server.request('GET', '/ready');
  expect(status).toBe(200);
  expect(json.subsystems).toMatchObject({ browser: 'failed', bash: 'ready' });
  expect(json.reasons.browser).toContain('/no/such/chromium');
});

const account = findAccount('nobody');

/** Whether programs of an account may make namespaces, of which Chromium's sandbox is built. */
function hasUserNamespaces(uid: number): boolean {
  return spawnSync('unshare', ['--user', 'true'], { uid, gid: uid }).status === 0;
}

describe.skipIf(process.getuid?.() !== 0 || !account)('as root for another account', () => {
  test('the browser runs as the account, and so do its files', async () => {
    await using server = await TestServer.start(['--username', 'nobody']);
    await server.run('true');
    const { execFileSync } = await import('node:child_process');
    execFileSync('chmod', ['755', server.workingDir, `${server.workingDir}/..`]);
    const { content, extras } = await browse(server, PAGE);
    expect(content).toContain('hello');
    const [session] = await sessionsOf(server);
    const status = readFileSync(`/proc/${session?.pid}/status`, 'utf8');
    expect(/^Uid:\s+(\d+)/m.exec(status)?.[1]).toBe(String(account?.uid));
    const { statSync } = await import('node:fs');
    expect(statSync(extras.screenshot_path).uid).toBe(account?.uid);
    const saved = await act(server, `goto('data:application/octet-stream,abc')`);
    expect(saved.observation).toBe('download');
    expect(statSync(saved.extras.file_path).uid).toBe(account?.uid);
  });

  test('it has its own sandbox, and does without where there is none', async () => {
    const startWith = async (...flags: readonly string[]): Promise<[command: string, content: string]> => {
      await using server = await TestServer.start(['--username', 'nobody', ...flags]);
      for (const path of [server.workingDir, `${server.workingDir}/..`]) chmodSync(path, 0o755);
      const { content } = await browse(server, PAGE);
      expect(content).toContain('hello');
      const [session] = await sessionsOf(server);
      return [commandOf(session?.pid ?? 0), content];
    };
    const none = ['--browser-arg=--disable-namespace-sandbox', '--browser-arg=--disable-setuid-sandbox'];
    const [command, content] = await startWith(...none);
    expect(command).toContain(' --no-sandbox ');
    expect(content).toContain('hello');
    const [usual] = await startWith();
    // Whether the kernel allows it is the machine's affair; where it does, it is used.
    expect(usual.includes(' --no-sandbox ')).toBe(!hasUserNamespaces(account?.uid ?? 0));
  });

  test('files to upload are looked for with the rights of the account', async () => {
    await using server = await TestServer.start(['--username', 'nobody']);
    await server.run('true');
    const { mkdirSync, writeFileSync } = await import('node:fs');
    for (const path of [server.workingDir, `${server.workingDir}/..`]) chmodSync(path, 0o755);
    const hidden = `${server.workingDir}/hidden`;
    mkdirSync(hidden, { mode: 0o700 });
    writeFileSync(`${hidden}/there`, 'x');
    writeFileSync(`${server.workingDir}/secret`, 'x', { mode: 0o600 });
    writeFileSync(`${server.workingDir}/open`, 'x');
    const found = await browse(server, 'data:text/html,<input type=file onchange="document.title=files[0].name">');
    expect(found.error).toBe('');
    const shown = await act(server, 'noop(0)');
    const upload = async (path: string): Promise<string> =>
      (await act(server, `upload_file('${shown.bid('button')}', '${path}')`)).error
        .replace(path, 'PATH')
        .replace(path, 'PATH');
    const refused = await upload('secret');
    expect(refused).toContain('PermissionError: upload_file:');
    const [existing, missing] = [await upload('hidden/there'), await upload('hidden/gone')];
    expect(existing).toContain('PermissionError: upload_file:');
    expect(existing.replace('there', '')).toBe(missing.replace('gone', ''));
    expect(await upload('nothing')).toContain('ValueError: upload_file: there is no file');
    expect(await upload('open')).toBe('');
  });
});
