/** Actions as resources: repeats, answers that come later, lists, waiting, cancelling, and all of it after a restart. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LoggedEvent } from '../../src/events/types.ts';
import { begin, cancel, ended, eventsOf, look, outputOf, post, runOf } from '../support/actions.ts';
import { RawConnection } from '../support/http.ts';
import { TestServer } from '../support/server.ts';
import { makeTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/wait.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

let names = 0;
/** A word that no other test uses: for keys, sessions and files. */
function fresh(): string {
  names += 1;
  return `n${names}`;
}

const file = (name: string): string => join(server.workingDir, name);
const linesOf = (name: string): string[] => readFileSync(file(name), 'utf8').split('\n').filter(Boolean);
/** Runs until the file `${name}.go` is there, after it has made `${name}.on`. */
const blocker = (name: string): string =>
  `touch ${file(`${name}.on`)}; until [ -e ${file(`${name}.go`)} ]; do read -rt 0.02 <> <(:); done; echo done-${name}`;
const isOn = (name: string): Promise<void> => until(`${name} runs`, () => existsSync(file(`${name}.on`)));
const release = (name: string): void => writeFileSync(file(`${name}.go`), '');

describe('Idempotency-Key', () => {
  test('a repeat gets the recorded answer and runs nothing', async () => {
    const name = fresh();
    const action = runOf(`echo ran >> ${file(name)}; echo $RANDOM$RANDOM`);
    const first = await post(server, action, { 'idempotency-key': name });
    const second = await post(server, action, { 'idempotency-key': name });
    expect([first.status, second.status]).toEqual([200, 200]);
    expect(first.headers.get('idempotent-replay')).toBeNull();
    expect(second.headers.get('idempotent-replay')).toBe('true');
    expect(second.json).toEqual(first.json);
    expect(linesOf(name)).toEqual(['ran']);
    const events = await eventsOf(server, first.json.action_id as string);
    expect(events.filter(({ kind }) => kind !== 'output').map(({ kind }) => kind)).toEqual(['action', 'observation']);
  });

  test('a repeat while it runs joins it', async () => {
    const name = fresh();
    const action = runOf(`echo ran >> ${file(`${name}.log`)}; ${blocker(name)}`, { session: name });
    const replies = [post(server, action, { 'idempotency-key': name })];
    await isOn(name);
    replies.push(post(server, action, { 'idempotency-key': name }));
    const asked = await post(server, action, { 'idempotency-key': name, prefer: 'respond-async' });
    expect([asked.status, asked.json.status, asked.headers.get('idempotent-replay')]).toEqual([202, 'running', 'true']);
    release(name);
    const [first, second] = await Promise.all(replies);
    expect(second?.json).toEqual(first?.json);
    expect(second?.json.action_id).toBe(asked.json.action_id);
    expect([first, second].map((reply) => reply?.headers.get('idempotent-replay'))).toEqual([null, 'true']);
    expect(linesOf(`${name}.log`)).toEqual(['ran']);
  });

  test('twenty at the same moment: one runs', async () => {
    const name = fresh();
    const action = runOf(`echo ran >> ${file(name)}; echo $RANDOM$RANDOM`);
    const replies = await Promise.all(
      Array.from({ length: 20 }, () => post(server, action, { 'idempotency-key': name })),
    );
    expect(new Set(replies.map(({ json }) => JSON.stringify(json))).size).toBe(1);
    expect(replies.filter(({ headers }) => headers.get('idempotent-replay') === 'true')).toHaveLength(19);
    expect(linesOf(name)).toEqual(['ran']);
  });

  test.each([
    ['another command', (): object => runOf('echo b')],
    ['another session', (): object => runOf('echo a', { session: 'else' })],
    ['another timeout', (): object => runOf('echo a', { timeout: 7 })],
    ['another type', (): object => ({ action: 'read', args: { path: '/etc/hostname' } })],
  ])('%s under the same key: 422', async (_, other) => {
    const name = fresh();
    const first = await post(server, runOf('echo a'), { 'idempotency-key': name });
    const { status, json } = await post(server, other(), { 'idempotency-key': name });
    expect(status).toBe(422);
    expect(json.detail).toMatch(/Idempotency-Key/);
    const again = await post(server, runOf('echo a'), { 'idempotency-key': name });
    expect(again.json).toEqual(first.json);
  });

  test('what is not part of the action makes no other one', async () => {
    const name = fresh();
    const first = await post(server, { ...runOf('echo a'), id: 1, timestamp: 'x' }, { 'idempotency-key': name });
    const second = await post(server, { ...runOf('echo a'), id: 2, timestamp: 'y' }, { 'idempotency-key': name });
    expect(second.json).toEqual(first.json);
  });

  test.each([
    ['empty', ''],
    ['too long', 'x'.repeat(256)],
  ])('%s: 422 that names it', async (_, key) => {
    const { status, json } = await post(server, runOf('echo a'), { 'idempotency-key': key });
    expect(status).toBe(422);
    expect(json.errors).toContain('Idempotency-Key');
  });

  test('255 characters are taken', async () => {
    const key = `${fresh()}${'x'.repeat(300)}`.slice(0, 255);
    expect((await post(server, runOf('echo a'), { 'idempotency-key': key })).status).toBe(200);
    expect((await post(server, runOf('echo a'), { 'idempotency-key': key })).headers.get('idempotent-replay')).toBe(
      'true',
    );
  });

  test('an error is an answer too', async () => {
    const name = fresh();
    const action = { action: 'read', args: { path: file(name) } };
    const first = await post(server, action, { 'idempotency-key': name });
    expect(first.json.observation).toBe('error');
    writeFileSync(file(name), 'here now');
    const second = await post(server, action, { 'idempotency-key': name });
    expect(second.json).toEqual(first.json);
  });

  test('after the connection broke: the same run, its answer', async () => {
    const name = fresh();
    const action = runOf(`echo ran >> ${file(`${name}.log`)}; ${blocker(name)}`, { session: name });
    const body = JSON.stringify({ action });
    using connection = await RawConnection.open(server.url);
    const head = [
      'POST /execute_action HTTP/1.1',
      'host: localhost',
      'content-type: application/json',
      `idempotency-key: ${name}`,
      `content-length: ${body.length}`,
    ];
    await connection.send(`${head.join('\r\n')}\r\n\r\n${body}`);
    await isOn(name);
    connection.reset();
    const again = post(server, action, { 'idempotency-key': name });
    release(name);
    const { json, headers } = await again;
    expect([json.content, headers.get('idempotent-replay')]).toEqual([`done-${name}`, 'true']);
    expect(linesOf(`${name}.log`)).toEqual(['ran']);
  });
});

describe('id and timestamp of a V0 client', () => {
  const named = (action: object, id: unknown, timestamp: string | undefined): object => ({
    ...action,
    id,
    ...(timestamp === undefined ? {} : { timestamp }),
  });

  test('the same action again is a repeat', async () => {
    const name = fresh();
    const action = named(runOf(`echo ran >> ${file(name)}; echo $RANDOM`), 7, '2026-01-01T00:00:00.000001');
    const first = await post(server, action);
    const second = await post(server, action);
    expect(second.json).toEqual(first.json);
    expect(second.headers.get('idempotent-replay')).toBe('true');
    expect(linesOf(name)).toEqual(['ran']);
  });

  test('another time, another id, other args, or no time: another action', async () => {
    const name = fresh();
    const action = runOf(`echo ran >> ${file(name)}`);
    const time = `2026-01-02T00:00:00.${name}`;
    const all = [
      named(action, 1, time),
      named(action, 2, time),
      named(action, 1, `${time}1`),
      named(runOf(`echo ran >> ${file(name)}; :`), 1, time),
      named(action, 1, undefined),
      named(action, 1, undefined),
    ];
    for (const one of all) expect((await post(server, one)).headers.get('idempotent-replay')).toBeNull();
    expect(linesOf(name)).toHaveLength(all.length);
  });
});

describe('Prefer: respond-async', () => {
  test('202 at once with the place to ask; the result is there later', async () => {
    const name = fresh();
    const reply = await post(server, runOf(blocker(name), { session: name }), { prefer: 'respond-async' });
    const id = reply.json.action_id as string;
    expect(reply.status).toBe(202);
    expect(reply.json).toEqual({ action_id: id, status: expect.stringMatching(/^(queued|running)$/) });
    expect([reply.headers.get('location'), reply.headers.get('preference-applied')]).toEqual([
      `/actions/${id}`,
      'respond-async',
    ]);
    await isOn(name);
    const now = await look(server, id);
    expect(now).toMatchObject({ action_id: id, status: 'running', lane: `bash:${name}`, finished: null });
    expect(now).not.toHaveProperty('observation');
    release(name);
    const over = await ended(server, id);
    expect(over).toMatchObject({ status: 'finished', observation: { content: `done-${name}` } });
    expect(Date.parse(over.created)).toBeLessThanOrEqual(Date.parse(over.started ?? ''));
    expect(Date.parse(over.started ?? '')).toBeLessThanOrEqual(Date.parse(over.finished ?? ''));
    expect(await look(server, id)).toEqual(over);
  });

  test.each(['Respond-Async', 'wait=5, respond-async', 'respond-async; wait=10'])('%s', async (prefer) => {
    expect((await post(server, runOf('true'), { prefer })).status).toBe(202);
  });

  test('other preferences are ignored', async () => {
    expect((await post(server, runOf('true'), { prefer: 'return=minimal' })).status).toBe(200);
  });

  test('a mistake in the action is answered at once', async () => {
    const { status, json } = await post(server, { action: 'run', args: {} }, { prefer: 'respond-async' });
    expect([status, json.observation]).toEqual([200, 'error']);
  });

  test('one that waits in its lane is queued', async () => {
    const name = fresh();
    await begin(server, blocker(name), { session: name });
    await isOn(name);
    const waiting = await begin(server, 'echo second', { session: name });
    expect(await look(server, waiting)).toMatchObject({ status: 'queued', started: null, finished: null });
    release(name);
    expect(await ended(server, waiting)).toMatchObject({ status: 'finished', observation: { content: 'second' } });
  });
});

describe('GET /actions', () => {
  test('newest first, with status, limit and without observations', async () => {
    const name = fresh();
    const done = [await begin(server, 'echo 1', { session: name }), await begin(server, 'echo 2', { session: name })];
    for (const id of done) await ended(server, id);
    const running = await begin(server, blocker(name), { session: name });
    await isOn(name);
    const queued = await begin(server, 'echo 3', { session: name });
    const list = async (query: string): Promise<{ action_id: string; status: string }[]> =>
      (await server.request('GET', `/actions${query}`)).json.actions;
    const all = await list('');
    expect(all.slice(0, 4).map(({ action_id: id }) => id)).toEqual([queued, running, ...done.toReversed()]);
    expect(all.slice(0, 4).map(({ status }) => status)).toEqual(['queued', 'running', 'finished', 'finished']);
    for (const one of all) expect(one).not.toHaveProperty('observation');
    expect((await list('?status=running')).map(({ action_id: id }) => id)).toEqual([running]);
    expect((await list('?status=queued')).map(({ action_id: id }) => id)).toEqual([queued]);
    expect((await list('?status=finished&limit=1')).map(({ action_id: id }) => id)).toEqual([done[1]]);
    expect(await list('?limit=3')).toHaveLength(3);
    release(name);
    await ended(server, queued);
    expect(await list('?status=running')).toEqual([]);
  });

  test.each([
    ['limit=0', 'limit'],
    ['limit=501', 'limit'],
    ['limit=-1', 'limit'],
    ['limit=x', 'limit'],
    ['limit=', 'limit'],
    ['limit=1e2', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['limit=99999999999999999999', 'limit'],
    ['status=asleep', 'status'],
    ['status=', 'status'],
    ['status=running&status=queued', 'status'],
  ])('%s: 422 that names it', async (query, field) => {
    const { status, json } = await server.request('GET', `/actions?${query}`);
    expect(status).toBe(422);
    expect(json.errors).toContain(`query.${field}: expected`);
  });

  test('a hidden one shows nothing', async () => {
    const name = fresh();
    const id = await begin(server, `: hush-${name}; ${blocker(name)}`, { session: name, hidden: true });
    await isOn(name);
    expect((await look(server, id)).action).toEqual({ action: 'run', args: { hidden: true } });
    release(name);
    const over = await ended(server, id);
    expect(over).toMatchObject({ status: 'finished', action: { action: 'run', args: { hidden: true } } });
    expect(JSON.stringify(over)).not.toContain(`done-${name}`);
    expect(JSON.stringify((await server.request('GET', '/actions')).json)).not.toContain(`hush-${name}`);
  });
});

describe('GET /actions/{id}', () => {
  test('?wait answers when the action ends', async () => {
    const name = fresh();
    const id = await begin(server, blocker(name), { session: name });
    await isOn(name);
    const waiting = ended(server, id);
    release(name);
    expect(await waiting).toMatchObject({ status: 'finished', observation: { content: `done-${name}` } });
  });

  test('?wait is over before the action: as it is', async () => {
    const name = fresh();
    const id = await begin(server, blocker(name), { session: name });
    const { status, json } = await server.request('GET', `/actions/${id}?wait=1`);
    expect([status, json.status]).toEqual([200, 'running']);
    release(name);
    await ended(server, id);
  });

  test.each(['wait=-1', 'wait=301', 'wait=soon', 'wait=1.5', 'wait='])('%s: 422 that names it', async (query) => {
    const id = await begin(server, 'true');
    const { status, json } = await server.request('GET', `/actions/${id}?${query}`);
    expect(status).toBe(422);
    expect(json.errors).toContain('query.wait: expected');
  });

  test.each(['nobody', '00000000-0000-4000-8000-000000000000', '%00', '__proto__', 'constructor', 'x'.repeat(90)])(
    '%s: 404',
    async (id) => {
      expect((await server.request('GET', `/actions/${id}?wait=1`)).status).toBe(404);
      expect((await server.request('POST', `/actions/${id}/cancel`)).status).toBe(404);
    },
  );

  test('has what the answer had', async () => {
    const { json } = await post(server, runOf('echo a; exit_with() { return 3; }; exit_with'));
    const { action_id: id, duration_ms: _, ...observation } = json as { action_id: string; duration_ms: number };
    expect((await look(server, id)).observation).toEqual(observation);
  });

  test('an observation too large for one event is whole', async () => {
    const path = file(fresh());
    writeFileSync(path, 'x'.repeat(400_000));
    const { json } = await post(server, { action: 'read', args: { path } });
    const { observation } = await look(server, json.action_id as string);
    expect(observation?.content.length).toBe((json.content as string).length);
    expect(observation?.content).toBe(json.content);
  });
});

describe('POST /actions/{id}/cancel', () => {
  test.each([
    ['no body', undefined],
    ['a body of no bytes that is called JSON', ''],
    ['blanks', ' \n'],
    ['an object', '{}'],
  ])('%s is all the same', async (_, body) => {
    const id = await begin(server, 'echo over', { session: fresh() });
    await ended(server, id);
    const { status, json } = await server.request('POST', `/actions/${id}/cancel`, body);
    expect([status, json.status]).toEqual([200, 'finished']);
  });

  test.each(['text/plain', 'application/x-www-form-urlencoded'])('no bytes that are called %s', async (type) => {
    const id = await begin(server, 'echo over', { session: fresh() });
    await ended(server, id);
    const headers = { 'content-type': type };
    expect((await server.request('POST', `/actions/${id}/cancel`, '', headers)).status).toBe(200);
    expect((await server.request('DELETE', '/sessions/bash:never', undefined, headers)).status).toBe(404);
    const refused = await server.request('POST', `/actions/${id}/cancel`, 'a=b', headers);
    expect([refused.status, refused.json.errors]).toEqual([422, expect.stringContaining('Content-Type')]);
    // Where a body is needed, its absence is what is wrong.
    const needed = await server.request('POST', '/execute_action', '', headers);
    expect([needed.status, needed.json.errors]).toEqual([422, expect.stringContaining('body')]);
  });

  test('one that waits: its caller is answered at once, it never runs, the later ones do', async () => {
    const name = fresh();
    const first = await begin(server, blocker(name), { session: name });
    await isOn(name);
    const second = await begin(server, `touch ${file(`${name}.ran`)}`, { session: name });
    const third = await begin(server, 'echo third', { session: name });
    const caller = server.request('GET', `/actions/${second}?wait=60`);
    const cancelled = await cancel(server, second);
    expect(cancelled).toMatchObject({
      status: 'cancelled',
      observation: { observation: 'error', content: expect.stringContaining('cancelled') },
    });
    expect((await caller).json).toEqual(cancelled);
    expect((await look(server, first)).status).toBe('running');
    release(name);
    expect((await ended(server, first)).status).toBe('finished');
    expect(await ended(server, third)).toMatchObject({ status: 'finished', observation: { content: 'third' } });
    expect(existsSync(file(`${name}.ran`))).toBe(false);
    expect(await look(server, second)).toEqual(cancelled);
  });

  test('all that wait, and then the one at work', async () => {
    const name = fresh();
    const first = await begin(server, blocker(name), { session: name });
    await isOn(name);
    const waiting = await Promise.all(
      Array.from({ length: 10 }, (_, n) => begin(server, `echo ${n}`, { session: name })),
    );
    const cancelled = await Promise.all(waiting.map((id) => cancel(server, id)));
    expect(cancelled.map(({ status }) => status)).toEqual(waiting.map(() => 'cancelled'));
    expect((await cancel(server, first)).status).toBe('cancelled');
    expect((await server.run('echo next', { session: name })).content).toBe('next');
  });

  test('a hidden one that waits gets the kind of observation its client can take', async () => {
    const name = fresh();
    await begin(server, blocker(name), { session: name });
    await isOn(name);
    const sent = post(server, runOf('echo x', { session: name, hidden: true }));
    let id: string | undefined;
    await until('it waits', async () => {
      const { json } = await server.request('GET', '/actions?status=queued');
      id = json.actions[0]?.action_id;
      return id !== undefined;
    });
    await cancel(server, id ?? '');
    expect((await sent).json).toMatchObject({ observation: 'run', extras: { hidden: true } });
    release(name);
    await server.run('true', { session: name });
  });

  test('one that is over stays as it is', async () => {
    const id = await begin(server, 'echo over');
    const before = await ended(server, id);
    expect(await cancel(server, id)).toEqual(before);
    expect(before.status).toBe('finished');
  });

  test('one at work, twice at a time: both are told the end, and a repeat gets it too', async () => {
    const name = fresh();
    const action = runOf(`echo so-far; ${blocker(name)}`, { session: name });
    const caller = post(server, action, { 'idempotency-key': name });
    await isOn(name);
    const { json } = await server.request('GET', '/actions?status=running');
    const id =
      (json.actions as { action_id: string; lane: string }[]).find(({ lane }) => lane === `bash:${name}`)?.action_id ??
      '';
    const [one, two] = await Promise.all([cancel(server, id), cancel(server, id)]);
    expect(one).toMatchObject({
      status: 'cancelled',
      observation: { observation: 'run', content: expect.stringContaining('so-far') },
    });
    expect(two).toEqual(one);
    expect((await caller).json).toMatchObject(one.observation ?? {});
    const again = await post(server, action, { 'idempotency-key': name });
    expect([again.headers.get('idempotent-replay'), again.json]).toEqual(['true', (await caller).json]);
  });
});

describe('live output', () => {
  test('comes while the command runs, in order, and before the observation', async () => {
    const name = fresh();
    const id = await begin(server, `echo first-${name}; ${blocker(name)}`, { session: name });
    await until('the first line', async () => outputOf(await eventsOf(server, id)).includes(`first-${name}`));
    expect((await look(server, id)).status).toBe('running');
    release(name);
    await ended(server, id);
    const events = await eventsOf(server, id);
    expect(events.map(({ kind }) => kind)).toEqual([
      'action',
      ...events.slice(1, -1).map(() => 'output'),
      'observation',
    ]);
    expect(outputOf(events).replaceAll('\r', '')).toBe(`first-${name}\ndone-${name}\n`);
  });

  test('many lines of many bytes: whole, in order, code points intact, each event within its size', async () => {
    const command = `python3 -c "for n in range(20000): print(n, 'żółć😀' * 5)"`;
    const reply = await post(server, runOf(command));
    const events = await eventsOf(server, reply.json.action_id as string);
    const expected = Array.from({ length: 20_000 }, (_, n) => `${n} ${'żółć😀'.repeat(5)}\n`).join('');
    expect(outputOf(events).replaceAll('\r', '') === expected).toBe(true);
    for (const event of events) {
      if (event.kind !== 'output') continue;
      const text = String(event['text']);
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(65_536);
      expect(text).not.toMatch(/\p{Surrogate}/u);
    }
    expect(events.at(-1)?.kind).toBe('observation');
  });

  test('a character whose bytes come one by one', async () => {
    const name = fresh();
    const bytes = [...Buffer.from('a😀ż')].map((byte) => `\\\\x${byte.toString(16)}`);
    const pieces = bytes.map((byte, n) => `printf '${byte.replace('\\\\', '\\')}'; : ${n}`).join('; ');
    const { json } = await post(server, runOf(`${pieces}; echo ${name}`));
    const text = outputOf(await eventsOf(server, json.action_id as string));
    expect(text.replaceAll('\r', '')).toBe(`a😀ż${name}\n`);
  });

  test('is kept up to --max-output-event-bytes; the answer is not affected', async () => {
    await using small = await TestServer.start(['--max-output-event-bytes', '10000']);
    const { json } = await post(small, runOf(`python3 -c "print('x' * 60000)"; echo the-end`));
    expect(json.content).toMatch(/the-end$/);
    const events = await eventsOf(small, json.action_id as string);
    const outputs = events.filter(({ kind }) => kind === 'output');
    expect(Buffer.byteLength(outputOf(events))).toBeGreaterThan(0);
    expect(Buffer.byteLength(outputOf(events))).toBeLessThanOrEqual(10_000);
    expect(outputs.filter((event) => event['truncated'] === true)).toHaveLength(1);
    expect(outputs.at(-1)?.['truncated']).toBe(true);
    expect(events.at(-1)?.kind).toBe('observation');
    const next = await post(small, runOf('echo again'));
    expect(outputOf(await eventsOf(small, next.json.action_id as string)).trim()).toBe('again');
  });

  test('of a program that is polled: nothing belongs to an action that has been answered', async () => {
    await using quick = await TestServer.start([], { NO_CHANGE_TIMEOUT_SECONDS: '1' });
    const go = join(quick.workingDir, 'go');
    const first = await quick.soft(
      `echo one; until [ -e ${go} ]; do read -rt 0.02 <> <(:); done; echo two; until [ -e ${go}2 ]; do read -rt 0.02 <> <(:); done; echo three`,
    );
    expect([first.exitCode, first.content]).toEqual([-1, 'one']);
    writeFileSync(go, '');
    const second = await quick.soft('');
    expect([second.exitCode, second.content]).toEqual([-1, 'two']);
    writeFileSync(`${go}2`, '');
    const third = await quick.soft('');
    expect(third.content).toBe('three');
    const events = await eventsOf(quick);
    const over = new Set<string>();
    const late = [];
    for (const event of events) {
      if (event.kind === 'observation') over.add(event.action_id ?? '');
      if (event.kind === 'output' && over.has(event.action_id ?? '')) late.push(event['text']);
    }
    expect(late).toEqual([]);
    expect(outputOf(events).replaceAll('\r', '')).toBe('one\ntwo\nthree\n');
  });
});

test('what retention drops is told in the log, with where it begins now', async () => {
  await using small = await TestServer.start(['--max-log-bytes', '1MiB']);
  const path = `/nowhere/${'x'.repeat(4000)}`;
  const trims = async (): Promise<LoggedEvent[]> => {
    const { json } = await small.request('GET', '/events?kind=server&limit=1000');
    return (json.events as LoggedEvent[]).filter((event) => event['event'] === 'trimmed');
  };
  await until('something is dropped', async () => {
    for (let n = 0; n < 20; n += 1) await post(small, { action: 'read', args: { path } });
    return (await trims()).length > 0;
  });
  const { json } = await small.request('GET', '/events?limit=1');
  expect(json.oldest).toBeGreaterThan(1);
  expect((await trims()).at(-1)).toMatchObject({ kind: 'server', event: 'trimmed', oldest: json.oldest });
});

describe('after a restart', () => {
  test('results, lists, repeats and cancelled ones are as before', async () => {
    const folder = makeTemporaryFolder('actiond-restart-');
    try {
      const flags = ['--state-dir', join(folder.path, 'state')];
      const action = runOf(`echo ran >> ${join(folder.path, 'ledger')}; echo result`);
      const first = await TestServer.start(flags);
      let records;
      let answer;
      let list;
      try {
        answer = await post(first, action, { 'idempotency-key': 'k' });
        const gone = await begin(first, 'sleep 100', { session: 'a' });
        const waiting = await begin(first, 'echo never', { session: 'a' });
        const ids = [
          answer.json.action_id as string,
          (await cancel(first, waiting)).action_id,
          (await cancel(first, gone)).action_id,
        ];
        records = await Promise.all(ids.map((id) => look(first, id)));
        list = (await first.request('GET', '/actions')).json;
      } finally {
        await first[Symbol.asyncDispose]();
      }
      await using second = await TestServer.start(flags);
      expect(await Promise.all(records.map(({ action_id: id }) => look(second, id)))).toEqual(records);
      expect(records.map(({ status }) => status)).toEqual(['finished', 'cancelled', 'cancelled']);
      expect((await second.request('GET', '/actions')).json).toEqual(list);
      const again = await post(second, action, { 'idempotency-key': 'k' });
      expect([again.headers.get('idempotent-replay'), again.json]).toEqual(['true', answer.json]);
      expect((await post(second, runOf('echo other'), { 'idempotency-key': 'k' })).status).toBe(422);
      expect(readFileSync(join(folder.path, 'ledger'), 'utf8')).toBe('ran\n');
      const asked = await post(second, action, { 'idempotency-key': 'k', prefer: 'respond-async' });
      expect([asked.status, asked.json.status]).toEqual([202, 'finished']);
      expect(await cancel(second, answer.json.action_id as string)).toEqual(records[0]);
    } finally {
      folder.remove();
    }
  });

  test('what ran and waited at a shutdown was answered, and is recorded so', async () => {
    const folder = makeTemporaryFolder('actiond-restart-');
    try {
      const flags = ['--state-dir', join(folder.path, 'state')];
      const first = await TestServer.start(flags);
      const running = post(first, runOf('sleep 100', { session: 'a' }), { 'idempotency-key': 'running' });
      await until(
        'it runs',
        async () => (await first.request('GET', '/actions?status=running')).json.actions.length === 1,
      );
      const waiting = await begin(first, `touch ${join(folder.path, 'ran')}`, { session: 'a' });
      await first[Symbol.asyncDispose]();
      const { json } = await running;
      await using second = await TestServer.start(flags);
      const { content, action_id: id } = json as { content: string; action_id: string };
      expect((await look(second, id)).observation?.content).toBe(content);
      expect((await look(second, waiting)).status).not.toBe('running');
      expect((await look(second, waiting)).observation).toBeDefined();
      const again = await post(second, runOf('sleep 100', { session: 'a' }), { 'idempotency-key': 'running' });
      expect([again.headers.get('idempotent-replay'), again.json]).toEqual(['true', json]);
      expect(existsSync(join(folder.path, 'ran'))).toBe(false);
    } finally {
      folder.remove();
    }
  });
});
