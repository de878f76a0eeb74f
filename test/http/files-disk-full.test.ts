/** A full disk: the old file stays, no part of the new one is left. Needs root, to mount a small file system. */
import { execFileSync } from 'node:child_process';
import { linkSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';
import { makeTemporaryFolder } from '../support/temporary-folder.ts';

const folder = makeTemporaryFolder('actiond-full-');
const disk = join(folder.path, 'disk');
mkdirSync(disk);
const isMounted = mountSmallDisk();

function mountSmallDisk(): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', disk], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

afterAll(() => {
  if (isMounted) execFileSync('umount', [disk]);
  folder.remove();
});

describe.skipIf(!isMounted)('with 1 MiB', () => {
  const old = `${'old '.repeat(1000)}\n`;
  const large = 'x'.repeat(2_000_000);
  const path = join(disk, 'a.txt');
  let server: TestServer;

  beforeAll(async () => {
    server = await TestServer.start();
  });

  afterAll(() => server[Symbol.asyncDispose]());

  beforeEach(() => writeFileSync(path, old));

  function expectUntouched(): void {
    expect(readFileSync(path, 'utf8')).toBe(old);
    expect(readdirSync(disk).filter((name) => name !== 'other')).toEqual(['a.txt']);
  }

  test.each(['one name', 'two names, so it is written in place'])('write and edit of a file with %s', async (names) => {
    if (names !== 'one name') linkSync(path, join(disk, 'other'));
    const written = await server.action({ action: 'write', args: { path, content: large } });
    expect(written).toMatchObject({ observation: 'error', content: `No space left on device: ${path}` });
    const args = { path, command: 'insert', insert_line: 0, new_str: large };
    const edited = await server.action({ action: 'edit', args });
    expect(edited.content).toBe(
      `ERROR:\nRan into [Errno 28] No space left on device: '${path}' while trying to write to ${path}`,
    );
    expectUntouched();
    expect((await server.action({ action: 'edit', args: { path, command: 'undo_edit' } })).content).toContain(
      'No edit history found',
    );
  });

  test('upload, PUT and a new file', async () => {
    const form = new FormData();
    form.append('file', new Blob([large]), 'a.txt');
    const upload = await fetch(`${server.url}/upload_file?destination=${disk}`, { method: 'POST', body: form });
    expect(upload.status).toBe(507);
    expect(((await upload.json()) as { detail: string }).detail).toContain('No space left on device');
    expect((await server.request('PUT', `/files${path}`, large)).status).toBe(507);
    const args = { path: join(disk, 'new.txt'), command: 'create', file_text: large };
    expect((await server.action({ action: 'edit', args })).content).toContain('No space left on device');
    expectUntouched();
  });

  test('an archive that does not fit is refused before anything is unpacked', async () => {
    const archive = join(folder.path, 'a.zip');
    const script = `import zipfile,sys; z=zipfile.ZipFile(sys.argv[1],'w',8); z.writestr('big', bytes(3_000_000)); z.close()`;
    execFileSync('python3', ['-c', script, archive]);
    const form = new FormData();
    form.append('file', new Blob([readFileSync(archive)]), 'a.zip');
    const address = `${server.url}/upload_file?recursive=true&destination=${disk}`;
    const reply = await fetch(address, { method: 'POST', body: form });
    expect(reply.status).toBe(422);
    expect(((await reply.json()) as { detail: string }).detail).toContain('free on the device');
    expectUntouched();
  });

  test('an archive that ends at a full disk says where, and what was unpacked', async () => {
    const few = join(folder.path, 'few');
    mkdirSync(few);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,nr_inodes=8', 'tmpfs', few]);
    try {
      const archive = join(folder.path, 'many.zip');
      const script = `import zipfile,sys; z=zipfile.ZipFile(sys.argv[1],'w'); [z.writestr('f%d' % i, 'x') for i in range(20)]; z.close()`;
      execFileSync('python3', ['-c', script, archive]);
      const form = new FormData();
      form.append('file', new Blob([readFileSync(archive)]), 'a.zip');
      const address = `${server.url}/upload_file?recursive=true&destination=${few}`;
      const reply = await fetch(address, { method: 'POST', body: form });
      const { detail } = (await reply.json()) as { detail: string };
      const { length } = readdirSync(few);
      expect(length).toBeGreaterThan(0);
      expect(detail).toBe(
        `Entry "f${length}" cannot be unpacked: No space left on device: ${few}/f${length}. Before it ${length} of 20 entries were unpacked.`,
      );
      expect(reply.status).toBe(507);
    } finally {
      execFileSync('umount', [few]);
    }
  });
});
