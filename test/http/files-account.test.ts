/** A server of root whose shells run as another account: files obey that account's rights and belong to it. */
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findAccount } from '../../src/sandbox/account.ts';
import { TestServer } from '../support/server.ts';

const ACCOUNT = findAccount('nobody');
const canSwitch = process.getuid?.() === 0 && ACCOUNT !== undefined;

function ownerOf(path: string): number[] {
  const stats = statSync(path);
  return [stats.uid, stats.gid];
}

describe.skipIf(!canSwitch)('as root for another account', () => {
  const { uid, gid } = ACCOUNT ?? { uid: -1, gid: -1 };
  let server: TestServer;
  let dir: string;
  let secret: string;

  beforeAll(async () => {
    server = await TestServer.start(['--username', 'nobody']);
    dir = server.workingDir;
    chmodSync(dirname(dir), 0o755);
    const locked = join(dirname(dir), 'locked');
    mkdirSync(locked, { mode: 0o700 });
    secret = join(locked, 'secret.txt');
    writeFileSync(secret, 'secret\n');
  });

  afterAll(() => server[Symbol.asyncDispose]());

  const read = (path: string, args = {}) => server.action({ action: 'read', args: { path, ...args } });
  const write = (path: string, content: string) => server.action({ action: 'write', args: { path, content } });
  const edit = (args: object) => server.action({ action: 'edit', args });

  test('new files and directories belong to it, with the modes of the umask', async () => {
    await write(`${dir}/made/deep/a.txt`, 'a');
    await edit({ path: `${dir}/made/b.txt`, command: 'create', file_text: 'b\n' });
    for (const path of ['made', 'made/deep', 'made/deep/a.txt', 'made/b.txt'])
      expect(ownerOf(join(dir, path)), path).toEqual([uid, gid]);
    expect(statSync(join(dir, 'made/deep')).mode & 0o777).toBe(0o755);
    expect(statSync(join(dir, 'made/b.txt')).mode & 0o777).toBe(0o644);
    const shell = await server.run(`echo more >> ${dir}/made/b.txt && touch ${dir}/made/deep/c && echo mine`);
    expect(shell.content).toBe('mine');
  });

  test('an edit keeps owner and mode', async () => {
    const path = join(dir, 'shared.sh');
    writeFileSync(path, 'one\n');
    chmodSync(path, 0o775);
    chownSync(path, 0, gid);
    expect((await edit({ path, command: 'insert', insert_line: 1, new_str: 'two' })).content).toContain('edited');
    expect(readFileSync(path, 'utf8')).toBe('one\ntwo\n');
    expect(ownerOf(path)).toEqual([0, gid]);
    expect(statSync(path).mode & 0o777).toBe(0o775);
  });

  test.each(['directly', 'through a link'])('what it may not read is refused %s', async (how) => {
    const path = how === 'directly' ? secret : join(dir, 'to-secret');
    if (path !== secret) symlinkSync(secret, path);
    expect(await read(path)).toMatchObject({ observation: 'error', content: `Permission denied: ${path}` });
    const viewed = await read(path, { impl_source: 'oh_aci' });
    expect(viewed.content).toMatch(/^ERROR:\n.*Permission denied/);
    expect((await write(path, 'x')).observation).toBe('error');
    expect((await edit({ path, command: 'str_replace', old_str: 'secret', new_str: 'x' })).content).toContain('ERROR');
    expect((await server.request('GET', `/files${path}`)).status).toBe(403);
    expect((await server.request('PUT', `/files${path}`, 'x')).status).toBe(403);
    expect((await server.request('GET', `/download_files?path=${path}`)).status).toBe(500);
    expect(readFileSync(secret, 'utf8')).toBe('secret\n');
  });

  test('directories that it may not enter are not listed, searched or written', async () => {
    const locked = dirname(secret);
    expect((await server.request('POST', '/list_files', { path: locked })).json).toEqual([]);
    expect((await server.request('POST', '/files/search', { path: locked })).status).toBe(403);
    expect((await server.request('GET', `/files/watch?path=${locked}`)).status).toBe(403);
    expect((await server.request('DELETE', `/files${secret}`)).status).toBe(403);
    const form = new FormData();
    form.append('file', new Blob(['x']), 'x.txt');
    const upload = await fetch(`${server.url}/upload_file?destination=${locked}`, { method: 'POST', body: form });
    expect(upload.status).toBe(500);
    expect(((await upload.json()) as { detail: string }).detail).toContain('Permission denied');
    expect((await write(`${dirname(dir)}/no.txt`, 'x')).content).toContain('Permission denied');
  });

  test('an archive replaces nothing that the account may not', async () => {
    const theirs = join(dir, 'theirs');
    mkdirSync(theirs, { mode: 0o755 });
    writeFileSync(join(theirs, 'file'), 'old');
    const script = `import zipfile,sys
z = zipfile.ZipFile(sys.argv[1], 'w')
i = zipfile.ZipInfo('theirs/file'); i.external_attr = 0o120777 << 16 if sys.argv[2] == 'link' else 0o100644 << 16
z.writestr(i, 'file2'); z.close()`;
    for (const kind of ['link', 'file']) {
      const archive = join(dirname(dir), `${kind}.zip`);
      execFileSync('python3', ['-c', script, archive, kind]);
      const form = new FormData();
      form.append('file', new Blob([readFileSync(archive)]), 'a.zip');
      const address = `${server.url}/upload_file?recursive=true&destination=${dir}`;
      const reply = await fetch(address, { method: 'POST', body: form });
      expect(((await reply.json()) as { detail: string }).detail).toContain('Permission denied');
      expect(readFileSync(join(theirs, 'file'), 'utf8')).toBe('old');
    }
  });

  test('an uploaded file belongs to it, and a sticky directory protects the files of others', async () => {
    const form = new FormData();
    form.append('file', new Blob(['x']), 'up.txt');
    await fetch(`${server.url}/upload_file?destination=${dir}/in/deep`, { method: 'POST', body: form });
    expect(ownerOf(`${dir}/in/deep/up.txt`)).toEqual([uid, gid]);
    const sticky = join(dirname(dir), 'sticky');
    mkdirSync(sticky);
    chmodSync(sticky, 0o1777);
    writeFileSync(join(sticky, 'theirs'), 'x');
    expect((await server.request('DELETE', `/files${sticky}/theirs`)).status).toBe(403);
    expect((await server.request('PUT', `/files${sticky}/ours`, 'x')).status).toBe(201);
    expect((await server.request('DELETE', `/files${sticky}/ours`)).status).toBe(200);
  });
});
