/** `--plugin` programs: an action type in any language, and whatever the program does costs only its own actions. */
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findByCommandLine } from '../../src/sandbox/processes.ts';
import { TestServer } from '../support/server.ts';
import { makeTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/wait.ts';

function path(name: string): string {
  return fileURLToPath(new URL(`../../${name}`, import.meta.url));
}

const SQL = path('docs/examples/sql');
const [MOODY, EXITS, SILENT] = ['moody', 'exits', 'says-nothing'].map((name) => path(`test/fixtures/plugins/${name}`));

let server: TestServer;
beforeAll(async () => {
  const flags = [SQL, MOODY, EXITS, SILENT].flatMap((file) => ['--plugin', file ?? '']);
  server = await TestServer.start(flags, { INIT_PLUGIN_TIMEOUT: '2' });
});
afterAll(() => server[Symbol.asyncDispose]());

const sql = (statement: string, more: object = {}) =>
  server.action({ action: 'sql', args: { database: 'shop.db', statement, ...more } });
const moody = (how: string, timeout?: number) =>
  server.action({ action: 'moody', args: { how }, ...(timeout === undefined ? {} : { timeout }) });
const ready = async () => (await server.request('GET', '/ready')).json;

describe('the example of docs/extending.md', () => {
  test('runs statements on a database beside the shell, with parameters', async () => {
    expect((await sql('create table goods (name text, price int)')).content).toBe('0 rows changed');
    const inserted = await sql('insert into goods values (?, ?), (?, null)', { parameters: ["'; drop", 3, 'tea'] });
    expect([inserted.observation, inserted.content]).toEqual(['sql', '2 rows changed']);
    const { body } = await sql('select * from goods order by price desc');
    expect(body).toMatchObject({ content: "name\tprice\n'; drop\t3\ntea\tNULL", extras: { rows: 2 } });
    expect((await server.run('ls')).content).toContain('shop.db');
  });

  test('answers wrong SQL and wrong arguments with an error that says what', async () => {
    expect((await sql('selekt 1')).content).toContain('SQLite: near "selekt": syntax error');
    expect((await sql('')).content).toContain('action.args.statement');
  });

  test('bounds what it shows', async () => {
    const many = await sql(
      'with recursive n(i) as (select 1 union all select i + 1 from n limit 5000) select i from n',
    );
    expect(many.content.split('\n')).toHaveLength(1002);
    expect(many.content).toContain('only the first 1000 rows');
  });

  test('stops a statement at the hard limit, and takes the next', async () => {
    const args = {
      database: 'x.db',
      statement: 'with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n',
    };
    const endless = await server.action({ action: 'sql', args, timeout: 0.5 });
    expect([endless.observation, endless.content]).toEqual(['error', expect.stringContaining('interrupted')]);
    expect((await sql('select 1')).content).toBe('1\n1');
  });
});

describe('a program that misbehaves', () => {
  test.each([
    ['die', 'exit code 9'],
    ['babble', 'is no JSON object'],
  ])('(%s) fails the action with the cause, and the next one starts it anew', async (how, cause) => {
    const before = (await moody('answer')).content;
    const failed = await moody(how);
    expect([failed.observation, failed.content]).toEqual(['error', expect.stringContaining(cause)]);
    expect((await ready()).reasons.moody).toContain(cause);
    const after = await moody('answer');
    expect(after.content).toMatch(/^answer \d+$/);
    expect(after.content).not.toBe(before);
    expect((await ready()).subsystems.moody).toBe('ready');
  });

  test('is killed when it does not stop at the hard limit', async () => {
    const hanging = await moody('hang', 0.2);
    expect([hanging.observation, hanging.content]).toEqual(['error', expect.stringContaining('did not stop')]);
    expect((await moody('answer')).observation).toBe('moody');
  });

  test('or never says hello is told in /ready, and the server is ready', async () => {
    const { status, reasons } = await ready();
    expect(status).toBe('ready');
    expect(reasons[EXITS ?? '']).toContain('exit code 3');
    expect(reasons[SILENT ?? '']).toContain('2 s');
  });
});

test('live output of a program is recorded in order', async () => {
  const { body } = await moody('talk');
  const { json } = await server.request('GET', `/events?action_id=${body.action_id}`);
  expect(json.events.map(({ kind }: { kind: string }) => kind)).toEqual(['action', 'output', 'observation']);
});

test('programs end with the server', async () => {
  const other = await TestServer.start(['--plugin', MOODY ?? '']);
  const reply = await other.action({ action: 'moody', args: { how: 'answer' } });
  const pid = Number(reply.content.split(' ')[1]);
  expect(() => process.kill(pid, 0)).not.toThrow();
  await other[Symbol.asyncDispose]();
  await until('the program to be gone', () => {
    try {
      process.kill(pid, 0);
      return false;
    } catch {
      return true;
    }
  });
});

test('one that never answers at its start holds up neither the server nor the others', async () => {
  await using other = await TestServer.start([SILENT, SQL].flatMap((file) => ['--plugin', file ?? '']));
  expect((await other.request('GET', '/alive')).status).toBe(200);
  expect((await other.request('GET', '/ready')).json).toMatchObject({
    status: 'ready',
    subsystems: { [SILENT ?? '']: 'starting', sql: 'ready' },
  });
  expect((await other.action({ action: 'sql', args: { database: ':memory:', statement: 'select 1' } })).content).toBe(
    '1\n1',
  );
});

test('a program whose schema is none does not go on running', async () => {
  const folder = makeTemporaryFolder('actiond-refused-');
  const odd = join(folder.path, 'odd');
  const hello = JSON.stringify({ kind: 'hello', name: 'odd', actions: { odd: { type: 'no such type' } } });
  writeFileSync(odd, `#!/bin/sh\necho '${hello}'\nwhile read -r line; do :; done\n`, { mode: 0o755 });
  try {
    await using other = await TestServer.start(['--plugin', odd]);
    expect((await other.request('GET', '/ready')).json.subsystems[odd]).toBe('failed');
    await until('it has ended', () => findByCommandLine(odd) === undefined);
  } finally {
    folder.remove();
  }
});

test('a program that is refused does not go on running', async () => {
  const folder = makeTemporaryFolder('actiond-refused-');
  const twins = ['one', 'two'].map((name) => join(folder.path, name));
  for (const twin of twins) copyFileSync(SQL, twin);
  try {
    await using other = await TestServer.start(twins.flatMap((twin) => ['--plugin', twin]));
    const { subsystems } = (await other.request('GET', '/ready')).json;
    const refused = twins.filter((twin) => subsystems[twin] === 'failed');
    expect([subsystems.sql, refused.length]).toEqual(['ready', 1]);
    await until('it has ended', () => refused.every((twin) => findByCommandLine(twin) === undefined));
  } finally {
    folder.remove();
  }
});
