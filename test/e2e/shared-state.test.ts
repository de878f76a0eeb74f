/** Containers see none of each other's processes, but may share a volume. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Build, Daemon, run } from '../support/built-server.ts';

const IN_ITS_OWN_PROCESSES = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'];

let build: Build;
beforeAll(() => {
  build = new Build();
});
afterAll(() => build[Symbol.dispose]());

describe.skipIf(process.getuid?.() !== 0)('two daemons that do not see each other (needs root)', () => {
  test('the second one on a state directory is refused; after the first was killed it serves', async () => {
    const directory = build.directory('state');
    const start = (): Daemon =>
      new Daemon(build, ['0', '--state-dir', directory, '--working-dir', directory], { init: IN_ITS_OWN_PROCESSES });
    using first = start();
    const url = await first.url();
    using second = start();
    expect((await second.exited).code).toBe(1);
    expect(second.stderr).toContain(`${directory} is in use by a running server in another container`);
    expect((await run(url, 'echo lives')).content).toBe('lives');
    first.signal('SIGKILL');
    await first.exited;
    using third = start();
    expect((await run(await third.url(), 'echo serves')).content).toBe('serves');
  });
});
