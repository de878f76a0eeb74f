/** `/files/…`: reading, storing, removing, searching and watching over plain HTTP. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';

let server: TestServer;
let dir: string;
let count = 0;

beforeAll(async () => {
  server = await TestServer.start(['--max-body-bytes', '1M']);
});

afterAll(() => server[Symbol.asyncDispose]());

beforeEach(() => {
  count += 1;
  dir = join(server.workingDir, `case-${count}`);
  mkdirSync(dir);
});

type Headers = Readonly<Record<string, string>>;

const address = (path: string): string => `${server.url}/files${path.split('/').map(encodeURIComponent).join('/')}`;
const get = (path: string, headers: Headers = {}, method = 'GET'): Promise<Response> =>
  fetch(address(path), { method, headers });
const put = (path: string, body: Uint8Array | string, headers: Headers = {}, query = ''): Promise<Response> =>
  fetch(address(path) + query, { method: 'PUT', body, headers });
const remove = (path: string, query = '', headers: Headers = {}): Promise<Response> =>
  fetch(address(path) + query, { method: 'DELETE', headers });

describe('GET', () => {
  test('a file, with what HTTP wants to know', async () => {
    const path = join(dir, 'ü "a".txt');
    writeFileSync(path, '0123456789');
    const reply = await get(path);
    expect(reply.status).toBe(200);
    expect(await reply.text()).toBe('0123456789');
    expect(reply.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(reply.headers.get('content-length')).toBe('10');
    expect(reply.headers.get('content-security-policy')).toBe('sandbox');
    expect(Date.parse(reply.headers.get('last-modified') ?? '')).toBeLessThanOrEqual(Date.now());
    const head = await get(path, {}, 'HEAD');
    expect([head.status, head.headers.get('content-length'), await head.text()]).toEqual([200, '10', '']);
    expect(head.headers.get('etag')).toBe(reply.headers.get('etag'));
  });

  test.each([
    ['bytes=2-4', 206, '234', 'bytes 2-4/10'],
    ['bytes=7-', 206, '789', 'bytes 7-9/10'],
    ['bytes=-3', 206, '789', 'bytes 7-9/10'],
    ['bytes=5-99', 206, '56789', 'bytes 5-9/10'],
    ['bytes=0-1,4-5', 200, '0123456789', null],
    ['lines=1-2', 200, '0123456789', null],
    ['bytes=10-', 416, undefined, 'bytes */10'],
    ['bytes=5-2', 200, '0123456789', null],
    ['bytes=-0', 416, undefined, 'bytes */10'],
    ['BYTES=2-4', 206, '234', 'bytes 2-4/10'],
    ['bytes=2-99999999999999999999', 206, '23456789', 'bytes 2-9/10'],
  ])('Range: %s', async (range, status, text, contentRange) => {
    const path = join(dir, 'a');
    writeFileSync(path, '0123456789');
    const reply = await get(path, { range });
    expect(reply.status).toBe(status);
    const body = await reply.text();
    if (text !== undefined) expect(body).toBe(text);
    expect(reply.headers.get('content-range')).toBe(contentRange);
  });

  test('conditions', async () => {
    const path = join(dir, 'a');
    writeFileSync(path, 'one');
    const first = await get(path);
    await first.text();
    const etag = first.headers.get('etag') ?? '';
    const modified = first.headers.get('last-modified') ?? '';
    expect((await get(path, { 'if-none-match': `"x", ${etag}` })).status).toBe(304);
    expect((await get(path, { 'if-modified-since': modified })).status).toBe(304);
    expect((await get(path, { range: 'bytes=0-0', 'if-range': etag })).status).toBe(206);
    expect((await get(path, { 'if-match': etag })).status).toBe(200);
    expect((await get(path, { 'if-unmodified-since': modified })).status).toBe(200);
    expect((await get(path, { 'if-match': '"x"' })).status).toBe(412);
    expect((await get(path, { 'if-unmodified-since': 'Mon, 01 Jan 2001 00:00:00 GMT' })).status).toBe(412);
    writeFileSync(path, 'other');
    expect((await get(path, { 'if-none-match': etag })).status).toBe(200);
    expect((await get(path, { range: 'bytes=0-0', 'if-range': etag })).status).toBe(200);
  });

  test('files of the kernel, whose sizes say nothing', async () => {
    const status = await (await get('/proc/self/status')).text();
    expect(status).toContain('Pid:');
    const page = await get('/sys/kernel/mm/transparent_hugepage/enabled');
    expect(await page.text()).toBe(readFileSync('/sys/kernel/mm/transparent_hugepage/enabled', 'utf8'));
    const part = await get('/proc/self/status', { range: 'bytes=0-4' });
    expect([part.status, await part.text()]).toEqual([206, 'Name:']);
  });

  test('a directory, as JSON', async () => {
    writeFileSync(join(dir, 'b.txt'), 'text', { mode: 0o640 });
    mkdirSync(join(dir, 'a'));
    symlinkSync('b.txt', join(dir, 'c'));
    const { path, entries, truncated } = (await (await get(dir)).json()) as {
      path: string;
      entries: object[];
      truncated: boolean;
    };
    expect([path, truncated]).toEqual([dir, false]);
    expect(await (await get('/')).json()).toMatchObject({ path: '/' });
    expect(entries).toMatchObject([
      { name: 'a', type: 'directory' },
      { name: 'b.txt', type: 'file', size: 4, mode: '0640' },
      { name: 'c', type: 'symbolic link', target: 'b.txt' },
    ]);
  });

  test.each([
    ['/no/such', 404],
    ['/dev/zero', 409],
    ['/a\0b', 422],
    [`/${'x'.repeat(256)}`, 422],
    ['/proc/kmsg', 409],
  ])('%j answers %i', async (path, status) => {
    const reply = await get(path);
    expect(reply.status).toBe(status);
    expect(await reply.json()).toHaveProperty('detail');
  });
});

describe('PUT', () => {
  test('any type and size; directories are made; mode and ETag', async () => {
    const path = join(dir, 'new/deep/a.json');
    const bytes = Buffer.alloc(3 * 1024 * 1024, '{not json');
    const reply = await put(path, bytes, { 'content-type': 'application/json' }, '?mode=0750');
    expect(reply.status).toBe(201);
    expect(await reply.json()).toMatchObject({ path, size: bytes.length, etag: reply.headers.get('etag') });
    expect(readFileSync(path).equals(bytes)).toBe(true);
    expect(statSync(path).mode & 0o777).toBe(0o750);
    const again = await put(path, '');
    expect([again.status, readFileSync(path, 'utf8'), statSync(path).mode & 0o777]).toEqual([200, '', 0o750]);
    expect((await put(path, 'x', {}, '?mode=9')).status).toBe(422);
  });

  test('conditions guard against lost updates', async () => {
    const path = join(dir, 'a');
    expect((await put(path, 'x', { 'if-match': '*' })).status).toBe(412);
    const etag = (await put(path, 'one', { 'if-none-match': '*' })).headers.get('etag') ?? '';
    expect((await put(path, 'two', { 'if-none-match': '*' })).status).toBe(412);
    expect((await put(path, 'two', { 'if-match': etag })).status).toBe(200);
    expect((await put(path, 'three', { 'if-match': etag })).status).toBe(412);
    expect(readFileSync(path, 'utf8')).toBe('two');
    expect(readdirSync(dir)).toEqual(['a']);
  });

  test('a running program that a link of /proc names is not replaced', async () => {
    const program = join(dir, 'program');
    copyFileSync('/bin/sleep', program);
    const child = spawn(program, ['60']);
    try {
      await once(child, 'spawn');
      const link = `/proc/${child.pid}/exe`;
      expect((await put(link, 'x')).status).toBe(409);
      symlinkSync(link, join(dir, 'link'));
      expect((await put(join(dir, 'link'), 'x')).status).toBe(409);
      expect(readFileSync(program).equals(readFileSync('/bin/sleep'))).toBe(true);
      expect(readdirSync(dir).toSorted()).toEqual(['link', 'program']);
    } finally {
      child.kill('SIGKILL');
    }
  });

  test('what the kernel refuses is told', async () => {
    const reply = await put('/proc/version', 'x');
    expect(reply.status).toBeLessThan(500);
    expect(((await reply.json()) as { detail: string }).detail).toContain('/proc/version');
  });

  test('a directory, and below a file: 409', async () => {
    writeFileSync(join(dir, 'file'), 'x');
    expect((await put(dir, 'x')).status).toBe(409);
    expect((await put(join(dir, 'file/a'), 'x')).status).toBe(409);
    expect((await put('/proc/nothing/here', 'x')).status).toBeGreaterThanOrEqual(400);
  });
});

test('DELETE', async () => {
  mkdirSync(join(dir, 'd/e'), { recursive: true });
  writeFileSync(join(dir, 'd/e/f'), 'x');
  writeFileSync(join(dir, 'kept'), 'x');
  symlinkSync(join(dir, 'kept'), join(dir, 'd/link'));
  // Names are bytes, of which not all are UTF-8.
  const bytes = Buffer.concat([Buffer.from(join(dir, 'd/caf')), Buffer.from([0xe9])]);
  mkdirSync(bytes);
  writeFileSync(Buffer.concat([bytes, Buffer.from('/'), Buffer.from([0xff])]), 'x');
  expect((await remove(join(dir, 'none'))).status).toBe(404);
  expect((await remove(join(dir, 'd'))).status).toBe(409);
  expect((await remove(join(dir, 'kept'), '', { 'if-match': '"other"' })).status).toBe(412);
  expect((await remove(join(dir, 'd'), '?recursive=true')).status).toBe(200);
  expect(readdirSync(dir)).toEqual(['kept']);
  expect((await remove(join(dir, 'kept'))).status).toBe(200);
});

describe.each(['ripgrep', 'no ripgrep'])('search with %s', (how) => {
  let searching: TestServer;

  beforeAll(async () => {
    searching = await TestServer.start([], how === 'ripgrep' ? {} : { PATH: '/bin/none' });
    const root = searching.workingDir;
    mkdirSync(join(root, 'src/deep'), { recursive: true });
    writeFileSync(join(root, 'src/a.ts'), 'const one = 1;\nconst Two = 2;\n');
    writeFileSync(join(root, 'src/deep/b.ts'), 'two: $two\n');
    writeFileSync(join(root, 'src/.hidden.ts'), 'two\n');
    writeFileSync(join(root, 'binary.ts'), Buffer.from([0, 1, 2, 0x74, 0x77, 0x6f]));
    writeFileSync(join(root, 'c.md'), 'two\n');
  });

  afterAll(() => searching[Symbol.asyncDispose]());

  async function search(request: object): Promise<{ found: string[]; last: unknown; status: number }> {
    const body = JSON.stringify({ path: searching.workingDir, ...request });
    const headers = { 'content-type': 'application/json' };
    const reply = await fetch(`${searching.url}/files/search`, { method: 'POST', headers, body });
    const lines = (await reply.text())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, string>);
    const last = lines.pop();
    const start = searching.workingDir.length + 1;
    const found = lines.map(({ path = '', line, text }) => [path.slice(start), line, text].filter(Boolean).join(':'));
    return { found: found.toSorted(), last, status: reply.status };
  }

  test('by name', async () => {
    expect(await search({ glob: ['*.ts', '!**/deep/**'] })).toEqual({
      found: ['binary.ts', 'src/a.ts'],
      last: { done: true, truncated: false },
      status: 200,
    });
    expect((await search({ glob: ['**/*.ts'], hidden: true })).found).toContain('src/.hidden.ts');
  });

  test('by content', async () => {
    expect((await search({ pattern: '$two' })).found).toEqual(['src/deep/b.ts:1:two: $two']);
    expect((await search({ pattern: 'TWO', ignore_case: true, glob: ['src/**'] })).found).toEqual([
      'src/a.ts:2:const Two = 2;',
      'src/deep/b.ts:1:two: $two',
    ]);
    expect((await search({ pattern: 'nowhere' })).found).toEqual([]);
  });

  test('by content, in files of any name, also behind one that turns out to be binary', async () => {
    const root = join(searching.workingDir, 'odd');
    mkdirSync(join(root, 'd'), { recursive: true });
    const names = ['new\nline.txt', 'd/k\nab', 'a:1:b', "it's", 'zz.txt'];
    for (const name of names) writeFileSync(join(root, name), 'NEEDLE\n');
    writeFileSync(join(root, 'late.dat'), `NEEDLE first\n${'x\n'.repeat(200_000)}\0\nNEEDLE later\n`);
    const { found } = await search({ path: root, pattern: 'NEEDLE' });
    expect(found.filter((line) => !line.startsWith('odd/late.dat'))).toEqual(
      names.map((name) => `odd/${name}:1:NEEDLE`).toSorted(),
    );
    rmSync(root, { recursive: true });
  });

  test('no more than the limit', async () => {
    const { found, last } = await search({ limit: 1 });
    expect(found).toHaveLength(1);
    expect(last).toEqual({ done: true, truncated: true });
  });

  test('regular expressions', async () => {
    const { found, last } = await search({ pattern: '^const [a-z]+ =', regex: true });
    if (how === 'ripgrep') expect(found).toEqual(['src/a.ts:1:const one = 1;']);
    else expect(last).toMatchObject({ error: expect.stringContaining('ripgrep') as string });
    expect((await search({ pattern: '(', regex: true })).last).toHaveProperty('error');
  });

  test('a glob that could be matched for ever', async () => {
    const root = join(searching.workingDir, 'long');
    mkdirSync(root);
    writeFileSync(join(root, 'a'.repeat(200)), '');
    const { found, last } = await search({ path: root, glob: [`${'*a'.repeat(20)}*b`] });
    expect(found).toEqual([]);
    if (how === 'ripgrep') expect(last).toEqual({ done: true, truncated: false });
    else expect(last).toMatchObject({ error: expect.stringContaining('3 stars in a name') as string });
    rmSync(root, { recursive: true });
  });

  test('wrong requests', async () => {
    expect((await searching.request('POST', '/files/search', { path: '/no/such' })).status).toBe(404);
    const wrong = async (body: object): Promise<string> => {
      const { status, json } = await searching.request('POST', '/files/search', body);
      expect(status).toBe(422);
      return json.errors;
    };
    expect(await wrong({})).toContain('body.path: expected a string, got nothing');
    expect(await wrong({ path: 'src' })).toContain('body.path: expected an absolute path, such as /workspace, got');
    expect(await wrong({ path: '/a\0b' })).toContain('body.path: expected a path without a NUL character');
    expect(await wrong({ path: '/', pattern: '' })).toContain(
      'body.pattern: expected a string of at least 1 character',
    );
    expect(await wrong({ path: '/', pattern: 'a\nb' })).toContain('body.pattern: expected text of one line');
    expect(await wrong({ path: '/', glob: ['a\0'] })).toContain('body.glob[0]: expected a glob without a NUL');
    expect(await wrong({ path: '/', limit: 0 })).toContain('body.limit: expected a number >= 1, got 0');
  });
});

test('watch', async () => {
  const controller = new AbortController();
  const reply = await fetch(`${server.url}/files/watch?path=${dir}`, { signal: controller.signal });
  expect(reply.headers.get('content-type')).toBe('text/event-stream');
  const reader = reply.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  const seen = async (wanted: string): Promise<void> => {
    while (!text.includes(wanted)) {
      const { value, done } = (await reader?.read()) ?? { done: true };
      if (done) throw new Error(`the stream ended before ${wanted}`);
      text += value;
    }
  };
  await seen('event: ready');
  writeFileSync(join(dir, 'a.txt'), 'a');
  await seen(`event: add\ndata: ${JSON.stringify({ kind: 'add', path: join(dir, 'a.txt') })}`);
  await put(join(dir, 'a.txt'), 'changed');
  await seen('event: change');
  await remove(join(dir, 'a.txt'));
  await seen('event: unlink');
  controller.abort();
  expect((await server.request('GET', '/files/watch?path=/no/such')).status).toBe(404);
});
