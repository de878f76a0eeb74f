/** A secret is shown nowhere: not in answers, not in events, not in the list of actions, not in the server's own log. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { begin, ended, eventsOf, look, outputOf, post, runOf } from '../support/actions.ts';
import { Build, Daemon, run } from '../support/built-server.ts';
import { processesWith } from '../support/processes.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

const MASK = '<secret_hidden>';
const ENVIRONMENT_SECRET = 'from-the-environment-1';
const SHORT = 'short12';
const OTHER = 'no-secret-by-its-name';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start([], { MY_API_KEY: ENVIRONMENT_SECRET, MY_TOKEN: SHORT, PLAIN_VALUE: OTHER });
});
afterAll(() => server[Symbol.asyncDispose]());

/** Everything that can be read of a server's actions and events. */
async function allOf(where: TestServer): Promise<string> {
  const [events, list] = await Promise.all([eventsOf(where), where.request('GET', '/actions?limit=500')]);
  return JSON.stringify([events, list.json]);
}

/** The secret in halves: commands that print it do not have it in their text. */
const halvesOf = (secret: string): [string, string] => [secret.slice(0, 7), secret.slice(7)];

describe('where secrets come from', () => {
  test('the environment: masked in the answer, in live output, in the record', async () => {
    const { json } = await post(server, runOf('echo "<$MY_API_KEY>"; echo $MY_TOKEN; echo $PLAIN_VALUE'));
    expect(json.content).toBe(`<${MASK}>\n${SHORT}\n${OTHER}`);
    const id = json.action_id as string;
    expect(outputOf(await eventsOf(server, id)).replaceAll('\r', '')).toBe(`<${MASK}>\n${SHORT}\n${OTHER}\n`);
    expect((await look(server, id)).observation?.content).toBe(json.content);
    expect(await allOf(server)).not.toContain(ENVIRONMENT_SECRET);
  });

  test('the command itself still gets the true value', async () => {
    const file = join(server.workingDir, 'true-value');
    await post(server, runOf(`printf %s "$MY_API_KEY" > ${file}`));
    expect(readFileSync(file, 'utf8')).toBe(ENVIRONMENT_SECRET);
  });

  test('an assignment in a command: from that command on, the command included', async () => {
    const secret = 'assigned-in-command-1';
    const { json } = await post(server, runOf(`export X_TOKEN='${secret}'; echo $X_TOKEN`));
    expect(json.content).toBe(MASK);
    expect(json.extras.command).toBe(`export X_TOKEN='${MASK}'; echo $X_TOKEN`);
    expect((await post(server, runOf('env | grep ^X_TOKEN'))).json.content).toBe(`X_TOKEN=${MASK}`);
    expect(await allOf(server)).not.toContain(secret);
    expect((await look(server, json.action_id as string)).action.args.command).toBe(
      `export X_TOKEN='${MASK}'; echo $X_TOKEN`,
    );
  });

  test('while the command runs or waits it is masked too', async () => {
    const secret = 'assigned-and-running-1';
    const running = await begin(server, `export Y_TOKEN='${secret}'; sleep 100`, { session: 'a' });
    const waiting = await begin(server, `Y_TOKEN=${secret}2 true`, { session: 'a' });
    for (const id of [running, waiting]) expect(JSON.stringify(await look(server, id))).not.toContain(secret);
    await server.request('POST', `/actions/${running}/cancel`);
    await ended(server, waiting);
    expect(await allOf(server)).not.toContain(secret);
  });

  test('POST /secrets', async () => {
    const secret = 'registered-at-run-time-1';
    const before = await post(server, runOf(`echo ${secret}-early`));
    expect(before.json.content).toBe(`${secret}-early`);
    const { status, json } = await server.request('POST', '/secrets', { values: [secret, SHORT, ''] });
    expect([status, json]).toEqual([200, { accepted: 1, refused: 2 }]);
    const after = await post(server, runOf(`echo ${secret} ${SHORT}`));
    expect(after.json).toMatchObject({ content: `${MASK} ${SHORT}`, extras: { command: `echo ${MASK} ${SHORT}` } });
    expect(JSON.stringify(await eventsOf(server, after.json.action_id as string))).not.toContain(secret);
  });

  test('POST /secrets with thousands of values', async () => {
    await using other = await TestServer.start();
    const values = Array.from({ length: 9000 }, (_, n) => `registered-value-${n}`);
    expect((await other.request('POST', '/secrets', { values })).json).toEqual({ accepted: 9000, refused: 0 });
    const one = await post(other, runOf('n=8999; echo registered-value-$n'));
    expect(one.json.content).toBe(MASK);
  });

  test.each([{}, [], { values: 'text' }, { values: [1] }, { values: null }, { values: [['x']] }])(
    'POST /secrets %j: 422',
    async (body) => {
      const { status, json } = await server.request('POST', '/secrets', body);
      expect(status).toBe(422);
      expect(json.errors).toContain('body.values: expected a list of strings');
    },
  );

  test('--secret-env names others', async () => {
    const env = { PLAIN_ONE: 'plain-but-secret-1', MY_API_KEY: 'no-longer-one-1' };
    await using other = await TestServer.start(['--secret-env', 'PLAIN_*'], env);
    expect((await other.run('echo $PLAIN_ONE $MY_API_KEY')).content).toBe(`${MASK} no-longer-one-1`);
  });

  test("the server's own key", async () => {
    const key = 'the-key-of-the-server-1';
    await using guarded = await TestServer.start([], { SESSION_API_KEY: key });
    const { json } = await post(guarded, runOf(`echo ${key}`), { 'x-session-api-key': key });
    expect(json.content).toBe(MASK);
    const events = await guarded.request('GET', '/events', undefined, { 'x-session-api-key': key });
    expect(JSON.stringify(events.json)).not.toContain(key);
  });
});

describe('every kind of action', () => {
  test('read, write, edit and errors', async () => {
    const path = join(server.workingDir, 'with-secret.txt');
    writeFileSync(path, `a ${ENVIRONMENT_SECRET} b\n`);
    const read = await post(server, { action: 'read', args: { path } });
    expect(read.json.content).toBe(`a ${MASK} b\n`);
    await post(server, { action: 'write', args: { path, content: `c ${ENVIRONMENT_SECRET}` } });
    const edit = { command: 'str_replace', old_str: ENVIRONMENT_SECRET, new_str: `${ENVIRONMENT_SECRET}d` };
    await post(server, { action: 'edit', args: { path, ...edit } });
    const missing = await post(server, { action: 'read', args: { path: `/nowhere/${ENVIRONMENT_SECRET}` } });
    expect(missing.json.observation).toBe('error');
    expect(JSON.stringify([read.json, missing.json])).not.toContain(ENVIRONMENT_SECRET);
    expect(await allOf(server)).not.toContain(ENVIRONMENT_SECRET);
    expect(readFileSync(path, 'utf8').trimEnd()).toBe(`c ${ENVIRONMENT_SECRET}d`);
  });

  test('numbers that have the digits of a secret', async () => {
    await using other = await TestServer.start([], { DB_PASSWORD: '20260101' });
    const named = { ...runOf('echo 20260101; echo 2026'), id: 20_260_101_001 };
    const { status, json } = await post(other, named);
    expect([status, json.content]).toEqual([200, `${MASK}\n2026`]);
    expect((await post(other, { ...runOf('echo done'), timeout: 202_601_010 })).json.content).toBe('done');
  });

  test('a value that is far too long does not stop the server', async () => {
    await using other = await TestServer.start();
    await post(other, runOf(`export BIG_TOKEN='${'x'.repeat(2_000_000)}'; echo set`));
    const { status, json } = await post(other, runOf('echo next'));
    expect([status, String(json.content).slice(0, 100)]).toEqual([200, 'next']);
    expect((await other.request('GET', '/actions')).status).toBe(200);
  });
});

describe('over the pieces of live output', () => {
  test.each([
    [
      'two writes',
      (first: string, second: string): string =>
        `python3 -c "import sys; sys.stdout.write('${first}'); sys.stdout.flush(); sys.stdout.write('${second}\\n')"`,
    ],
    ['two programs', (first: string, second: string): string => `printf ${first}; sleep 0.1; echo ${second}`],
    [
      'one write for each character',
      (first: string, second: string): string =>
        `python3 -c "import sys; [(sys.stdout.write(c), sys.stdout.flush()) for c in '${first}' + '${second}' + chr(10)]"`,
    ],
    [
      'standard error and standard output',
      (first: string, second: string): string => `printf ${first} >&2; echo ${second}`,
    ],
  ])('%s', async (_, print) => {
    const [first, second] = halvesOf(ENVIRONMENT_SECRET);
    const { json } = await post(server, runOf(print(first, second)));
    expect(json.content).toBe(MASK);
    const events = await eventsOf(server, json.action_id as string);
    expect(outputOf(events).trim()).toBe(MASK);
  });

  test('the halves are two pieces, and the first one waits', async () => {
    const [first, second] = halvesOf(ENVIRONMENT_SECRET);
    const go = join(server.workingDir, 'second-half');
    const command = `echo begun; printf ${first}; until [ -e ${go} ]; do read -rt 0.02 <> <(:); done; echo ${second}`;
    const id = await begin(server, command, { session: 'halves' });
    const seen = async (): Promise<string> => outputOf(await eventsOf(server, id));
    await until('the first half is out', async () => (await seen()).includes('begun'));
    expect(await seen()).not.toContain(first);
    writeFileSync(go, '');
    await ended(server, id);
    expect((await seen()).replaceAll('\r', '')).toBe(`begun\n${MASK}\n`);
  });

  test('what only begins like one comes at the latest with the end', async () => {
    const [first] = halvesOf(ENVIRONMENT_SECRET);
    const { json } = await post(server, runOf(`printf ${first}`));
    expect(outputOf(await eventsOf(server, json.action_id as string))).toBe(first);
  });

  test('many of them in a flood', async () => {
    const { json } = await post(server, runOf('for ((n = 0; n < 5000; n += 1)); do echo $n:$MY_API_KEY; done'));
    const text = outputOf(await eventsOf(server, json.action_id as string)).replaceAll('\r', '');
    const expected = Array.from({ length: 5000 }, (_, n) => `${n}:${MASK}\n`).join('');
    // Not `toBe`: the difference would be thousands of lines.
    expect(text === expected).toBe(true);
  });
});

describe('an answer that is cut', () => {
  test.each([0, 3, 6, 9, 12, 15, 18])('has no part of a secret beside the cut, which is moved by %d', async (shift) => {
    const print = `printf %${shift + 1}s; for ((n = 0; n < 2000; n += 1)); do printf "$MY_API_KEY"; done`;
    const { json } = await post(server, runOf(print));
    expect(json.content).toContain('[... Observation truncated due to length ...]');
    const [before = '', after = ''] = String(json.content).split(/\n\[\.\.\. Observation truncated[^\n]*\n/);
    const beside = [before, after].map((part) => part.replaceAll(MASK, '').trim());
    // Four characters of it: at the end of the first part, or at the beginning of the second one.
    for (const text of beside) expect(text).not.toMatch(/from|-the-|envi|ment/);
  });
});

describe('the raw output that is kept in a file', () => {
  test('has none, also where pieces of the output meet', async () => {
    const print = 'for ((n = 0; n < 4000; n += 1)); do printf "%s" "$n:$MY_API_KEY;"; done; printf "${MY_API_KEY:0:9}"';
    const { json } = await post(server, runOf(print));
    const expected = `${Array.from({ length: 4000 }, (_, n) => `${n}:${MASK};`).join('')}${ENVIRONMENT_SECRET.slice(0, 9)}`;
    await until('the file is written', () => readFileSync(json.output_file as string).length >= expected.length);
    expect(readFileSync(json.output_file as string, 'latin1') === expected).toBe(true);
  });
});

describe('a program that is polled', () => {
  /** Prints each part when the file of its number is there, and ends with the last one. */
  const printer = (folder: string, parts: readonly string[]): string =>
    parts
      .map((part, n) => `until [ -e ${folder}/${n} ]; do read -rt 0.02 <> <(:); done; printf -- '${part}'`)
      .join('; ');

  test.each([
    ['half and half', 7],
    ['a long beginning', 20],
    ['a beginning too short to be held back', 3],
    ['one character', 1],
  ])('%s: answers and events together do not spell it', async (_, at) => {
    await using quick = await TestServer.start([], { MY_API_KEY: ENVIRONMENT_SECRET, NO_CHANGE_TIMEOUT_SECONDS: '1' });
    const go = (n: number): void => writeFileSync(join(quick.workingDir, String(n)), '');
    const [first, second] = [ENVIRONMENT_SECRET.slice(0, at), ENVIRONMENT_SECRET.slice(at)];
    go(0);
    const one = await quick.soft(printer(quick.workingDir, [`begun ${first}`, `${second} over`]));
    expect(one.content.startsWith('begun')).toBe(true);
    go(1);
    const two = await quick.soft('');
    expect(two.exitCode).toBe(0);
    const shown = `${one.content}${two.content}`;
    expect(shown).toBe(at > 3 ? `begun${MASK} over` : `begun ${first}${MASK} over`);
    expect(outputOf(await eventsOf(quick))).toBe(`begun ${MASK} over`);
  });

  test('what only began like one comes with the next answer', async () => {
    await using quick = await TestServer.start([], { MY_API_KEY: ENVIRONMENT_SECRET, NO_CHANGE_TIMEOUT_SECONDS: '1' });
    writeFileSync(join(quick.workingDir, '0'), '');
    const one = await quick.soft(printer(quick.workingDir, ['begun from-the', 'y say']));
    writeFileSync(join(quick.workingDir, '1'), '');
    const two = await quick.soft('');
    expect([one.content, two.content]).toEqual(['begun', 'from-they say']);
    expect(outputOf(await eventsOf(quick))).toBe('begun from-they say');
  });
});

describe('live output that is cut', () => {
  test.each([996, 1000, 1009])('has no part of a secret at its end, after %d bytes', async (before) => {
    await using small = await TestServer.start(['--max-output-event-bytes', '1010'], {
      MY_API_KEY: ENVIRONMENT_SECRET,
    });
    const { json } = await post(small, runOf(`printf '%${before}s' ''; echo "$MY_API_KEY"`));
    const events = (await eventsOf(small, json.action_id as string)).filter(({ kind }) => kind === 'output');
    expect(events.at(-1)).toMatchObject({ text: '', truncated: true });
    expect(MASK.startsWith(outputOf(events).trim())).toBe(true);
  });

  test('is counted in bytes, and cut between characters', async () => {
    await using small = await TestServer.start(['--max-output-event-bytes', '1000']);
    const { json } = await post(small, runOf('for n in {1..2000}; do printf 漢; done'));
    expect(outputOf(await eventsOf(small, json.action_id as string))).toBe('漢'.repeat(333));
    expect(json.content).toBe('漢'.repeat(2000));
  });
});

describe('what a client names', () => {
  const named = { MY_API_KEY: ENVIRONMENT_SECRET };

  test('a session, an idempotency key, a source', async () => {
    const state = join(server.workingDir, 'named-state');
    const action = { ...runOf('echo named', { session: `s-${ENVIRONMENT_SECRET}` }), source: ENVIRONMENT_SECRET };
    const key = { 'idempotency-key': `k-${ENVIRONMENT_SECRET}` };
    {
      await using first = await TestServer.start(['--state-dir', state], named);
      const { json } = await post(first, action, key);
      expect(json.content).toBe('named');
      const { json: sessions } = await first.request('GET', '/sessions');
      expect(JSON.stringify(sessions)).toContain(`bash:s-${MASK}`);
      const shown = [json, sessions, await look(first, json.action_id as string)];
      expect(JSON.stringify(shown) + (await allOf(first))).not.toContain(ENVIRONMENT_SECRET);
      const running = await begin(first, 'sleep 100', { session: `s-${ENVIRONMENT_SECRET}` });
      expect(await allOf(first)).not.toContain(ENVIRONMENT_SECRET);
      await first.request('POST', `/actions/${running}/cancel`);
      const closed = await first.request('DELETE', `/sessions/bash:s-${ENVIRONMENT_SECRET}`);
      expect([closed.status, closed.json]).toEqual([200, { closed: `bash:s-${MASK}` }]);
      const gone = await first.request('DELETE', `/sessions/bash:s-${ENVIRONMENT_SECRET}`);
      expect([gone.status, JSON.stringify(gone.json).includes(ENVIRONMENT_SECRET)]).toEqual([404, false]);
    }
    // The key is known after a restart, two keys that are masked alike are two, and the disk does not have them.
    await using second = await TestServer.start(['--state-dir', state], named);
    expect((await post(second, action, key)).headers.get('idempotent-replay')).toBe('true');
    const other = await post(second, action, { 'idempotency-key': `k-${MASK}` });
    expect([other.status, other.headers.get('idempotent-replay')]).toEqual([200, null]);
    const names = readdirSync(join(state, 'events')).filter((name) => name.endsWith('.seg'));
    const files = names.map((name) => readFileSync(join(state, 'events', name), 'latin1'));
    expect(files.join('')).not.toContain(ENVIRONMENT_SECRET);
  });

  test.each([
    ['an action type', { action: ENVIRONMENT_SECRET, args: {} }],
    ['a field', { action: 'run', args: { command: { [ENVIRONMENT_SECRET]: 1 } } }],
    ['a value', { action: 'edit', args: { path: 'a', command: ENVIRONMENT_SECRET } }],
    ['a hidden one', { action: 'run', args: { command: 'true', hidden: true, cwd: 7, session: [ENVIRONMENT_SECRET] } }],
  ])('%s that is wrong', async (_, action) => {
    const { status, json } = await post(server, action);
    expect([status, json.content.length > 0]).toEqual([200, true]);
    expect(JSON.stringify(json)).not.toContain(ENVIRONMENT_SECRET);
  });

  test('a query', async () => {
    const { status, json } = await server.request('GET', `/actions?limit=${ENVIRONMENT_SECRET}`);
    expect([status, json.errors]).toEqual([422, expect.stringContaining(MASK)]);
  });
});

describe('a file that is shown in part', () => {
  test.each([4, 12, ENVIRONMENT_SECRET.length - 1])(
    'has no part of a secret before the cut: %d characters',
    async (part) => {
      const path = join(server.workingDir, 'cut-file');
      writeFileSync(path, `${'x'.repeat(16_000 - part)}${ENVIRONMENT_SECRET}\n`);
      const { json } = await post(server, { action: 'read', args: { path, impl_source: 'oh_aci' } });
      expect(json.content).toContain(`xxx${MASK}<response clipped>`);
      const edit = { command: 'view', impl_source: 'oh_aci' };
      const viewed = await post(server, { action: 'edit', args: { path, ...edit } });
      expect(viewed.json.content).toBe(json.content);
    },
  );
});

describe('hidden actions', () => {
  test('leave neither command nor output', async () => {
    const { json } = await post(server, runOf('echo whispered-1', { hidden: true }));
    expect(json.content).toBe('whispered-1');
    const events = await eventsOf(server, json.action_id as string);
    expect(events.map(({ kind }) => kind)).toEqual(['action', 'observation']);
    expect(await allOf(server)).not.toContain('whispered-1');
  });

  test('nor does what they leave running, whoever asks for it', async () => {
    await using quick = await TestServer.start([], { NO_CHANGE_TIMEOUT_SECONDS: '1' });
    const go = join(quick.workingDir, 'go');
    const command = `echo whispered-1; until [ -e ${go} ]; do read -rt 0.02 <> <(:); done; echo whispered-2`;
    const first = await post(quick, { action: 'run', args: { command, hidden: true, blocking: false } });
    expect(first.json.content).toContain('whispered-1');
    writeFileSync(go, '');
    const second = await quick.soft('');
    expect(second.content).toContain('whispered-2');
    expect(await allOf(quick)).not.toContain('whispered');
  });

  test('that fail do not either', async () => {
    const { json } = await post(server, runOf('echo whispered-3\necho whispered-4', { hidden: true }));
    expect(json.observation).toBe('run');
    expect(await allOf(server)).not.toMatch(/whispered-[34]/);
    await post(server, runOf('whispered-5', { hidden: true }));
    expect(await allOf(server)).not.toContain('whispered-5');
  });
});

describe("the server's log", () => {
  let build: Build;
  beforeAll(() => {
    build = new Build();
  });
  afterAll(() => build[Symbol.dispose]());

  test('one line for each action, with neither secrets nor what hidden ones do', async () => {
    const state = build.directory('state');
    const key = 'key-in-the-environment-1';
    const args = ['0', '--state-dir', state, '--working-dir', state, '--log-level', 'trace'];
    using daemon = new Daemon(build, args, { env: { HOME: build.directory('home'), OPENAI_API_KEY: key } });
    const url = await daemon.url();
    await run(url, `echo $OPENAI_API_KEY; export X_TOKEN='assigned-for-the-log-1'; echo $X_TOKEN; sh -c 'exit 3'`);
    const send = async (path: string, body: string): Promise<void> => {
      const headers = { 'content-type': 'application/json' };
      await (await fetch(url + path, { method: 'POST', headers, body })).text();
    };
    const act = (action: object): Promise<void> => send('/execute_action', JSON.stringify({ action }));
    await act(runOf('echo whispered', { hidden: true }));
    await act({ action: 'read', args: { path: `/nowhere/${key}` } });
    await act({ action: 'read', args: { path: `/tmp/${key}\0` } });
    await act({ action: 'nonsense', args: { key } });
    await act(runOf('true', { session: `s-${key}` }));
    await act({ action: 'run', args: { command: 'true', [`unknown-${key}`]: 1 } });
    await send('/secrets', '{"values":["registered-for-the-log-1"');
    daemon.signal('SIGTERM');
    expect((await daemon.exited).code).toBe(0);
    const lines = daemon.stdout.split('\n').filter(Boolean);
    const actions = lines
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ msg }) => msg === 'action');
    expect(actions.length).toBeGreaterThanOrEqual(3);
    for (const action of actions) {
      expect(action).toMatchObject({
        action_id: expect.any(String),
        type: expect.any(String),
        outcome: expect.any(String),
        duration_ms: expect.any(Number),
      });
    }
    expect(actions[0]).toMatchObject({ type: 'run', lane: 'bash:default', outcome: 'ok' });
    for (const text of [key, 'assigned-for-the-log-1', 'registered-for-the-log-1', 'whispered']) {
      expect(daemon.stdout + daemon.stderr).not.toContain(text);
    }
    expect(processesWith(state)).toEqual([]);
  });
});
