import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, constants, mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { searchWithRipgrep } from '../../../executors/files/search-ripgrep.ts';
import { SearchFilesRequest } from '../../../src/protocol/http.ts';
import type { Identity } from '../../../src/sandbox/identity.ts';
import { Pin } from '../../../src/sandbox/pin.ts';
import { makeTemporaryFolder } from '../../support/temporary-folder.ts';

const NOBODY = 65_534;
const GROUP = 54_321;

let folder: ReturnType<typeof makeTemporaryFolder>;
let root: string;

beforeEach((context) => {
  context.skip(spawnSync('rg', ['--version']).status !== 0, 'ripgrep is not installed');
  folder = makeTemporaryFolder('actiond-search-');
  chmodSync(folder.path, 0o755);
  root = join(folder.path, 'root');
  mkdirSync(root, { mode: 0o755 });
});

afterEach(() => folder?.remove());

async function search(identity?: Identity, meanwhile = (): void => {}): Promise<string[]> {
  const handle = await open(root, constants.O_RDONLY | constants.O_DIRECTORY);
  await using pin = new Pin(handle, root, await handle.stat());
  meanwhile();
  const request = SearchFilesRequest.parse({ path: root, pattern: 'needle' });
  const env = { PATH: process.env['PATH'] ?? '' };
  const { signal } = new AbortController();
  const paths: string[] = [];
  for await (const { path } of searchWithRipgrep({ root: pin, request, env, identity, signal })) paths.push(path);
  return paths;
}

test('what takes the place of the directory is not searched', async () => {
  const [outside, moved] = ['outside', 'moved'].map((name) => join(folder.path, name)) as [string, string];
  mkdirSync(outside);
  writeFileSync(join(outside, 'secret.txt'), 'needle');
  writeFileSync(join(root, 'inside.txt'), 'needle');
  const found = await search(undefined, () => {
    renameSync(root, moved);
    symlinkSync(outside, root);
  });
  expect(found).toEqual([join(root, 'inside.txt')]);
});

test('what a group of the account may read is found, and nothing else', async (context) => {
  context.skip(process.getuid?.() !== 0, 'needs root');
  context.skip(spawnSync('setpriv', ['--version']).status !== 0, 'needs setpriv');
  for (const [name, gid] of [
    ['ours', GROUP],
    ['theirs', GROUP + 1],
  ] as const) {
    writeFileSync(join(root, name), 'needle', { mode: 0o640 });
    chownSync(join(root, name), 0, gid);
  }
  const identity = { uid: NOBODY, gid: NOBODY, gids: new Set([NOBODY, GROUP]) };
  expect(await search(identity)).toEqual([join(root, 'ours')]);
  // One group alone goes without another program.
  expect(await search({ uid: NOBODY, gid: GROUP, gids: new Set([GROUP]) })).toEqual([join(root, 'ours')]);
});
