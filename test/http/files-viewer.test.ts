/** The file viewer (V0 §2.11). */
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { FileService } from '../../executors/files/service.ts';
import { createFileAccess } from '../../src/sandbox/file-access.ts';
import { FileViewer } from '../../src/viewer/file-viewer.ts';
import { makeTemporaryFolder } from '../support/temporary-folder.ts';

const folder = makeTemporaryFolder('actiond-viewer-');
const addressFile = join(folder.path, 'url');
let viewer: FileViewer;

beforeAll(async () => {
  const service = new FileService({
    access: await createFileAccess(undefined, []),
    workingDir: folder.path,
    currentDir: () => folder.path,
    env: {},
    maxUnzipBytes: 1,
    maxUnzipEntries: 1,
    maxUnzipRatio: 1,
  });
  writeFileSync(join(folder.path, 'theirs'), 'untouched');
  symlinkSync(join(folder.path, 'theirs'), addressFile);
  viewer = new FileViewer({ read: (path) => service.readWhole(path), addressFile });
  await viewer.start();
});

afterAll(() => folder.remove());

async function view(path: string): Promise<{ status: number; html: string }> {
  const reply = await fetch(`${viewer.address}/view?path=${encodeURIComponent(path)}`);
  return { status: reply.status, html: await reply.text() };
}

/** fetch sets these headers itself. */
function statusWith(headers: Readonly<Record<string, string>>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const { port } = new URL(viewer.address);
    request({ host: '127.0.0.1', port, path: '/', headers }, (reply) => resolve(reply.resume().statusCode))
      .once('error', reject)
      .end();
  });
}

test('the address is in a file, which replaces a link and does not follow it', async () => {
  expect(readFileSync(addressFile, 'utf8')).toBe(viewer.address);
  expect(readFileSync(join(folder.path, 'theirs'), 'utf8')).toBe('untouched');
  expect(viewer.address).toMatch(/^http:\/\/localhost:\d+$/);
  expect(await (await fetch(viewer.address)).json()).toEqual({ status: 'File viewer server is running' });
});

test('an image', async () => {
  const path = join(folder.path, '<b>"&.PNG');
  writeFileSync(path, Buffer.from([1, 2, 3]));
  const { status, html } = await view(path);
  expect(status).toBe(200);
  expect(html).toContain('<title>File Viewer - &lt;b&gt;&quot;&amp;.PNG</title>');
  expect(html).toContain('<img src="data:image/png;base64,AQID" alt="&lt;b&gt;&quot;&amp;.PNG">');
});

test('a PDF, drawn by a pdf.js that this server has', async () => {
  writeFileSync(join(folder.path, 'a.pdf'), '%PDF-1.4');
  const { html } = await view(join(folder.path, 'a.pdf'));
  expect(html).toContain('<div id="viewer-container"');
  expect(html).not.toMatch(/https?:\/\//);
  for (const [, address = ''] of html.matchAll(/'(\/pdfjs\/legacy[^']+)'/g)) {
    const reply = await fetch(viewer.address + address);
    expect([reply.status, reply.headers.get('content-type')]).toEqual([200, 'text/javascript; charset=utf-8']);
    await reply.arrayBuffer();
  }
  expect((await fetch(`${viewer.address}/pdfjs/cmaps/Adobe-Japan1-UCS2.bcmap`)).status).toBe(200);
  for (const name of ['package.json', 'legacy/build/..%2f..%2fpackage.json', 'cmaps/%2e%2e/package.json'])
    expect((await fetch(`${viewer.address}/pdfjs/${name}`)).status).toBe(404);
});

test('errors', async () => {
  mkdirSync(join(folder.path, 'dir.png'));
  writeFileSync(join(folder.path, 'a.txt'), '');
  expect(await view('rel.png')).toEqual({
    status: 400,
    html: '<h1>Error: Path must be absolute</h1><p>rel.png</p>',
  });
  expect(await view('/no/<i>.png')).toEqual({
    status: 404,
    html: '<h1>Error: File not found</h1><p>/no/&lt;i&gt;.png</p>',
  });
  expect((await view(join(folder.path, 'dir.png'))).html).toContain('<h1>Error: Path is a directory</h1>');
  const unsupported = await view(join(folder.path, 'a.txt'));
  expect(unsupported.status).toBe(500);
  expect(unsupported.html).toContain('Unsupported file extension: .txt');
  expect((await view('/dev/zero')).status).toBe(500);
  expect((await fetch(`${viewer.address}/view`)).status).toBe(422);
});

test('pages of others reach nothing', async () => {
  expect(await statusWith({ host: 'evil.example' })).toBe(403);
  expect(await statusWith({ origin: 'http://evil.example' })).toBe(403);
  expect(await statusWith({ 'sec-fetch-site': 'cross-site' })).toBe(403);
});

test('the file with the address goes with the viewer', async () => {
  await viewer.stop();
  expect(existsSync(addressFile)).toBe(false);
});

test('a second viewer gives the name back when it goes, to one that is still there', async () => {
  const shared = join(folder.path, 'shared-url');
  const options = { read: () => Promise.reject(new Error('nothing here')), addressFile: shared };
  const [first, second, third] = [new FileViewer(options), new FileViewer(options), new FileViewer(options)];
  await first.start();
  await second.start();
  expect(readFileSync(shared, 'utf8')).toBe(second.address);
  await second.stop();
  expect(readFileSync(shared, 'utf8')).toBe(first.address);
  await third.start();
  await first.stop();
  await third.stop();
  expect(existsSync(shared)).toBe(false);
});
