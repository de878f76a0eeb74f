/** What V0's own `tests/runtime/test_browsing.py` expects (V0 §8.8), by the same names. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { FileViewer } from '../../src/viewer/file-viewer.ts';
import { act, browse, needsChromium, open, Site } from '../support/browser.ts';
import { freePort } from '../support/port.ts';
import { TestServer } from '../support/server.ts';

const FORM = `<html><head><title>Form Test</title></head><body>
<input type="text" placeholder="Enter text"><textarea placeholder="Enter message"></textarea>
<select><option value="option1">Option 1</option><option value="option2">Option 2</option></select>
<button onclick="document.getElementById('result').innerHTML='Button clicked!'">Test Button</button>
<div id="result"></div></body></html>`;

const UPLOAD = `<html><body><input type="file" id="f"><button onclick="document.getElementById('r').innerText =
'File selected: ' + document.getElementById('f').files[0].name">Upload File</button><div id="r"></div></body></html>`;

const PDF = `%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]>>endobj
trailer<</Root 1 0 R>>`;
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

let server: TestServer;
let site: Site;

beforeAll(async () => {
  server = await TestServer.start();
  site = await Site.start({
    '/page1.html':
      '<html><head><title>Page 1</title></head><body><h1>Page 1</h1><a href="page2.html">two</a></body></html>',
    '/page2.html': '<html><head><title>Page 2</title></head><body><h1>Page 2</h1></body></html>',
    '/form.html': FORM,
    '/tall.html': `${FORM}<div style="height:3000px">tall</div>`,
    '/upload.html': UPLOAD,
    '/report.pdf': (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/pdf' });
      response.end(PDF);
    },
  });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await site[Symbol.asyncDispose]();
});
beforeEach(needsChromium);

test('test_browser_disabled', async () => {
  await using disabled = await TestServer.start(['--no-enable-browser']);
  for (const { observation, content } of [await browse(disabled, site.url()), await act(disabled, 'noop()')]) {
    expect(observation).toBe('error');
    expect(content).toContain('Browser functionality is not supported or disabled');
  }
});

test('test_simple_browse', async () => {
  const port = await freePort();
  const started = await server.run(`python3 -m http.server ${port} > server.log 2>&1 &`);
  expect(started.exitCode).toBe(0);
  expect(started.content).toContain('[1]');
  await server.run(`until curl -s localhost:${port} >/dev/null; do sleep 0.05; done; cat server.log`);
  const { observation, content, extras } = await browse(server, `http://localhost:${port}`);
  expect(observation).toBe('browse');
  expect(extras).toMatchObject({
    url: `http://localhost:${port}/`,
    error: false,
    open_pages_urls: [`http://localhost:${port}/`],
    active_page_index: 0,
    last_browser_action: `goto("http://localhost:${port}")`,
    last_browser_action_error: '',
    dom_object: {},
    axtree_object: {},
    extra_element_properties: {},
    filter_visible_only: false,
  });
  expect(content).toContain('Directory listing for /');
  expect(content).toContain('server.log');
  await server.run('kill %1');
});

test('test_browser_navigation_actions', async () => {
  const steps = [
    [`goto("${site.url('/page1.html')}")`, 'Page 1', '/page1.html'],
    ['noop(500)', 'Page 1', '/page1.html'],
    [`goto("${site.url('/page2.html')}")`, 'Page 2', '/page2.html'],
    ['go_back()', 'Page 1', '/page1.html'],
    ['go_forward()', 'Page 2', '/page2.html'],
  ] as const;
  for (const [actions, title, path] of steps) {
    const { error, content, url } = await act(server, actions);
    expect(error, actions).toBe('');
    expect(content, actions).toContain(`RootWebArea '${title}'`);
    expect(url, actions).toBe(site.url(path));
  }
});

test('test_browser_form_interactions', async () => {
  const form = await open(server, site.url('/form.html'));
  const input = form.bid('Enter text');
  const area = form.bid('Enter message');
  const select = form.bid('combobox');
  const filled = await act(server, `fill("${input}", "Hello World")\nfill("${area}", "This is a test message")`);
  expect(filled.error).toBe('');
  expect(filled.lines.get(input)).toContain('Hello World');
  expect(filled.lines.get(area)).toContain('This is a test message');
  const selected = await act(server, `select_option("${select}", "option2")`);
  expect(selected.lines.get(select)).toMatch(/option2|Option 2/);
  const clicked = await act(server, `click("${form.bid('Test Button')}")`);
  expect(clicked.content).toContain('Button clicked!');
  const cleared = await act(server, `clear("${input}")`);
  expect(cleared.lines.get(input)).not.toContain('Hello World');
});

test('test_browser_interactive_actions', async () => {
  const page = await open(server, site.url('/tall.html'));
  const input = page.bid('Enter text');
  const scrolled = await act(server, 'scroll(0, 300)');
  expect(scrolled.error).toBe('');
  expect(scrolled.extras.last_browser_action).toContain('scroll(0, 300)');
  expect((await act(server, `hover("${page.bid('Test Button')}")`)).error).toBe('');
  expect((await act(server, `focus("${input}")`)).extras.focused_element_bid).toBe(input);
  await act(server, `fill("${input}", "TestValue123")`);
  expect((await act(server, `press("${input}", "Backspace")`)).lines.get(input)).toContain("'TestValue12'");
  const several = await act(
    server,
    `fill("${input}", "Multi Action Test")\nnoop(10)\nclick("${page.bid('Test Button')}")`,
  );
  expect(several.error).toBe('');
  expect(several.lines.get(input)).toContain('Multi Action Test');
  expect(several.content).toContain('Button clicked!');
});

test('test_browser_file_upload', async () => {
  const file = join(server.workingDir, 'upload_test.txt');
  writeFileSync(file, 'to upload');
  const page = await open(server, site.url('/upload.html'));
  const input = page.bid('Choose File');
  const uploaded = await act(server, `upload_file("${input}", "${file}")`);
  expect(uploaded.error).toBe('');
  expect(uploaded.lines.get(input)).toContain('upload_test.txt');
  const clicked = await act(server, `click("${page.bid('Upload File')}")`);
  expect(clicked.content).toContain('File selected: upload_test.txt');
});

async function view(name: string): Promise<string> {
  // The address file of all servers is one; with one of its own, others that run beside do not matter.
  const addressFile = join(server.workingDir, 'oh-server-url');
  const viewer = new FileViewer({ read: (path) => readFile(path), addressFile });
  await viewer.start();
  onTestFinished(() => viewer.stop());
  const { content: address } = await server.run(`cat ${addressFile}`);
  const { content, extras } = await act(server, `goto("${address}/view?path=${join(server.workingDir, name)}")`);
  expect(content).toContain('[Action executed successfully.]');
  expect(content).toContain(`Screenshot saved to: ${server.workingDir}/.browser_screenshots/screenshot_`);
  const shots = readdirSync(join(server.workingDir, '.browser_screenshots'));
  expect(shots.every((shot) => /^screenshot_\d{8}_\d{6}_\d{6}\.png$/.test(shot))).toBe(true);
  const saved = readFileSync(extras.screenshot_path as string);
  expect(extras.screenshot).toBe(`data:image/png;base64,${saved.toString('base64')}`);
  return content;
}

test('test_read_pdf_browse', async () => {
  writeFileSync(join(server.workingDir, 'test_document.pdf'), PDF);
  expect(await view('test_document.pdf')).toContain('Canvas');
});

test('test_read_png_browse', async () => {
  writeFileSync(join(server.workingDir, 'test_image.png'), Buffer.from(PNG, 'base64'));
  expect(await view('test_image.png')).toContain('File Viewer - test_image.png');
});

test('test_download_file', async () => {
  const { observation, content, extras } = await act(server, `goto("${site.url('/report.pdf')}")`);
  expect(observation).toBe('download');
  expect(extras).toEqual({ file_path: join(server.workingDir, 'file_1.pdf') });
  expect(content).toBe(
    `Execution of the previous action goto("${site.url('/report.pdf')}") resulted in a file download. ` +
      `The downloaded file is saved at location: ${join(server.workingDir, 'file_1.pdf')}`,
  );
  expect(readFileSync(join(server.workingDir, 'file_1.pdf'), 'latin1')).toBe(PDF);
  expect(readFileSync(join(server.workingDir, '.downloads/report.pdf'), 'latin1')).toBe(PDF);
});
