/** Extended attributes and access lists of files that are replaced. */
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestServer } from '../support/server.ts';
import { makeTemporaryFolder } from '../support/temporary-folder.ts';

/** An access list in the form of the kernel: owner rw, user 12345 rw, group r, mask rw, others nothing. */
const ACCESS_LIST = Buffer.from(
  '0200000001000600ffffffff020006003930000004000400ffffffff10000600ffffffff20000000ffffffff',
  'hex',
);

function python(code: string, ...args: readonly string[]): string {
  return execFileSync('python3', ['-c', `import os,sys\n${code}`, ...args], { encoding: 'utf8' });
}

const set = (path: string, name: string, value: Buffer): string =>
  python('os.setxattr(sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3]))', path, name, value.toString('hex'));

const attributes = (path: string): unknown =>
  JSON.parse(
    python(
      'import json; print(json.dumps({n: os.getxattr(sys.argv[1], n).hex() for n in os.listxattr(sys.argv[1])}))',
      path,
    ),
  );

const folder = makeTemporaryFolder('actiond-attributes-');
const canSet = (name: string, value: Buffer): boolean => {
  const path = join(folder.path, 'probe');
  writeFileSync(path, '');
  try {
    set(path, name, value);
    return true;
  } catch {
    return false;
  } finally {
    rmSync(path);
  }
};

const kinds = [
  ['extended attributes', 'user.origin', Buffer.from('somewhere')],
  ['access lists', 'system.posix_acl_access', ACCESS_LIST],
] as const;

afterAll(() => folder.remove());

/** `cap_net_raw=ep` in the form of the kernel. */
const CAPABILITY = Buffer.from('0100000200200000000000000000000000000000', 'hex');

describe.skipIf(!canSet('security.capability', CAPABILITY))('file capabilities (need root)', () => {
  test('are for the old bytes alone', async () => {
    await using server = await TestServer.start();
    const path = join(folder.path, 'capable');
    writeFileSync(path, 'old\n', { mode: 0o755 });
    set(path, 'user.origin', Buffer.from('somewhere'));
    set(path, 'security.capability', CAPABILITY);
    await server.request('PUT', `/files${path}`, 'new');
    expect(attributes(path)).toEqual({ 'user.origin': Buffer.from('somewhere').toString('hex') });
    expect(statSync(path).mode & 0o777).toBe(0o755);
  });
});

describe.each(kinds)('%s', (_kind, name, value) => {
  // Not every file system has them.
  describe.skipIf(!canSet(name, value))('where the file system has them', () => {
    let server: TestServer;

    beforeAll(async () => {
      server = await TestServer.start();
    });

    afterAll(() => server[Symbol.asyncDispose]());

    const act = (action: string, args: object) => server.action({ action, args });

    const ways: Record<string, (path: string) => Promise<unknown>> = {
      write: (path) => act('write', { path, content: 'new' }),
      edit: (path) => act('edit', { path, command: 'str_replace', old_str: 'old', new_str: 'new' }),
      PUT: (path) => server.request('PUT', `/files${path}`, 'new'),
      upload: async (path) => {
        const form = new FormData();
        form.append('file', new Blob(['new']), path.slice(path.lastIndexOf('/') + 1));
        return fetch(`${server.url}/upload_file?destination=${folder.path}`, { method: 'POST', body: form });
      },
    };

    test.each(Object.keys(ways))('stay after %s', async (way) => {
      const path = join(folder.path, `${name}-${way}`);
      writeFileSync(path, 'old\n', { mode: 0o640 });
      set(path, name, value);
      const [before, old] = [attributes(path), statSync(path)];
      await ways[way]?.(path);
      const now = statSync(path);
      expect(attributes(path)).toEqual(before);
      expect([now.mode, now.uid, now.gid]).toEqual([old.mode, old.uid, old.gid]);
      expect(now.ino).not.toBe(old.ino);
      expect(now.mtimeMs).toBeGreaterThanOrEqual(old.mtimeMs);
      expect(readFileSync(path, 'utf8')).toContain('new');
    });

    test('stay too when the server made the file', async () => {
      const path = join(folder.path, `${name}-made`);
      await act('edit', { path, command: 'create', file_text: 'one\n' });
      await act('edit', { path, command: 'insert', insert_line: 0, new_str: 'zero' });
      set(path, name, value);
      const before = attributes(path);
      await act('edit', { path, command: 'str_replace', old_str: 'one', new_str: 'old' });
      await act('edit', { path, command: 'str_replace', old_str: 'old', new_str: 'new' });
      expect(attributes(path)).toEqual(before);
      expect(readFileSync(path, 'utf8')).toBe('zero\nnew\n');
    });
  });
});
