/** What a process of its own account may write is the kernel's to say, although a file is replaced and not opened. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, expect, test } from 'vitest';
import { FileAccess } from '../../../src/sandbox/file-access.ts';
import { makeTemporaryFolder } from '../../support/temporary-folder.ts';

const NOBODY = 65534;
const isRoot = process.getuid?.() === 0;
const folder = makeTemporaryFolder('actiond-rights-');
afterAll(() => folder.remove());

const sourceOf = (path: string): string => JSON.stringify(join(import.meta.dirname, '../../..', path));

const PROGRAM = `
  import { FileAccess } from ${sourceOf('src/sandbox/file-access.ts')};
  import { replaceFile } from ${sourceOf('executors/files/replacement.ts')};
  const access = new FileAccess({ roots: [] });
  const codes = [];
  for (const path of process.argv.slice(2))
    codes.push(await replaceFile(access, path, Buffer.from('new')).then(() => 'replaced', ({ code }) => code));
  console.log(JSON.stringify(codes));
`;

test('a file that is write-protected stays, also in a directory that may be written', async () => {
  chmodSync(folder.path, 0o755);
  const directory = join(folder.path, 'theirs');
  mkdirSync(directory);
  const [locked, free] = [join(directory, 'locked'), join(directory, 'free')];
  for (const path of [locked, free]) writeFileSync(path, 'old');
  if (isRoot) for (const path of [directory, locked, free]) chownSync(path, NOBODY, NOBODY);
  chmodSync(locked, 0o444);
  const outfile = join(folder.path, 'program.mjs');
  const stdin = { contents: PROGRAM, resolveDir: folder.path };
  await build({ stdin, outfile, bundle: true, platform: 'node', format: 'esm', target: 'node20', logLevel: 'error' });
  const init = isRoot ? ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups', '--'] : ['env'];
  const [program, ...args] = [...init, process.execPath, outfile, locked, free];
  expect(JSON.parse(execFileSync(program, args, { encoding: 'utf8' }))).toEqual(['EACCES', 'replaced']);
  expect([locked, free].map((path) => readFileSync(path, 'utf8'))).toEqual(['old', 'new']);
  expect(readdirSync(directory).toSorted()).toEqual(['free', 'locked']);
});

test.runIf(isRoot)('what takes the name of a new file before it is given away keeps its owner', async () => {
  const [made, other] = [join(folder.path, 'made'), join(folder.path, 'other')];
  const access = new FileAccess({ identity: { uid: NOBODY, gid: NOBODY, gids: new Set([NOBODY]) }, roots: [] });
  await using file = await open(made, 'wx');
  writeFileSync(other, 'of root');
  renameSync(other, made);
  await access.claimOpen(file, statSync(folder.path));
  expect((await file.stat()).uid).toBe(NOBODY);
  expect(statSync(made).uid).toBe(0);
});
