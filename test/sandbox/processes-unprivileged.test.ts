/** Root without CAP_SYS_PTRACE, as in a container with Docker's usual capabilities, sees into the processes of the sandbox's user. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, expect, test } from 'vitest';
import { makeTemporaryFolder } from '../support/temporary-folder.ts';

const folder = makeTemporaryFolder('unprivileged-');
afterAll(() => folder.remove());

const PROGRAM = `
  import { spawn } from 'node:child_process';
  import { readFileSync } from 'node:fs';
  import { descriptorTarget, findProcesses, workingDirectory } from ${JSON.stringify(join(import.meta.dirname, '../../src/sandbox/processes.ts'))};
  const options = { cwd: '/usr', env: { PATH: process.env.PATH, MARK: 'x y' }, stdio: ['pipe', 'ignore', 'ignore'] };
  const child = spawn('setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', '--', 'cat'], options);
  while (!readFileSync('/proc/' + child.pid + '/cmdline', 'utf8').startsWith('cat')) await new Promise((resolve) => setTimeout(resolve, 10));
  let isDenied = false;
  try { readFileSync('/proc/' + child.pid + '/environ'); } catch { isDenied = true; }
  const found = (mark) => findProcesses({ mark }).some(({ pid }) => pid === child.pid);
  console.log(JSON.stringify({
    isDenied, cwd: workingDirectory(child.pid), input: descriptorTarget(child.pid, 0)?.split(':')[0],
    marked: found('MARK=x y'), other: found('MARK=x'),
  }));
  child.kill('SIGKILL');
`;

test.runIf(process.getuid?.() === 0)('their directory, descriptors and marks', async () => {
  const outfile = join(folder.path, 'program.mjs');
  const stdin = { contents: PROGRAM, resolveDir: folder.path };
  await build({ stdin, outfile, bundle: true, platform: 'node', format: 'esm', logLevel: 'error' });
  // Docker gives none of these three, each of which is enough.
  const without = '-sys_ptrace,-perfmon,-sys_admin';
  const caps = [`--bounding-set=${without}`, `--inh-caps=${without}`];
  const output = execFileSync('setpriv', [...caps, '--', process.execPath, outfile], { encoding: 'utf8' });
  expect(JSON.parse(output)).toEqual({
    isDenied: true,
    cwd: '/usr',
    input: expect.stringMatching(/^(pipe|socket)$/),
    marked: true,
    other: false,
  });
});
