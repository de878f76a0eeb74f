/** Pages and browsers that fail: there is an answer in time, and the next action works. */
import { readdirSync, readFileSync } from 'node:fs';
import { createServer as createTlsServer } from 'node:https';
import { join } from 'node:path';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { ended, eventsOf, outputOf, post } from '../../support/actions.ts';
import { act, browse, needsChromium, open, type Seen, Site } from '../../support/browser.ts';
import { childrenOf } from '../../support/processes.ts';
import { TestServer } from '../../support/server.ts';
import { until } from '../../support/wait.ts';

const page = (body: string): string => `<!DOCTYPE html><title>T</title><body>${body}</body>`;

let server: TestServer;
let site: Site;
/** Takes as long as a navigation may: it runs beside everything else, in a browser of its own. */
let patient: TestServer;
let hanging: Promise<Seen>;

beforeAll(async () => {
  server = await TestServer.start([], { MY_API_TOKEN: 'sekret-value-4711' });
  site = await Site.start({
    '/good': page('good page'),
    '/arrives': page(`good page<script>onload = () => console.log('arrived')</script>`),
    '/dialogs': page(
      `<button onclick="alert('hi there'); o.textContent = confirm('sure?') + ' ' + prompt('name?', 'Ada')">ask</button><p id=o></p>
      <script>onbeforeunload = (event) => event.preventDefault()</script>`,
    ),
    '/popup': page(
      `<a href="/good" target=_blank>open</a><button onclick="window.open('/good'); window.open('/good')">two</button><button onclick="close()">leave</button>`,
    ),
    '/slow-popup': page(`<button onclick="window.open('/hang')">slow popup</button>`),
    '/many': page(`<button onclick="for (let i = 0; i < 60; i++) window.open('about:blank')">many</button>`),
    '/saves-for-ever': page(
      `<script>onload = () => setInterval(() => Object.assign(document.createElement('a'), { href: 'data:,x', download: 'x' }).click(), 5)</script>`,
    ),
    '/links': page(`<a href="/data.csv">data</a><a href="/slow.bin">slow</a>`),
    '/framed': page(`<iframe srcdoc="<a href='/data.csv'>data in frame</a>"></iframe>`),
    '/data.csv': (_request, response) => {
      response.writeHead(200, { 'content-disposition': 'attachment; filename="../../da ta.csv"' });
      response.end('a,b\n');
    },
    '/broken.bin': (_request, response) => {
      response.writeHead(200, { 'content-disposition': 'attachment', 'content-length': '1000' });
      response.write('part');
      setTimeout(() => response.destroy(), 50);
    },
    '/loop': (_request, response) => response.writeHead(302, { location: '/loop' }).end(),
    '/empty': (_request, response) => response.writeHead(204).end(),
    '/reset': (_request, response) => response.destroy(),
    '/hang': () => {},
    '/never-loads': page('shown <img src=/hang><iframe src=/hang></iframe>'),
    '/spin': page('spins<script>setTimeout(() => { for (;;); }, 20)</script>'),
    '/spin-at-once': page('spins<script>for (;;);</script>'),
    '/restless': page(`<p id=p></p><script>setInterval(() => (p.textContent = Math.random()), 5)</script>`),
    '/reloads': page('reloads<script>location.reload()</script>'),
    '/refreshes': `<meta http-equiv=refresh content="0;url=/refreshes?again">${page('refreshes')}`,
    '/reloads-later': page('reloads<script>setInterval(() => location.reload(), 5)</script>'),
    '/alerts': page(`alerts<button onclick="setInterval(() => alert('again'), 10)">start</button>`),
    '/alerts-at-once': page(`<script>setInterval(() => alert('again'), 1); for (;;) alert('more')</script>`),
    '/clings': page('<button>use</button><script>onbeforeunload = () => { for (;;); }</script>'),
    '/huge': page('<script>document.body.innerHTML = "<div><p>text <b>b</b></p></div>".repeat(25000)</script>'),
    '/hostile': page(
      `<button>still</button><script>for (const name of ['querySelectorAll', 'setAttribute', 'getAttribute', 'getBoundingClientRect'])
      Element.prototype[name] = () => { throw new Error('no') }; Array.prototype.map = null; JSON.stringify = null; document.querySelectorAll = null;
      document.body.getAttribute = () => 'x'; window.Promise = null;</script>`,
    ),
    '/tells': page(
      `<script>console.log('log sekret-value-4711'); console.warn('careful'); setTimeout(() => { throw new Error('page broke') })</script>sekret-value-4711`,
    ),
  });
});
beforeAll(async () => {
  patient = await TestServer.start();
  hanging = act(patient, `goto('${site.url('/good')}') goto('${site.url('/hang')}')`, { timeout: 110 });
});
afterAll(async () => {
  await patient[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
  await site[Symbol.asyncDispose]();
});
beforeEach(needsChromium);
/** Whatever it was, the next action works, in a tab that can be used. */
afterEach(async ({ task }) => {
  if (task.result?.state === 'skip') return;
  const { content } = await browse(server, site.url('/good'));
  if (!content.includes('good page')) throw new Error(`the next action does not work: ${content}`);
});

test('dialogs are answered, and told', async () => {
  const found = await open(server, site.url('/dialogs'));
  const asked = await act(server, `click('${found.bid("button 'ask'")}')`);
  expect(asked.content).toContain("StaticText 'true Ada'");
  expect(asked.content).toContain('[Dialog: alert "hi there" was accepted]');
  expect(asked.content).toContain('[Dialog: confirm "sure?" was accepted]');
  expect(asked.content).toContain('[Dialog: prompt "name?" was answered with "Ada"]');
  expect((await browse(server, site.url('/good'))).content).toContain('[Dialog: beforeunload was accepted]');
});

test('popups become active; when they close, what was there before', async () => {
  const found = await open(server, site.url('/popup'));
  const opened = await act(server, `click('${found.bid("link 'open'")}')`);
  expect(opened.content).toContain('good page');
  expect(opened.extras).toMatchObject({
    active_page_index: 1,
    open_pages_urls: [site.url('/popup'), site.url('/good')],
  });
  expect((await act(server, 'tab_close()')).extras).toMatchObject({
    active_page_index: 0,
    open_pages_urls: [site.url('/popup')],
  });
  const two = await act(server, `click('${found.bid("button 'two'")}')`);
  expect(two.extras).toMatchObject({ active_page_index: 2 });
  const closed = await act(server, 'tab_close() tab_close() tab_close()');
  expect(closed.extras).toMatchObject({ active_page_index: 0, open_pages_urls: ['about:blank'] });
});

test('a popup that does not load is told, once', async () => {
  const found = await open(server, site.url('/slow-popup'), { session: 'slow' });
  const opened = await act(server, `click('${found.bid('slow popup')}')`, { session: 'slow' });
  expect(opened.content).toContain('[The page opened a tab that does not load: it is listed when it does]');
  expect((await act(server, 'noop(0)', { session: 'slow' })).content).not.toContain('does not load');
  expect((await server.request('DELETE', '/sessions/browser:slow')).status).toBe(200);
});

test('a page that opens tabs without end', async () => {
  const found = await open(server, site.url('/many'), { session: 'many' });
  const after = await act(server, `click('${found.bid('many')}')`, { session: 'many' });
  expect(after.extras.open_pages_urls.length).toBeLessThanOrEqual(32);
  expect(after.content).toContain('more than 32 tabs');
  expect((await server.request('DELETE', '/sessions/browser:many')).status).toBe(200);
});

test('a download by a click, one by its address, one that breaks off', async () => {
  const found = await open(server, site.url('/links'));
  const clicked = await act(server, `click('${found.bid('data')}')`);
  expect(clicked.observation).toBe('download');
  expect(readFileSync(clicked.extras.file_path, 'utf8')).toBe('a,b\n');
  expect(readFileSync(join(server.workingDir, '.downloads/_.._da ta.csv'), 'utf8')).toBe('a,b\n');
  const visited = await browse(server, site.url('/data.csv'));
  expect(visited.observation).toBe('download');
  expect(visited.extras.file_path).not.toBe(clicked.extras.file_path);
  expect(readFileSync(join(server.workingDir, '.downloads/_.._da ta (1).csv'), 'utf8')).toBe('a,b\n');
  const broken = await act(server, `goto('${site.url('/broken.bin')}')`);
  expect(broken.observation).toBe('browse');
  expect(broken.content).toContain('did not arrive as a whole');
});

test('a page that saves files for ever fills neither the disk nor the answer', async () => {
  await open(server, site.url('/saves-for-ever'), { session: 'saver' });
  const files = (): number => readdirSync(server.workingDir).filter((name) => name.startsWith('file_')).length;
  const before = files();
  await until('as many as are kept', () => files() - before >= 100);
  expect((await act(server, `goto('${site.url('/good')}')`, { session: 'saver' })).observation).toBe('download');
  expect(files() - before).toBeLessThan(150);
  expect((await act(server, 'noop(0)', { session: 'saver' })).content).toContain('good page');
  await server.request('DELETE', '/sessions/browser:saver');
});

test('a download is that of its session alone, also out of a frame', async () => {
  const others = ['one', 'two'];
  for (const session of others) await open(server, site.url('/good'), { session });
  const before = readdirSync(server.workingDir).filter((name) => name.startsWith('file_'));
  const own = await browse(server, site.url('/data.csv'), { session: 'one' });
  expect(own.observation).toBe('download');
  const framed = await open(server, site.url('/framed'), { session: 'two' });
  const clicked = await act(server, `click('${framed.bid('data in frame')}')`, { session: 'two' });
  expect(clicked.observation).toBe('download');
  expect(readFileSync(clicked.extras.file_path, 'utf8')).toBe('a,b\n');
  for (const session of [...others, 'default'])
    expect((await act(server, 'noop(0)', { session })).content).not.toMatch(/download/i);
  const after = readdirSync(server.workingDir).filter((name) => name.startsWith('file_'));
  expect(after.length - before.length).toBe(2);
  for (const session of others) await server.request('DELETE', `/sessions/browser:${session}`);
});

test.each([
  ['/loop', 'ERR_TOO_MANY_REDIRECTS'],
  ['/reset', 'ERR_EMPTY_RESPONSE'],
  ['/empty', 'ERR_ABORTED'],
])('%s is answered with %s', async (path, reason) => {
  const { observation, error, content } = await browse(server, site.url(path));
  expect(observation).toBe('browse');
  expect(error).toMatch(/^Error: page\.goto: /);
  expect(error).toContain(reason);
  expect(content).toContain('The following error occurred when trying to visit the URL:');
});

test('addresses that are none, and places where nobody is', async () => {
  expect((await browse(server, 'javascript:alert(1)')).error).toContain('javascript: addresses are not opened');
  expect((await browse(server, 'http://localhost:1/')).error).toContain('ERR_');
  expect((await browse(server, 'http://no-such-host.invalid/')).error).toContain('ERR_NAME_NOT_RESOLVED');
  expect((await browse(server, 'file:///no/such/file')).error).toContain('ERR_FILE_NOT_FOUND');
  expect((await browse(server, 'http://[')).error).toContain('no valid address');
  expect((await browse(server, 'data:text/html,<p>inline</p>')).content).toContain('inline');
  expect((await act(server, 'x'.repeat(1_000_000))).error).toContain('at most');
});

test('a certificate that nobody knows', async () => {
  const [key, cert] = [join(server.workingDir, 'key.pem'), join(server.workingDir, 'cert.pem')];
  execFileSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'rsa:2048',
      '-nodes',
      '-subj',
      '/CN=localhost',
      '-days',
      '1',
      '-keyout',
      key,
      '-out',
      cert,
    ],
    { stdio: 'ignore' },
  );
  const tls = createTlsServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_request, response) =>
    response.end('secure page'),
  );
  await once(tls.listen(0, '127.0.0.1'), 'listening');
  const url = `https://localhost:${(tls.address() as AddressInfo).port}/`;
  try {
    expect((await browse(server, url)).error).toContain('ERR_CERT_AUTHORITY_INVALID');
    await using trusting = await TestServer.start(['--browser-ignore-certificates']);
    expect((await browse(trusting, url)).content).toContain('secure page');
  } finally {
    tls.closeAllConnections();
    tls.close();
  }
});

test('a page that never answers is given up within the limit of the action', async () => {
  const { error } = await browse(server, site.url('/hang'), { timeout: 5 });
  // Not the dispatcher's words, which come when an executor is late.
  expect(error).toContain('TimeoutError');
});

test('what has loaded of a page is answered, though the rest and a frame never come', async () => {
  const { content, error, extras } = await browse(server, site.url('/never-loads'));
  expect(error).toBe('');
  expect(content).toContain('shown');
  expect(extras.screenshot).toMatch(/^data:image/);
});

test('a script without end', async () => {
  const { observation, content } = await act(server, `goto('${site.url('/spin')}') noop(100)`);
  expect(observation).toBe('browse');
  expect(content).toContain('spins');
  expect(content).toContain('A script of the page ran without end: it was stopped');
  const atOnce = await act(server, `goto('${site.url('/spin-at-once')}')`);
  expect(atOnce.error).toBe('');
  expect(atOnce.content).toContain('spins');
  const short = await act(server, `goto('${site.url('/spin')}')`, { timeout: 6 });
  expect(short.error).toBe('');
  expect(short.content).toContain('spins');
});

test('a document that changes all the time is answered', async () => {
  const first = await open(server, site.url('/restless'));
  const second = await act(server, 'noop(0)');
  expect(first.error + second.error).toBe('');
});

test('100,000 nodes', async () => {
  const { content, error } = await open(server, site.url('/huge'), { timeout: 110 });
  expect(error).toBe('');
  expect(content.match(/paragraph/g)).toHaveLength(25_000);
});

test('a page that bends the functions of the browser', async () => {
  const found = await open(server, site.url('/hostile'));
  expect((await act(server, `click('${found.bid("button 'still'")}')`)).error).toBe('');
});

test('secrets on a page and in its console are masked; the console is live output', async () => {
  const { body } = await server.action({
    action: 'browse_interactive',
    args: { browser_actions: `goto('${site.url('/tells')}')`, return_axtree: true },
  });
  expect(JSON.stringify(body)).not.toContain('sekret-value-4711');
  expect(body.content).toContain('<secret_hidden>');
  const output = outputOf(await eventsOf(server, body.action_id));
  expect(output).toContain('[console.log] log <secret_hidden>');
  expect(output).toContain('[console.warning] careful');
  expect(output).toContain('[page error] page broke');
  const { json } = await server.request('GET', '/browser/snapshot');
  expect(json).toContain('<secret_hidden>');
  expect(json).not.toContain('sekret-value-4711');
});

test('a crashed page', async () => {
  await open(server, site.url('/good'));
  const crashed = await act(server, "goto('file:///dev/null') noop(0)");
  expect(crashed.observation).toBe('browse');
  const [browser = 0] = await browserPids();
  const renderers = descendants(browser).filter((pid) => commandOf(pid).includes('--type=renderer'));
  expect(renderers.length).toBeGreaterThan(0);
  for (const pid of renderers) process.kill(pid, 'SIGKILL');
  const after = await act(server, 'noop(50)');
  expect(after.observation).toBe('browse');
  expect(after.content).toContain('The page crashed: its tab is blank now');
  expect(after.extras.open_pages_urls).toHaveLength(1);
});

test('a killed browser is started anew, and the agent is told', async () => {
  await open(server, site.url('/good'));
  const [browser = 0] = await browserPids();
  process.kill(browser, 'SIGKILL');
  const after = await browse(server, site.url('/good'));
  expect(after.content).toContain('[The browser had ended and was started anew');
  expect(after.content).toContain('good page');
  expect((await browserPids())[0]).not.toBe(browser);
});

test('a browser that is killed in the middle of an action', async () => {
  await open(server, site.url('/good'));
  const [browser = 0] = await browserPids();
  const { json } = await post(
    server,
    { action: 'browse_interactive', args: { browser_actions: `goto('${site.url('/tells')}') noop(30000)` } },
    { prefer: 'respond-async' },
  );
  await until('the page', async () =>
    outputOf(await eventsOf(server, json.action_id as string)).includes('page broke'),
  );
  process.kill(browser, 'SIGKILL');
  const { observation } = await ended(server, json.action_id as string);
  expect(observation?.content).toContain('The browser ended during the action');
});

test('an action that is cancelled', async () => {
  await open(server, site.url('/good'));
  const { json } = await post(
    server,
    { action: 'browse', args: { url: site.url('/hang') } },
    { prefer: 'respond-async' },
  );
  await until(
    'running',
    async () => (await server.request('GET', `/actions/${json.action_id}`)).json.status === 'running',
  );
  await server.request('POST', `/actions/${json.action_id}/cancel`);
  expect((await ended(server, json.action_id as string)).status).toBe('cancelled');
});

test('a session that is closed in the middle of an action', async () => {
  await open(server, site.url('/good'), { session: 'closing' });
  const id = await begin('noop(60000)', 'closing');
  expect((await server.request('DELETE', '/sessions/browser:closing')).status).toBe(200);
  const { observation } = await ended(server, id);
  expect(observation?.content).toContain('the session was closed');
  expect(observation?.content).not.toContain('browser ended');
  await open(server, site.url('/good'), { session: 'closing' });
});

test('a wait that reaches the limit, or is cancelled, says so and shows the page', async () => {
  await open(server, site.url('/good'));
  const late = await act(server, 'noop(30000)', { timeout: 5 });
  expect(late.error).toBe('TimeoutError: timed out (5.0 seconds)');
  expect(late.content).toContain('good page');
  const id = await begin('noop(30000)', 'default');
  await server.request('POST', `/actions/${id}/cancel`);
  const { observation } = await ended(server, id);
  expect(observation?.extras).toMatchObject({ last_browser_action_error: 'Error: cancelled' });
  expect(observation?.content).toContain('good page');
});

test.each([
  ['/reloads', 'reloads'],
  ['/refreshes', 'refreshes'],
  ['/reloads-later', 'reloads'],
])('%s: a page that reloads itself for ever is shown', async (path, text) => {
  const { content, error } = await act(server, `goto('${site.url(path)}')`);
  expect(error).toBe('');
  expect(content).toContain(text);
  const again = await act(server, 'noop(100)');
  expect(again.content).toContain(text);
  expect(again.extras.screenshot).toMatch(/^data:image/);
});

test('a page that does not come to an end when it is about to be left is given up', async () => {
  const found = await open(server, site.url('/clings'));
  // Only who has used a page is asked whether it may be left.
  await act(server, `click('${found.bid("button 'use'")}')`);
  const left = await act(server, `goto('${site.url('/good')}')`);
  expect(left.error).toBe('');
  expect(left.content).toContain('[The page did not let itself be left: its tab was replaced by a new one]');
  expect(left.extras.open_pages_urls).toEqual([site.url('/good')]);
});

test.each(['/alerts', '/alerts-at-once'])('%s: a page that raises dialogs for ever can be left', async (path) => {
  const found = await act(server, `goto('${site.url(path)}')`);
  if (path === '/alerts') await act(server, `click('${found.bid('start')}')`);
  else expect(found.content).toContain('[The page raised dialogs without end: its tab is blank now]');
  const left = await act(server, `goto('${site.url('/good')}')`);
  expect(left.error).toBe('');
  expect(left.content).toContain('good page');
  expect(left.extras.open_pages_urls).toEqual([site.url('/good')]);
});

test('a page that never answers and an action without a limit: what was there can be used', async () => {
  const { error, content } = await hanging;
  expect(error).toContain('TimeoutError: page.goto');
  expect(content).toContain('good page');
});

async function begin(actions: string, session: string): Promise<string> {
  const { json } = await post(
    server,
    {
      action: 'browse_interactive',
      args: { browser_actions: `goto('${site.url('/arrives')}') ${actions}`, session },
    },
    { prefer: 'respond-async' },
  );
  const id = json.action_id as string;
  await until('the page', async () => outputOf(await eventsOf(server, id)).includes('arrived'));
  return id;
}

async function browserPids(): Promise<number[]> {
  const { json } = await server.request('GET', '/sessions');
  return (json.sessions as { kind: string; pid: number }[])
    .filter(({ kind }) => kind === 'browser')
    .map(({ pid }) => pid);
}

function descendants(pid: number): number[] {
  const children = childrenOf(pid);
  return [...children, ...children.flatMap(descendants)];
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ');
}
