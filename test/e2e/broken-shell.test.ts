/** A sandbox whose bash cannot be started: told as such, and everything else is served. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Build, Daemon, run } from '../support/built-server.ts';

/** Puts a file where bash is, for what it starts only. */
const INSTEAD_OF_BASH = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c'].concat(
  'mount --bind "$0" /bin/bash && exec "$@"',
);

let build: Build;
beforeAll(() => {
  build = new Build();
});
afterAll(() => build[Symbol.dispose]());

let directories = 0;
function startWith(bash: string): Daemon {
  const directory = build.directory(`state-${(directories += 1)}`);
  const file = join(directory, 'bash');
  writeFileSync(file, bash, { mode: bash.startsWith('#!') ? 0o755 : 0o644 });
  return new Daemon(build, ['0', '--state-dir', directory, '--working-dir', directory], {
    init: [...INSTEAD_OF_BASH, file],
  });
}

describe.skipIf(process.getuid?.() !== 0)('/ready says failed and why, and so does an action (needs root)', () => {
  test.each([
    ['one that ends at once', '#!/bin/sh\nexit 3\n', /^bash ended while it started \(exit code 3\)$/],
    ['one that says why it ends', '#!/bin/sh\necho no; echo way\nexit 3\n', / \(exit code 3\): no way$/],
    ['one that is killed', '#!/bin/sh\nkill -9 $$\n', / \(killed by signal 9\)$/],
    ['no program', 'x', /^\/bin\/bash cannot be executed \(Permission denied\): install bash$/],
  ])('%s', async (_, bash, why) => {
    using daemon = startWith(bash);
    const url = await daemon.url();
    const ready = async () => {
      const reply = await fetch(`${url}/ready`);
      const { status, subsystems, reasons } = (await reply.json()) as Record<string, Record<string, string>>;
      return { code: reply.status, status, bash: subsystems?.['bash'], why: reasons?.['bash'] };
    };
    const prefix = 'bash could not be started: ';
    const { why: reason, ...state } = await ready();
    expect(state).toEqual({ code: 503, status: 'failed', bash: 'failed' });
    expect(reason?.startsWith(prefix)).toBe(true);
    expect(reason?.slice(prefix.length)).toMatch(why);
    expect((await run(url, 'echo hi')).content).toBe(reason);
    expect((await fetch(`${url}/alive`)).status).toBe(200);
  });
});
