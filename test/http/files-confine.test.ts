/** `--confine`: nothing about files reaches beyond the given directories, whatever the path looks like. */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';

let server: TestServer;
let base: string;
let root: string;
let outside: string;

beforeAll(async () => {
  base = mkdtempSync(join(tmpdir(), 'actiond-confine-'));
  [root, outside] = [join(base, 'root'), join(base, 'outside')];
  for (const directory of [root, outside]) mkdirSync(directory);
  writeFileSync(join(outside, 'secret.txt'), 'secret\n');
  symlinkSync(outside, join(root, 'to-outside'));
  symlinkSync(join(outside, 'new.txt'), join(root, 'to-new'));
  server = await TestServer.start(['--confine', root]);
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  rmSync(base, { recursive: true, force: true });
});

const act = (action: string, args: object) => server.action({ action, args });

test('inside all works', async () => {
  expect((await act('write', { path: `${root}/in/a.txt`, content: 'a' })).observation).toBe('write');
  expect((await act('read', { path: `${root}/in/../in/a.txt` })).content).toBe('a\n');
  expect((await act('edit', { path: `${root}/in/a.txt`, command: 'view' })).content).toContain('1\ta');
  expect((await server.request('GET', `/files${root}/in/a.txt`)).status).toBe(200);
});

test.each(['secret.txt', 'not-there.txt'])('outside is refused, %s', async (name) => {
  for (const path of [`${outside}/${name}`, `${root}/../outside/${name}`, `${root}/to-outside/${name}`]) {
    const reason = 'outside the directories that this server serves';
    expect((await act('read', { path })).content, path).toContain(reason);
    expect((await act('write', { path, content: 'x' })).content, path).toContain(reason);
    for (const edit of [{ command: 'view' }, { command: 'create', file_text: 'x' }, { command: 'undo_edit' }])
      expect((await act('edit', { path, ...edit })).content, path).toContain(reason);
    const address = `/files${path.replaceAll('..', '%2e%2e')}`;
    expect((await server.request('PUT', address, 'x')).status, path).toBeGreaterThanOrEqual(400);
    expect((await server.request('DELETE', address)).status, path).toBeGreaterThanOrEqual(400);
    expect((await server.request('GET', `/download_files?path=${path}`)).json.detail).toContain('403: ');
  }
  expect(readFileSync(join(outside, 'secret.txt'), 'utf8')).toBe('secret\n');
  expect(readdirSync(outside)).toEqual(['secret.txt']);
});

test('directories outside are neither listed, searched, watched nor written', async () => {
  for (const path of [outside, `${root}/to-outside`, '/']) {
    expect((await server.request('POST', '/list_files', { path })).json).toEqual([]);
    expect((await server.request('POST', '/files/search', { path })).status).toBe(403);
    expect((await server.request('GET', `/files/watch?path=${path}`)).status).toBe(403);
    const form = new FormData();
    form.append('file', new Blob(['x']), 'up.txt');
    const reply = await fetch(`${server.url}/upload_file?destination=${path}/deep`, { method: 'POST', body: form });
    expect(reply.status).toBe(500);
  }
  expect((await act('write', { path: `${root}/to-new`, content: 'x' })).observation).toBe('error');
  expect(readdirSync(outside)).toEqual(['secret.txt']);
});

test('a download leaves out what links lead to', async () => {
  symlinkSync(join(outside, 'secret.txt'), join(root, 'linked'));
  const reply = await fetch(`${server.url}/download_files?path=${root}`);
  const archive = Buffer.from(await reply.arrayBuffer()).toString('latin1');
  expect(archive).toContain('.download-skipped.txt');
  expect(archive).not.toContain('secret\n');
});

test('a link that changes between inside and outside never shows what is outside', async () => {
  const swapped = join(root, 'swapped');
  for (const [name, target] of [
    ['good', join(root, 'good-dir')],
    ['bad', outside],
  ] as const)
    symlinkSync(target, join(root, `link-${name}`));
  mkdirSync(join(root, 'good-dir'));
  writeFileSync(join(root, 'good-dir/secret.txt'), 'harmless\n');
  let isSwapping = true;
  const swapping = (async () => {
    for (let index = 0; isSwapping; index += 1) {
      symlinkSync(index % 2 === 0 ? outside : join(root, 'good-dir'), join(root, 'next'));
      renameSync(join(root, 'next'), swapped);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  })();
  const path = join(swapped, 'secret.txt');
  for (let index = 0; index < 200; index += 1) {
    const { observation, content } = await act('read', { path });
    if (observation === 'read') expect(content).not.toContain('secret');
    await act('write', { path, content: 'harmless' });
  }
  isSwapping = false;
  await swapping;
  expect(readFileSync(join(outside, 'secret.txt'), 'utf8')).toBe('secret\n');
  expect(readdirSync(outside)).toEqual(['secret.txt']);
});
