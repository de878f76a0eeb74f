/** A full disk under the state directory: no action runs without a record, readers are served, and it recovers by itself. Needs root. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, type TestContext } from 'vitest';
import { begin, ended, eventsOf, post, runOf } from '../support/actions.ts';
import { TestServer } from '../support/server.ts';
import { makeTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/wait.ts';

/** A file system of 4 MiB; the test is skipped where none can be mounted. */
class SmallDisk implements Disposable {
  readonly #folder = makeTemporaryFolder('actiond-full-');
  readonly path = join(this.#folder.path, 'disk');
  readonly #ballast = join(this.path, 'ballast');

  constructor(context: TestContext) {
    mkdirSync(this.path);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', this.path], { stdio: 'pipe' });
    } catch {
      this.#folder.remove();
      context.skip('no right to mount a file system');
    }
  }

  /** Leaves no byte. */
  fill(): void {
    const { bavail, bsize } = statfsSync(this.path);
    writeFileSync(this.#ballast, Buffer.alloc(bavail * bsize));
  }

  free(): void {
    rmSync(this.#ballast);
  }

  [Symbol.dispose](): void {
    execFileSync('umount', ['-l', this.path]);
    this.#folder.remove();
  }
}

const REFUSED = /not started.*could not be recorded.*free space on the disk of the state directory/;

/** Until an event does not fit any more; there is a little room in the last block. */
async function exhaust(server: TestServer): Promise<void> {
  await until('nothing fits any more', async () => {
    const { json } = await post(server, { action: 'read', args: { path: `/nowhere/${'x'.repeat(3000)}` } });
    return REFUSED.test(json.content as string);
  });
}

test('actions are refused, readers served, and with room again all works', async (context) => {
  using disk = new SmallDisk(context);
  await using server = await TestServer.start(['--state-dir', disk.path]);
  const mark = join(server.workingDir, 'mark');
  const before = await post(server, runOf('echo before'), { 'idempotency-key': 'before' });
  expect(before.json.content).toBe('before');
  disk.fill();
  await exhaust(server);

  const refused = await post(server, runOf(`touch ${mark}`), { 'idempotency-key': 'refused' });
  expect(refused.status).toBe(200);
  expect(refused.json).toMatchObject({ observation: 'error', content: expect.stringMatching(REFUSED) });
  const hidden = await post(server, runOf(`touch ${mark}`, { hidden: true }));
  expect(hidden.json).toMatchObject({
    observation: 'run',
    content: expect.stringMatching(REFUSED),
    extras: { hidden: true },
  });
  const later = await post(server, runOf(`touch ${mark}`), { prefer: 'respond-async' });
  expect(later.status).toBe(202);
  const { status, observation } = await ended(server, later.json.action_id as string);
  expect([status, observation?.content]).toEqual(['finished', expect.stringMatching(REFUSED)]);
  expect(existsSync(mark)).toBe(false);

  // Reading goes on, and so do answers that are known.
  const events = await eventsOf(server);
  expect(JSON.stringify(events)).toContain('echo before');
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => (events[0]?.seq ?? 0) + index));
  const again = await post(server, runOf('echo before'), { 'idempotency-key': 'before' });
  expect([again.headers.get('idempotent-replay'), again.json]).toEqual(['true', before.json]);
  expect((await server.request('GET', `/actions/${before.json.action_id}`)).json.status).toBe('finished');
  expect((await server.request('GET', '/actions')).status).toBe(200);
  expect((await server.request('GET', '/health')).status).toBe(200);
  expect((await server.request('GET', '/ready')).json.subsystems.events).toBe('failed');
  expect(String((await server.request('GET', '/metrics')).json)).toContain('actiond_event_log_writable 0');

  disk.free();
  await until(
    'the log can be written',
    async () => (await server.request('GET', '/ready')).json.subsystems.events === 'ready',
  );
  expect((await post(server, runOf('echo after'))).json.content).toBe('after');
  // What was refused has not run: with the same key it can now.
  const retried = await post(server, runOf(`touch ${mark}`), { 'idempotency-key': 'refused' });
  expect([retried.json.observation, existsSync(mark)]).toEqual(['run', true]);
  const all = await eventsOf(server);
  expect(all.map(({ seq }) => seq)).toEqual(all.map((_, index) => (all[0]?.seq ?? 0) + index));
  expect(JSON.stringify(all)).toContain('echo after');
});

test('an action at work when the disk fills up is answered', async (context) => {
  using disk = new SmallDisk(context);
  await using server = await TestServer.start(['--state-dir', disk.path]);
  const [on, go] = ['on', 'go'].map((name) => join(server.workingDir, name));
  const sent = post(
    server,
    runOf(`touch ${on}; until [ -e ${go} ]; do read -rt 0.02 <> <(:); done; echo result`, { session: 'a' }),
  );
  await until('it runs', () => existsSync(on ?? ''));
  disk.fill();
  await exhaust(server);
  writeFileSync(go ?? '', '');
  const { status, json } = await sent;
  expect([status, json.content]).toEqual([200, 'result']);
  disk.free();
  await until('its end is recorded', async () => {
    const { json: shown } = await server.request('GET', `/actions/${json.action_id}`);
    return shown.observation?.content === 'result';
  });
  const late = await begin(server, 'echo late');
  expect((await ended(server, late)).observation?.content).toBe('late');
});

test('what waited starts when the end of the one before is recorded, not sooner', async (context) => {
  using disk = new SmallDisk(context);
  await using server = await TestServer.start(['--state-dir', disk.path]);
  const [on, go, mark] = ['on', 'go', 'mark'].map((name) => join(server.workingDir, name));
  const first = post(server, runOf(`touch ${on}; until [ -e ${go} ]; do read -rt 0.02 <> <(:); done`));
  await until('it runs', () => existsSync(on ?? ''));
  const waiting = post(server, runOf(`touch ${mark}`), { 'idempotency-key': 'waits' });
  await until('the second one waits', async () => (await eventsOf(server)).filter(isAction).length === 2);
  disk.fill();
  await exhaust(server);
  writeFileSync(go ?? '', '');
  await first;
  expect((await waiting).json.content).toMatch(REFUSED);
  expect(existsSync(mark ?? '')).toBe(false);
  disk.free();
  await until('actions work', async () => (await post(server, runOf('echo on'))).json.content === 'on');
  expect((await post(server, runOf(`touch ${mark}`), { 'idempotency-key': 'waits' })).json.observation).toBe('run');
  expect(existsSync(mark ?? '')).toBe(true);
});

const isAction = ({ kind }: { readonly kind: string }): boolean => kind === 'action';

test('after a restart on a full disk: readers are served, and it recovers', async (context) => {
  using disk = new SmallDisk(context);
  {
    await using first = await TestServer.start(['--state-dir', disk.path]);
    expect((await post(first, runOf('echo before'))).json.content).toBe('before');
  }
  disk.fill();
  await using second = await TestServer.start(['--state-dir', disk.path]);
  await exhaust(second);
  expect(JSON.stringify(await eventsOf(second))).toContain('echo before');
  disk.free();
  await until('actions work', async () => (await post(second, runOf('echo after'))).json.content === 'after');
});
