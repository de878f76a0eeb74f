/** The daemon within limits of memory as containers have them. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Build, Daemon, run } from '../support/built-server.ts';
import { JUPYTER_PYTHON, needsJupyter } from '../support/jupyter.ts';
import { canLimitMemory, MemoryGroup } from '../support/memory-group.ts';

const MiB = 2 ** 20;
const HOG = `python3 -c 'x = bytearray(2 ** 31)'; (exit $?)`;

let build: Build;
let directories = 0;
beforeAll(() => {
  build = new Build();
});
afterAll(() => build[Symbol.dispose]());

function startIn(group: MemoryGroup): Daemon {
  const directory = build.directory(`state-${(directories += 1)}`);
  const flags = ['0', '--state-dir', directory, '--working-dir', directory, '--jupyter-python', JUPYTER_PYTHON];
  return new Daemon(build, flags, { init: group.starter });
}

// A process that was killed stays in its group for a moment: the group goes last.
describe.skipIf(!canLimitMemory)('within a limit (needs root and control groups of version 1)', () => {
  test('128 MiB: a hog is killed, not the daemon, time and again', async () => {
    await using group = new MemoryGroup(128 * MiB);
    using daemon = startIn(group);
    const url = await daemon.url();
    expect((await run(url, 'cat /proc/self/oom_score_adj')).content).toBe('1000');
    for (let round = 0; round < 3; round += 1) {
      const hog = await run(url, HOG);
      expect([hog.exitCode, hog.suffix]).toEqual([137, expect.stringContaining('ran out of memory')]);
    }
    expect((await run(url, 'echo lives')).content).toBe('lives');
    expect(daemon.stderr).not.toContain('memory limit');
  });

  test('100 MiB: told at the start', async () => {
    await using group = new MemoryGroup(100 * MiB);
    using daemon = startIn(group);
    await daemon.url();
    expect(daemon.stderr).toMatch(/^actiond: the memory limit here is 100 MiB, and it takes 128 at least/);
  });

  test('256 MiB: a cell is killed and told why, the next one works', async (context) => {
    needsJupyter(context);
    await using group = new MemoryGroup(256 * MiB);
    using daemon = startIn(group);
    const url = await daemon.url();
    const cell = async (code: string): Promise<string> => {
      const body = JSON.stringify({ action: { action: 'run_ipython', args: { code, include_extra: false } } });
      const headers = { 'content-type': 'application/json' };
      const reply = await fetch(`${url}/execute_action`, { method: 'POST', headers, body });
      return ((await reply.json()) as { content: string }).content;
    };
    expect(await cell('print(6 * 7)')).toBe('42');
    expect(await cell("print(open('/proc/self/oom_score_adj').read())")).toBe('1000');
    expect(await cell('x = bytearray(2 ** 31)')).toMatch(/\(killed by signal 9: the sandbox ran out of memory\)/);
    expect(await cell('print(6 * 8)')).toBe('48');
  });
});
