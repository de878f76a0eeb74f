/** The daemon as it is built, with a kernel: nothing outlives it, however it ends. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { Build, Daemon } from '../support/built-server.ts';
import { JUPYTER_PYTHON, needsJupyter } from '../support/jupyter.ts';
import { processesWith } from '../support/processes.ts';
import { until } from '../support/wait.ts';

let build: Build;

beforeEach(needsJupyter);
beforeAll(() => void (build = new Build()));
afterAll(() => build[Symbol.dispose]());

function start(name: string): Daemon {
  const flags = ['--jupyter-python', JUPYTER_PYTHON, '--log-level', 'info', '--no-enable-browser'];
  return new Daemon(build, [
    '0',
    '--working-dir',
    build.directory(`${name}/work`),
    '--state-dir',
    build.directory(`${name}/state`),
    ...flags,
  ]);
}

async function cell(url: string, code: string): Promise<string> {
  const reply = await fetch(`${url}/execute_action`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ action: { action: 'run_ipython', args: { code, include_extra: false }, timeout: 60 } }),
  });
  return ((await reply.json()) as { content: string }).content;
}

/** A kernel, its gateway and two programs it has started. */
async function family(url: string, mark: string): Promise<number[]> {
  const programs = `import subprocess\nfor c in (["sleep", "${mark}"], ["setsid", "sleep", "${mark}"]): subprocess.Popen(c)`;
  const pids = await cell(url, `${programs}\nimport os\nprint(os.getpid(), os.getppid())`);
  return pids.split(' ').map(Number);
}

const living = (pids: readonly number[]): number[] => pids.filter((pid) => processesWith('').includes(pid));

test('SIGTERM ends kernel, gateway and what they started, with exit code 0', async () => {
  using daemon = start('term');
  const pids = await family(await daemon.url(), '77001');
  expect(pids).toHaveLength(2);
  expect(living(pids)).toHaveLength(2);
  daemon.signal('SIGTERM');
  expect(await daemon.exited).toEqual({ code: 0, signal: null });
  expect(living(pids)).toEqual([]);
  expect(processesWith('sleep 77001')).toEqual([]);
});

test('SIGKILL leaves neither kernel nor gateway', async () => {
  using daemon = start('kill');
  const pids = await family(await daemon.url(), '77002');
  daemon.signal('SIGKILL');
  await daemon.exited;
  await until('kernel and gateway gone', () => living(pids).length === 0);
  for (const pid of processesWith('sleep 77002')) process.kill(pid, 'SIGKILL');
});

test('two daemons have kernels of their own', async () => {
  using one = start('one');
  using two = start('two');
  const [first, second] = await Promise.all([one.url(), two.url()]);
  await cell(first, 'who = "one"');
  expect(await cell(second, 'print("who" in dir())')).toBe('False');
  for (const daemon of [one, two]) daemon.signal('SIGTERM');
  await Promise.all([one.exited, two.exited]);
});
