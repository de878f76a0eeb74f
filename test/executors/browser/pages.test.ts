/** What people and sites do: each on a real page in a real Chromium. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { act, browse, needsChromium, open, Site } from '../../support/browser.ts';
import { TestServer } from '../../support/server.ts';

const page = (title: string, body: string): string => `<!DOCTYPE html><title>${title}</title><body>${body}</body>`;

const ROWS = Array.from({ length: 5000 }, (_, row) => `<tr><td>r${row}</td><td>v${row}</td></tr>`).join('');

const PAGES = {
  '/signup': page(
    'Sign up',
    `<form onsubmit="event.preventDefault(); out.textContent = JSON.stringify(Object.fromEntries(new FormData(this)))">
    <label>Name <input name="name" required></label><label>Mail <input type="email" name="mail"></label>
    <label><input type="checkbox" name="terms"> Terms</label>
    <label>Plan <select name="plan" multiple><option>free</option><option>pro</option><option>team</option></select></label>
    <button>Send</button></form><output id="out"></output>`,
  ),
  '/double': page(
    'D',
    `<button onclick="n.textContent++" ondblclick="d.textContent++">twice</button><p id=n>0</p><p id=d>0</p>`,
  ),
  '/mouse': page(
    'M',
    `<button oncontextmenu="event.preventDefault(); o.textContent='right'" onmouseover="h.textContent='hovered'"
    onclick="o.textContent = event.shiftKey ? 'shift' : 'plain'">target</button><p id=o></p><p id=h></p>`,
  ),
  '/drag': page(
    'Drag',
    `<div id=a draggable=true style="width:80px;height:40px" aria-label="card" role=button>card</div>
    <div id=b style="width:200px;height:100px" aria-label="bin" role=group ondragover="event.preventDefault()"
    ondrop="event.preventDefault(); this.append(document.getElementById('a')); o.textContent='dropped '+event.dataTransfer.getData('text')">bin</div>
    <p id=o></p><script>a.ondragstart = (event) => event.dataTransfer.setData('text', 'card 1')</script>`,
  ),
  '/keys': page('K', `<input aria-label=field onkeydown="k.textContent += event.key + ' '"><p id=k></p>`),
  '/frames': page(
    'Outer',
    `<iframe src="/inner" title="first"></iframe><iframe src="OTHER/inner" title="elsewhere"></iframe>`,
  ),
  '/inner': page(
    'Inner',
    `<button onclick="s.textContent='pressed in frame'">inside</button><p id=s></p><iframe srcdoc="<input aria-label=deep>"></iframe>`,
  ),
  '/shadow': page(
    'Shadow',
    `<x-box></x-box><script>customElements.define('x-box', class extends HTMLElement { connectedCallback() {
    const root = this.attachShadow({ mode: 'open' }); root.innerHTML = '<button>in shadow</button><p></p>';
    root.querySelector('button').onclick = () => { root.querySelector('p').textContent = 'shadow pressed'; root.querySelector('button').focus(); };
    } })</script>`,
  ),
  '/app': page(
    'App',
    `<main id=m>loading</main><script>fetch('/api').then((r) => r.json()).then((d) => {
    m.innerHTML = '<a href="javascript:0">' + d.text + '</a>'; m.firstChild.onclick = () => history.pushState({}, '', '/app/next') || (m.textContent = 'second view'); })</script>`,
  ),
  '/feed': page(
    'Feed',
    `<ul id=l></ul><script>let n = 0; const more = () => { for (let i = 0; i < 30; i++) l.insertAdjacentHTML('beforeend', '<li style="height:60px">item ' + n++); };
    more(); addEventListener('scroll', () => { if (innerHeight + scrollY > document.body.scrollHeight - 200) more(); });</script>`,
  ),
  '/canvas': page(
    'Paint',
    `<canvas id=c width=300 height=150 aria-label="drawing"></canvas><script>c.getContext('2d').fillRect(0, 0, 300, 150)</script>`,
  ),
  '/table': page('Table', `<table><tr><th>key</th><th>value</th></tr>${ROWS}</table>`),
  '/rtl': page(
    'rtl',
    `<div dir=rtl lang=he><h1>שלום עולם</h1><input aria-label="שם"><p>مرحبا <b>بالعالم</b></p></div>`,
  ),
  '/focus': page('F', `<input aria-label=one autofocus><div style="height:2000px"></div><a href="/app">below</a>`),
  '/clones': page(
    'C',
    `<ul id=l><li><button>first</button></li></ul><button onclick="l.append(l.firstElementChild.cloneNode(true))">clone</button>`,
  ),
};

let server: TestServer;
let site: Site;

beforeAll(async () => {
  server = await TestServer.start();
  site = await Site.start({
    ...PAGES,
    '/frames': (request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' });
      response.end(PAGES['/frames'].replace('OTHER', `http://127.0.0.1:${request.socket.localPort}`));
    },
    '/api': (_request, response) => {
      setTimeout(() => response.end(JSON.stringify({ text: 'late content' })), 150);
    },
    '/login': (request, response) => {
      response.writeHead(request.method === 'POST' ? 303 : 200, {
        'content-type': 'text/html',
        ...(request.method === 'POST' ? { 'set-cookie': 'user=ada', location: '/home' } : {}),
      });
      response.end(page('Login', '<form method=post><input name=user aria-label=user><button>Log in</button></form>'));
    },
    '/home': (request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' });
      response.end(
        page('Home', `<p>${request.headers.cookie?.includes('user=ada') ? 'welcome ada' : 'who are you'}</p>`),
      );
    },
  });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await site[Symbol.asyncDispose]();
});
beforeEach(needsChromium);

test('a form filled, a list with several choices, a check box', async () => {
  const form = await open(server, site.url('/signup'));
  expect(form.lines.get(form.bid("textbox 'Name'"))).toContain('required');
  const sent = await act(
    server,
    `fill('${form.bid("textbox 'Name'")}', 'Ada "L" \\u2603')
    fill('${form.bid("textbox 'Mail'")}', 'a@b.c')
    click('${form.bid('checkbox')}')
    select_option('${form.bid('listbox')}', ['pro', 'team'])
    click('${form.bid("button 'Send'")}')`,
  );
  expect(sent.error).toBe('');
  expect(sent.content).toContain(String.raw`{"name":"Ada \\"L\\" ☃","mail":"a@b.c","terms":"on","plan":"team"}`);
  expect(sent.lines.get(form.bid('checkbox'))).toContain("checked='true'");
  expect([...sent.lines.values()].filter((line) => line.includes('selected=True'))).toHaveLength(2);
});

test('a double click is one, and two clicks', async () => {
  const found = await open(server, site.url('/double'));
  const after = await act(server, `dblclick('${found.bid('twice')}')`);
  expect(after.content).toContain("StaticText '2'");
  expect(after.content).toContain("StaticText '1'");
});

test('other buttons, modifiers, hover', async () => {
  const bid = (await open(server, site.url('/mouse'))).bid('target');
  expect((await act(server, `click('${bid}', button='right')`)).content).toContain("'right'");
  expect((await act(server, `click('${bid}', modifiers=['Shift'])`)).content).toContain("'shift'");
  expect((await act(server, `hover('${bid}')`)).content).toContain("'hovered'");
});

test('drag and drop', async () => {
  const found = await open(server, site.url('/drag'));
  const after = await act(server, `drag_and_drop('${found.bid('card')}', '${found.bid('bin')}')`);
  expect(after.error).toBe('');
  expect(after.content).toContain('dropped card 1');
});

test('an upload of several files, relative to the working directory, and of none', async () => {
  site.pages.set(
    '/files',
    page(
      'Files',
      '<input type=file multiple onchange="o.textContent=[...this.files].map((f)=>f.name+f.size).join()"><p id=o></p>',
    ),
  );
  writeFileSync(join(server.workingDir, 'one.txt'), '1');
  writeFileSync(join(server.workingDir, 'two.txt'), '22');
  const bid = (await open(server, site.url('/files'))).bid('button');
  expect((await act(server, `upload_file('${bid}', ['one.txt', 'two.txt'])`)).content).toContain('one.txt1,two.txt2');
  expect((await act(server, `upload_file('${bid}', 'none.txt')`)).error).toBe(
    `ValueError: upload_file: there is no file ${join(server.workingDir, 'none.txt')}`,
  );
});

test('the keyboard', async () => {
  const bid = (await open(server, site.url('/keys'))).bid('field');
  const after = await act(
    server,
    `press('${bid}', 'a') press('${bid}', 'Shift+B') press('${bid}', 'ArrowLeft') press('${bid}', 'Control+a')`,
  );
  expect(after.content).toContain('a Shift B ArrowLeft Control a');
  expect(after.lines.get(bid)).toContain("value='aB'");
});

test('frames of this site and of another, and in them', async () => {
  const outer = await open(server, site.url('/frames'), { return_axtree: true });
  const inside = [...outer.lines].filter(([, line]) => line.includes("button 'inside'")).map(([bid]) => bid);
  expect(inside).toHaveLength(2);
  for (const [index, bid] of inside.entries()) {
    expect(bid).toMatch(index === 0 ? /^a\d+$/ : /^b\d+$/);
    const after = await act(server, `click('${bid}')`);
    expect(after.error).toBe('');
    expect(after.content.match(/pressed in frame/g)).toHaveLength(index + 1);
  }
  const deep = outer.bid("textbox 'deep'");
  expect(deep).toMatch(/^aa\d+$/);
  const filled = await act(server, `fill('${deep}', 'below') focus('${deep}')`);
  expect(filled.lines.get(deep)).toContain("value='below'");
  expect(filled.extras.focused_element_bid).toBe(deep);
  const { extra_element_properties: properties } = outer.extras;
  expect(properties[deep].bbox[0]).toBeGreaterThan(properties.a.bbox[0]);
  expect(properties[inside[1] ?? ''].bbox[0]).toBeGreaterThan(properties.b.bbox[0]);
  expect(properties[inside[0] ?? '']).toMatchObject({ visibility: 1, clickable: true, set_of_marks: true });
});

test('open shadow roots', async () => {
  const found = await open(server, site.url('/shadow'));
  const bid = found.bid('in shadow');
  const after = await act(server, `click('${bid}')`);
  expect(after.content).toContain('shadow pressed');
  expect(after.extras.focused_element_bid).toBe(bid);
});

test('an app that gets its content late, and goes on without a page', async () => {
  const app = await open(server, site.url('/app'));
  const after = await act(server, `click('${app.bid('late content')}')`);
  expect(after.content).toContain('second view');
  expect(after.url).toBe(site.url('/app/next'));
  expect((await browse(server, site.url('/app'))).content).toContain('late content');
});

test('a list that grows when it is scrolled', async () => {
  expect((await open(server, site.url('/feed'))).content).not.toContain('item 30');
  expect((await act(server, 'scroll(0, 5000)')).content).toContain('item 30');
});

test('a canvas; a table of 5,000 rows', async () => {
  expect((await open(server, site.url('/canvas'))).bid("Canvas 'drawing'")).not.toBe('');
  const table = await open(server, site.url('/table'));
  expect(table.lines.get(table.bid("cell 'v4999'"))).toContain('v4999');
  expect((await browse(server, site.url('/table'))).content).toContain('key | value\n---|---\nr0 | v0\n');
});

test('right-to-left text', async () => {
  const found = await open(server, site.url('/rtl'));
  const bid = found.bid('textbox', 'שם');
  expect(found.content).toContain("heading 'שלום עולם'");
  expect((await act(server, `fill('${bid}', 'דוד')`)).lines.get(bid)).toContain("value='דוד'");
  expect((await browse(server, site.url('/rtl'))).content).toContain('مرحبا **بالعالم**');
});

test('a login whose cookie holds in a second tab, and not in another session', async () => {
  const login = await open(server, site.url('/login'));
  const home = await act(server, `fill('${login.bid('user')}', 'ada') click('${login.bid('Log in')}')`);
  expect(home.content).toContain('welcome ada');
  const second = await act(server, `new_tab() goto('${site.url('/home')}')`);
  expect(second.content).toContain('welcome ada');
  expect(second.extras).toMatchObject({
    active_page_index: 1,
    open_pages_urls: [site.url('/home'), site.url('/home')],
  });
  expect((await act(server, 'tab_focus(0)')).extras.active_page_index).toBe(0);
  expect((await act(server, 'tab_focus(7)')).error).toBe('IndexError: there is no tab 7: there are 2, counted from 0.');
  expect((await open(server, site.url('/home'), { session: 'other' })).content).toContain('who are you');
  await act(server, 'tab_focus(1) tab_close()');
});

test('focus, visibility and what is out of sight', async () => {
  const found = await open(server, site.url('/focus'), { return_axtree: true });
  const { extras } = found;
  const bid = (text: string): string => found.bid(text);
  const properties = extras.extra_element_properties;
  expect(extras.focused_element_bid).toBe(bid("textbox 'one'"));
  expect(properties[bid("textbox 'one'")].visibility).toBe(1);
  expect(properties[bid("link 'below'")]).toMatchObject({ visibility: 0, clickable: true, set_of_marks: false });
  expect(extras.axtree_object.nodes[0]).toMatchObject({ role: { value: 'RootWebArea' } });
  expect(extras.screenshot).toMatch(/^data:image\/png;base64,/);
  expect(extras.set_of_marks).toMatch(/^data:image\/png;base64,/);
  expect(extras.set_of_marks).not.toBe(extras.screenshot);
});

test('ids stay with their elements, and copies get their own', async () => {
  const before = await open(server, site.url('/clones'));
  const first = before.bid("button 'first'");
  const after = await act(server, `click('${before.bid("button 'clone'")}')`);
  const firsts = [...after.lines].filter(([, line]) => line.includes("button 'first'")).map(([bid]) => bid);
  expect(firsts).toHaveLength(2);
  expect(firsts[0]).toBe(first);
  expect(new Set(firsts).size).toBe(2);
  expect(after.bid("button 'clone'")).toBe(before.bid("button 'clone'"));
});

test('ids that do not exist', async () => {
  for (const bid of ['99999', 'zz1', 'a b', "']", 'é'])
    expect((await act(server, `click(${JSON.stringify(bid)})`)).error, bid).toBe(
      `ValueError: Could not find element with bid "${bid}"`,
    );
});

test('calls in order, up to the first that fails', async () => {
  const found = await open(server, site.url('/keys'));
  const field = found.bid('field');
  const after = await act(server, `fill('${field}', 'done') click('777') fill('${field}', 'not done')`);
  expect(after.error).toContain('Could not find element with bid "777"');
  expect(after.lines.get(field)).toContain("value='done'");
  expect(after.content).toContain('The following error occurred when executing the last action:');
  const unread = await act(server, `fill('${field}', 'never') fill(`);
  expect(unread.error).toContain('SyntaxError: line 1, column');
  expect(unread.lines.get(field)).toContain("value='done'");
});
