/** What people and other programs see of the browser, and what a page in it may not do. */
import { chromium } from 'playwright-core';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { act, browse, needsChromium, open, Site } from '../support/browser.ts';
import { loadConfig } from '../../src/config.ts';
import { TestServer } from '../support/server.ts';

let server: TestServer;
let site: Site;

beforeAll(async () => {
  server = await TestServer.start(['--expose-cdp']);
  site = await Site.start({
    '/': '<title>Tall</title><h1>top</h1><div style="height:3000px"></div><h2>bottom</h2>',
    '/attack': `<title>A</title><p id=o></p><script>
      const target = new URLSearchParams(location.search).get('at');
      const body = JSON.stringify({ action: { action: 'run', args: { command: 'echo owned > owned.txt' } } });
      const tries = [
        fetch(target + '/execute_action', { method: 'POST', headers: { 'content-type': 'application/json' }, body }),
        fetch(target + '/execute_action', { method: 'POST', mode: 'no-cors', headers: { 'content-type': 'text/plain' }, body }),
        fetch(target + '/server_info', { mode: 'no-cors' }).then(() => { throw 'opaque' }),
        fetch(target + '/browser/tabs'),
        new Promise((ok, no) => { const s = new WebSocket(target.replace('http', 'ws') + '/events/stream?after=0'); s.onopen = ok; s.onerror = no; }),
        new Promise((ok, no) => { const s = new WebSocket(target.replace('http', 'ws') + '/browser/cdp'); s.onopen = ok; s.onerror = no; }),
      ];
      Promise.allSettled(tries).then((all) => { o.textContent = 'outcome ' + all.map((r) => r.status === 'fulfilled' && (!r.value || !r.value.type || r.value.type !== 'opaque') ? 'in' : 'out').join(' '); });
    </script>`,
  });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await site[Symbol.asyncDispose]();
});
beforeEach(needsChromium);

const PNG_HEAD = 'PNG';

test('screenshot, snapshot and tabs', async () => {
  expect((await server.request('GET', '/browser/tabs')).status).toBe(404);
  await open(server, site.url('/'));
  await act(server, 'new_tab() tab_focus(0)');
  const tabs = await server.request('GET', '/browser/tabs');
  expect(tabs.json).toEqual({
    tabs: [
      { index: 0, url: site.url('/'), title: 'Tall', active: true },
      { index: 1, url: 'about:blank', title: '', active: false },
    ],
  });
  const snapshot = await server.request('GET', '/browser/snapshot?session=default');
  expect(snapshot.headers.get('content-type')).toBe('text/plain; charset=utf-8');
  expect(snapshot.json).toMatch(/^\[Current URL: http.*\]\nRootWebArea 'Tall'.*\n\t\[\d+\] heading 'top'/);
  const shot = await fetch(`${server.url}/browser/screenshot`);
  expect(shot.headers.get('content-type')).toBe('image/png');
  const [viewport, whole] = [
    Buffer.from(await shot.arrayBuffer()),
    Buffer.from(await (await fetch(`${server.url}/browser/screenshot?full_page=true`)).arrayBuffer()),
  ];
  expect(viewport.toString('latin1', 1, 4)).toBe(PNG_HEAD);
  expect([viewport.readUInt32BE(16), viewport.readUInt32BE(20)]).toEqual([1280, 720]);
  expect(whole.readUInt32BE(20)).toBeGreaterThan(3000);
  await act(server, 'tab_focus(1) tab_close()');
});

test('wrong parameters are named', async () => {
  const { status, json } = await server.request('GET', '/browser/screenshot?full_page=perhaps');
  expect(status).toBe(422);
  expect(json.errors).toContain('query.full_page: expected one of true, false');
  const unknown = await server.request('GET', '/browser/snapshot?session=nobody');
  expect(unknown.status).toBe(404);
  expect(unknown.json.detail).toContain('There is no browser session "nobody"');
});

test('a page in the browser cannot drive the server', async () => {
  for (const host of ['localhost', '127.0.0.1']) {
    const target = server.url.replace('127.0.0.1', host);
    const { content } = await act(server, `goto('${site.url('/attack')}?at=${target}') noop(300)`);
    expect(content).toContain("'outcome out out out out out out'");
  }
  expect((await server.run('cat owned.txt')).exitCode).not.toBe(0);
  expect((await browse(server, `${server.url}/server_info`)).content).toContain('uptime');
});

test('any client of the DevTools protocol can attach, with the key', async () => {
  const key = 'a-key-of-this-test';
  await using guarded = await TestServer.start(['--expose-cdp'], { SESSION_API_KEY: key });
  const headers = { 'x-session-api-key': key };
  const body = { action: { action: 'browse', args: { url: 'data:text/html,<title>seen</title>hello' } } };
  expect((await guarded.request('POST', '/execute_action', body, headers)).json.content).toContain('hello');
  expect((await guarded.request('GET', '/browser/cdp/json/version')).status).toBe(403);
  await expect(chromium.connectOverCDP(`${guarded.url}/browser/cdp`)).rejects.toThrow('403');
  const socket = guarded.url.replace('http', 'ws');
  await expect(chromium.connectOverCDP(`${socket}/browser/cdp`)).rejects.toThrow('403');
  const attached = await chromium.connectOverCDP(`${guarded.url}/browser/cdp`, { headers });
  const titles = await Promise.all(
    attached.contexts().flatMap((context) => context.pages().map((page) => page.title())),
  );
  expect(titles).toContain('seen');
  await attached.close();
  const direct = await chromium.connectOverCDP(`${socket}/browser/cdp`, { headers });
  expect(direct.version()).toMatch(/^\d+\./);
  await direct.close();
  expect((await guarded.request('GET', '/browser/cdp', undefined, headers)).status).toBe(426);
});

test('without the flag there is no such endpoint', async () => {
  await using plain = await TestServer.start();
  expect((await plain.request('GET', '/browser/cdp/json/version')).status).toBe(404);
});

test('evaluation environments are refused, with the reason', () => {
  const refused = loadConfig(['--browsergym-eval-env', 'webarena'], {}, '/', '0.0.0');
  expect(refused).toMatchObject({ kind: 'error' });
  expect(JSON.stringify(refused)).toContain("BrowserGym's own Python tasks, which this server does not contain");
});
