/** What clients get wrong: each gets a clear answer, and the next good request works. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ErrorBody } from '../../src/protocol/http.ts';
import { ErrorObservation } from '../../src/protocol/observations.ts';
import { RawConnection, rawRequest } from '../support/http.ts';
import { countDescriptors } from '../support/processes.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const MIB = 1024 * 1024;

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());
afterEach(expectServing);

async function expectServing(): Promise<void> {
  expect((await server.run('echo good')).content).toBe('good');
}

/** Head of a request that brings an action. */
const head = (length: number): string =>
  `POST /execute_action HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
const bodyOf = (command: string): string =>
  JSON.stringify({ action: { action: 'run', args: { command, blocking: true } } });
const file = (name: string): string => join(server.workingDir, name);

/** A body of exactly so many bytes. */
function bodyOfBytes(bytes: number): string {
  const text = bodyOf('true #');
  return text.replace('#', `#${'x'.repeat(bytes - text.length)}`);
}

const post = (body: string | Buffer, headers: Readonly<Record<string, string>> = JSON_TYPE) =>
  rawRequest(server.url, { method: 'POST', path: '/execute_action', headers, body });

/** The body is V0's error object and nothing else: no stack, no path of the server (V0 §2.1). */
function errorOf(text: string): ErrorBody {
  expect(text).not.toMatch(/node_modules|at .*\.[jt]s:\d+/);
  const body: unknown = JSON.parse(text);
  expect(Object.keys(body as object).filter((key) => key !== 'detail' && key !== 'errors')).toEqual([]);
  return ErrorBody.parse(body);
}

describe('bodies', () => {
  test.each([
    { name: 'cut JSON', body: '{"action": {"action": "run"', errors: /not valid JSON/ },
    { name: 'no JSON at all', body: 'echo hi', errors: /not valid JSON/ },
    { name: 'single quotes', body: "{'action': {}}", errors: /not valid JSON/ },
    { name: 'trailing text', body: '{"action": {}} x', errors: /not valid JSON/ },
    {
      name: 'NaN',
      body: '{"action": {"action": "run", "args": {"command": "true"}, "timeout": NaN}}',
      errors: /not valid JSON/,
    },
    { name: 'nothing', body: '', errors: /empty/ },
    { name: 'blanks', body: ' \n ', errors: /empty|not valid JSON/ },
    { name: 'a list', body: '[{"action": "run"}]', errors: /body: expected an object/ },
    { name: 'a string', body: '"run"', errors: /body: expected an object/ },
    { name: 'null', body: 'null', errors: /body: expected an object/ },
    { name: 'a number', body: '1', errors: /body: expected an object/ },
    { name: 'no action', body: '{}', errors: /body\.action: expected an object/ },
    { name: 'action null', body: '{"action": null}', errors: /body\.action: expected an object/ },
    { name: 'action a string', body: '{"action": "run"}', errors: /body\.action: expected an object/ },
    { name: 'action a list', body: '{"action": []}', errors: /body\.action: expected an object/ },
  ])('$name: 422 that says what is wrong', async ({ body, errors }) => {
    const reply = await post(body);
    expect(reply.status).toBe(422);
    expect(reply.headers['content-type']).toMatch(/^application\/json/);
    const error = errorOf(reply.text);
    expect(error.detail).toBe('Invalid request parameters');
    expect(error.errors).toMatch(errors);
  });

  const GOOD = '{"action": {"action": "run", "args": {"command": "true"}}}';
  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/xml',
    'nonsense',
    '',
  ])('content type %j: 422 that names the right one', async (type) => {
    const reply = await post(GOOD, type === '' ? {} : { 'content-type': type });
    expect(reply.status).toBe(422);
    expect(errorOf(reply.text).errors).toContain('application/json');
  });

  test.each(['application/json; charset=utf-8', 'Application/JSON', 'application/json;charset=UTF-8'])(
    'content type %j is JSON',
    async (type) => {
      const reply = await post(GOOD, { 'content-type': type });
      expect([reply.status, JSON.parse(reply.text).extras.metadata.exit_code]).toEqual([200, 0]);
    },
  );

  test('a byte order mark is no part of JSON, bytes that are no UTF-8 do no harm', async () => {
    expect((await post(`\uFEFF${GOOD}`)).status).toBeOneOf([200, 422]);
    const reply = await post(
      Buffer.concat([
        Buffer.from('{"action": {"action": "run", "args": {"command": "echo '),
        Buffer.from([0xff, 0xfe]),
        Buffer.from('"}}}'),
      ]),
    );
    expect(reply.status).toBe(200);
  });

  test('__proto__ and constructor are only names', async () => {
    const reply = await post(
      '{"action": {"action": "run", "args": {"command": "echo x", "__proto__": {"hidden": true}, "constructor": {"prototype": {}}}, "__proto__": {"a": 1}}}',
    );
    expect(reply.status).toBe(200);
    expect(JSON.parse(reply.text)).toMatchObject({ content: 'x', extras: { hidden: false } });
  });

  test('deep nesting', async () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    const reply = await post(`{"action": {"action": "run", "args": {"command": ${deep}}}}`);
    expect(reply.status).toBeOneOf([200, 422]);
    if (reply.status === 422) errorOf(reply.text);
  });

  test('deep nesting with a key', async () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const action = `{"action": "call_tool_mcp", "args": {"name": "x", "arguments": {"a": ${deep}}}}`;
    const reply = await server.request('POST', '/execute_action', `{"action": ${action}}`, {
      'idempotency-key': 'deep',
    });
    expect([reply.status, reply.json.errors]).toEqual([422, 'body.action: values are nested too deep in each other.']);
  });

  test.each([
    ['side by side', `[${'1,'.repeat(300_000)}1]`],
    ['in each other', `${'['.repeat(300_000)}${']'.repeat(300_000)}`],
    ['by name', `{${Array.from({ length: 300_000 }, (_, index) => `"${index}":1`).join(',')}}`],
  ])('values without end, %s: 413 with the limit in the text', async (_, values) => {
    const reply = await post(`{"action": {"action": "run", "args": {"command": "echo no", "more": ${values}}}}`);
    expect(reply.status).toBe(413);
    expect(errorOf(reply.text).detail).toBe('The body has more than 250000 values: send fewer at a time.');
  });

  test('65 MiB: 413 with the limit in the text', async () => {
    const reply = await post(
      JSON.stringify({ action: { action: 'run', args: { command: `: ${'x'.repeat(65 * MIB)}` } } }),
    );
    expect(reply.status).toBe(413);
    expect(errorOf(reply.text).detail).toContain(String(64 * MIB));
  });

  test('65 MiB in chunks, without a length', async () => {
    using connection = await RawConnection.open(server.url);
    await connection.send(
      'POST /execute_action HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n',
    );
    const chunk = `${MIB.toString(16)}\r\n${' '.repeat(MIB)}\r\n`;
    for (let sent = 0; sent < 65 && connection.received === ''; sent += 1)
      await connection.send(chunk).catch(() => undefined);
    await until('the answer', () => connection.received !== '' || connection.isClosed);
    expect(connection.received).toMatch(/^HTTP\/1\.1 413 /);
    expect(connection.received).toContain(String(64 * MIB));
  });

  test('60 MiB in one command', async () => {
    const reply = await server.run(`cat > /dev/null <<'EOF'\n${'x'.repeat(60 * MIB)}\nEOF`, { timeout: 170 });
    expect([reply.observation, reply.exitCode]).toEqual(['run', 0]);
  });

  test('--max-body-bytes', async () => {
    await using small = await TestServer.start(['--max-body-bytes', '2K']);
    const options = { method: 'POST', path: '/execute_action', headers: JSON_TYPE };
    expect((await rawRequest(small.url, { ...options, body: bodyOfBytes(2048) })).status).toBe(200);
    const refused = await rawRequest(small.url, { ...options, body: bodyOfBytes(2049) });
    expect(refused.status).toBe(413);
    expect(errorOf(refused.text).detail).toMatch(/2048 bytes \(--max-body-bytes\)/);
    expect((await small.run('echo good')).content).toBe('good');
  });
});

describe('actions that make no sense are answers for the agent: 200 with an error that names the field', () => {
  test.each([
    { name: 'unknown type', action: { action: 'bogus', args: {} }, says: [/"bogus"/, /\brun\b/] },
    { name: 'no type', action: { args: { command: 'ls' } }, says: [/action\.action/] },
    { name: 'type null', action: { action: null, args: {} }, says: [/action\.action/] },
    { name: 'type a number', action: { action: 5 }, says: [/action\.action/] },
    { name: 'an inherited name', action: { action: 'constructor', args: {} }, says: [/"constructor"/] },
    { name: 'an observation', action: { observation: 'run', content: '', extras: {} }, says: [/action\.action/] },
    { name: 'known but not executed here', action: { action: 'think', args: { thought: 'x' } }, says: [/think/] },
    { name: 'no args', action: { action: 'run' }, says: [/action\.args\.command/] },
    { name: 'args null', action: { action: 'run', args: null }, says: [/action\.args/] },
    { name: 'args a list', action: { action: 'run', args: ['ls'] }, says: [/action\.args/] },
    { name: 'args a string', action: { action: 'run', args: 'ls' }, says: [/action\.args/] },
    {
      name: 'no command',
      action: { action: 'run', args: { blocking: true } },
      says: [/action\.args\.command/, /string/],
    },
    {
      name: 'command null',
      action: { action: 'run', args: { command: null } },
      says: [/action\.args\.command/, /null/],
    },
    {
      name: 'command a number',
      action: { action: 'run', args: { command: 7 } },
      says: [/action\.args\.command/, /string/],
    },
    {
      name: 'command a list',
      action: { action: 'run', args: { command: ['ls', '-l'] } },
      says: [/action\.args\.command/, /string/],
    },
    {
      name: 'is_input a string',
      action: { action: 'run', args: { command: 'x', is_input: 'true' } },
      says: [/action\.args\.is_input/, /true or false/],
    },
    {
      name: 'blocking a number',
      action: { action: 'run', args: { command: 'x', blocking: 1 } },
      says: [/action\.args\.blocking/],
    },
    {
      name: 'cwd a number',
      action: { action: 'run', args: { command: 'x', is_static: true, cwd: 1 } },
      says: [/action\.args\.cwd/],
    },
    {
      name: 'NUL in the command',
      action: { action: 'run', args: { command: 'echo a\0b' } },
      says: [/action\.args\.command/, /NUL/],
    },
    {
      name: 'NUL in cwd',
      action: { action: 'run', args: { command: 'x', is_static: true, cwd: '/a\0b' } },
      says: [/action\.args\.cwd/, /NUL/],
    },
    {
      name: 'a session that is a path',
      action: { action: 'run', args: { command: 'x', session: '../x' } },
      says: [/action\.args\.session/],
    },
    {
      name: 'an empty session',
      action: { action: 'run', args: { command: 'x', session: '' } },
      says: [/action\.args\.session/],
    },
    {
      name: 'a negative timeout',
      action: { action: 'run', args: { command: 'x' }, timeout: -1 },
      says: [/action\.timeout/, />= 0/],
    },
    {
      name: 'a tiny negative timeout',
      action: { action: 'run', args: { command: 'x' }, timeout: -1e-9 },
      says: [/action\.timeout/],
    },
    {
      name: 'timeout a string',
      action: { action: 'run', args: { command: 'x' }, timeout: '10' },
      says: [/action\.timeout/],
    },
    {
      name: 'several at once',
      action: { action: 'run', args: { command: 1, is_static: 'no' }, timeout: [] },
      says: [/\.command/, /\.is_static/, /\.timeout/],
    },
  ])('$name', async ({ action, says }) => {
    const { status, json } = await server.request('POST', '/execute_action', { action });
    expect(status).toBe(200);
    ErrorObservation.parse(json);
    expect(json).toMatchObject({ observation: 'error', message: json.content, extras: { error_id: '' } });
    for (const pattern of says) expect(json.content).toMatch(pattern);
    expect(json.content.length).toBeLessThan(1000);
  });

  test('a hidden run gets a run, which V0 needs', async () => {
    const { status, json } = await server.request('POST', '/execute_action', {
      action: { action: 'run', args: { command: 5, hidden: true } },
    });
    expect([status, json.observation, json.extras.hidden, json.extras.metadata.exit_code]).toEqual([
      200,
      'run',
      true,
      -1,
    ]);
    expect(json.content).toMatch(/^ERROR: action\.args\.command/);
  });

  test('what is too much is taken as what is most', async () => {
    const reply = await server.action({ action: 'run', args: { command: 'echo ok', blocking: true }, timeout: 1e300 });
    expect([reply.content, reply.exitCode]).toEqual(['ok', 0]);
  });

  test('null, unknown and deprecated fields are tolerated', async () => {
    const reply = await server.action({
      id: 7,
      timestamp: '2025-01-01T00:00:00',
      source: 'martian',
      cause: null,
      message: null,
      action: 'run',
      tool_call_metadata: { function_name: 'execute_bash', model_response: { deep: [1] } },
      llm_metrics: null,
      args: {
        command: 'echo ok',
        is_input: null,
        blocking: null,
        cwd: null,
        session: null,
        security_risk: 'HIGH',
        keep_prompt: false,
        is_confirmed: 'confirmed',
        something_new: [1, 2],
      },
      timeout: null,
      something_else: 1,
    });
    expect([reply.observation, reply.content]).toEqual(['run', 'ok']);
  });
});

describe('routes', () => {
  test.each([
    '/nowhere',
    '/execute_action/x',
    '/%2e%2e/etc/passwd',
    '/alive/../../etc',
    '//',
    '/sessions/'.repeat(500),
  ])('%s: 404', async (path) => {
    const reply = await rawRequest(server.url, { path });
    expect([reply.status, errorOf(reply.text)]).toEqual([404, { detail: 'Not Found' }]);
  });

  test.each([
    ['GET', '/execute_action'],
    ['DELETE', '/execute_action'],
    ['POST', '/alive'],
    ['PUT', '/server_info'],
    ['POST', '/sessions'],
    ['GET', '/list_files'],
    ['PATCH', '/alive'],
    ['OPTIONS', '/execute_action'],
  ])('%s %s: 405', async (method, path) => {
    const reply = await rawRequest(server.url, { method, path });
    expect([reply.status, errorOf(reply.text)]).toEqual([405, { detail: 'Method Not Allowed' }]);
  });

  test('HEAD answers as GET without a body; a trailing slash and a query do no harm', async () => {
    expect(await rawRequest(server.url, { method: 'HEAD', path: '/alive' })).toMatchObject({ status: 200, text: '' });
    for (const path of ['/alive/', '/alive?x=1', '/alive/?x=/'])
      expect((await rawRequest(server.url, { path })).status).toBe(200);
  });

  test('a broken escape in the path', async () => {
    const reply = await rawRequest(server.url, { method: 'DELETE', path: '/sessions/%zz' });
    expect(reply.status).toBeOneOf([400, 404, 422]);
    errorOf(reply.text);
  });

  test('GET with a body, POST without one', async () => {
    expect((await rawRequest(server.url, { path: '/alive', headers: JSON_TYPE, body: '{' })).status).toBe(200);
    expect((await rawRequest(server.url, { method: 'POST', path: '/execute_action' })).status).toBe(422);
  });

  test.each([
    { text: 'GET /alive HTTP/1.1\r\n\r\n', status: 400, names: 'Host' },
    { text: 'GET /alive HTTP/1.1\r\nhost: localhost\r\nexpect: bogus\r\n\r\n', status: 417, names: 'bogus' },
    { text: 'GET /alive HTTP/1.1\r\nhost: localhost\r\nexpect: \r\n\r\n', status: 417, names: 'Expect' },
    { text: 'GET /nowhere HTTP/1.0\r\n\r\n', status: 404, names: 'Not Found' },
    { text: 'GET /alive HTTP/3.0\r\nhost: localhost\r\n\r\n', status: 400, names: 'HTTP' },
    { text: 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', status: 400, names: 'HTTP' },
    { text: 'PROPFIND /alive HTTP/1.1\r\nhost: localhost\r\n\r\n', status: 405, names: 'Method' },
    { text: 'OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n', status: 404, names: 'Not Found' },
    { text: 'CONNECT localhost:1 HTTP/1.1\r\nhost: localhost\r\n\r\n', status: 405, names: 'CONNECT' },
  ])('$text: $status with a reason', async ({ text, status, names }) => {
    using connection = await RawConnection.open(server.url);
    await connection.send(text);
    await until('the answer', () => connection.received.includes('}') || connection.isClosed);
    expect(connection.received).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    expect(errorOf(connection.received.slice(connection.received.indexOf('\r\n\r\n'))).detail).toContain(names);
  });

  test('HTTP/1.0 needs no Host', async () => {
    using connection = await RawConnection.open(server.url);
    await connection.send('GET /alive HTTP/1.0\r\n\r\n');
    await until('the answer', () => connection.isClosed);
    expect(connection.received).toMatch(/^HTTP\/1\.1 200 .*"ok"/s);
  });

  test('what is no HTTP', async () => {
    for (const text of [
      'hello\r\n\r\n',
      'GET\r\n\r\n',
      `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(200_000)}\r\n\r\n`,
      '\u0016\u0003\u0001\u0002\0\u0001',
    ]) {
      using connection = await RawConnection.open(server.url);
      await connection.send(text).catch(() => undefined);
      await until(
        `an answer or the end after ${text.slice(0, 10)}`,
        () => connection.received !== '' || connection.isClosed,
      );
      expect(connection.received).toMatch(/^(HTTP\/1\.1 4\d\d |$)/);
    }
  });
});

describe('clients that go away', () => {
  test('half a body is never carried out', async () => {
    const body = bodyOf('touch half.txt');
    {
      using connection = await RawConnection.open(server.url);
      await connection.send(head(body.length) + body.slice(0, -5));
      connection.end();
      await until('the end of the connection', () => connection.isClosed);
    }
    using reset = await RawConnection.open(server.url);
    await reset.send(head(body.length) + body.slice(0, -1));
    reset.reset();
    await until('the end of the connection', () => reset.isClosed);
    expect((await server.run('ls half.txt')).exitCode).toBe(2);
  });

  test('half-sent requests do not hold up others', async () => {
    const connections = await Promise.all(Array.from({ length: 100 }, () => RawConnection.open(server.url)));
    try {
      for (const [index, connection] of connections.entries())
        await connection.send(index % 2 === 0 ? 'POST /execute_action HTT' : `${head(1000)}{"action"`);
      expect((await server.run('echo still served')).content).toBe('still served');
    } finally {
      for (const connection of connections) connection[Symbol.dispose]();
    }
  });

  test('an action goes on without its client', async () => {
    const body = bodyOf('touch started.txt; until [ -e go.txt ]; do sleep 0.02; done; echo written > later.txt');
    using connection = await RawConnection.open(server.url);
    await connection.send(head(body.length) + body);
    await until('the start', () => existsSync(file('started.txt')));
    connection.reset();
    await until('the end of the connection', () => connection.isClosed);
    await server.run('touch go.txt', { session: 'other' });
    // One lane: this one is carried out after the first.
    expect((await server.run('cat later.txt')).content).toBe('written');
  });

  test('an action that waits in its lane goes on without its client, in order', async () => {
    const first = server.run('until [ -e release.txt ]; do sleep 0.02; done; echo first >> order.txt');
    const body = bodyOf('echo second >> order.txt');
    using connection = await RawConnection.open(server.url);
    await connection.send(head(body.length) + body);
    await until(
      'both to be in flight',
      async () => (await server.request('GET', '/server_info')).json.running_actions >= 1,
    );
    connection.end();
    connection.reset();
    await server.run('touch release.txt', { session: 'other' });
    await first;
    await until('the second', async () =>
      (await server.run('cat order.txt', { session: 'other' })).content.includes('second'),
    );
    expect((await server.run('cat order.txt')).content).toBe('first\nsecond');
  });

  test('aborted connections leave no descriptor', async () => {
    const before = countDescriptors('self');
    for (let index = 0; index < 50; index += 1) {
      using connection = await RawConnection.open(server.url);
      await connection.send(index % 2 === 0 ? head(100) : 'GET /alive HTTP/1.1\r\nhost: localhost\r\n\r\n');
      connection.reset();
    }
    await until('descriptors to be free again', () => countDescriptors('self') <= before + 2);
  });

  test('requests on one connection, sent ahead, are answered in order', async () => {
    using connection = await RawConnection.open(server.url);
    const bodies = ['echo one', 'nonsense_command', 'echo three'].map(bodyOf);
    await connection.send(bodies.map((body) => head(body.length) + body).join(''));
    await until('three answers', () => connection.received.split('"duration_ms":').length === 4);
    expect(connection.received).toMatch(/"content":"one".*"exit_code":127.*"content":"three"/s);
  });
});

describe('too much at once', () => {
  test('more actions than --max-actions-in-flight: 429 with Retry-After, then room again', async () => {
    await using small = await TestServer.start(['--max-actions-in-flight', '2']);
    const wait = 'until [ -e go ]; do sleep 0.02; done';
    const running = [small.run(wait), small.run('echo second')];
    await until('both in flight', async () => (await small.request('GET', '/server_info')).json.running_actions >= 1);
    const refused = await small.request('POST', '/execute_action', {
      action: { action: 'run', args: { command: 'echo no' } },
    });
    expect([refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([429, true]);
    expect((await small.request('GET', '/alive')).status).toBe(200);
    await small.request('DELETE', '/sessions/bash:default');
    await Promise.all(running);
    expect((await small.run('echo good')).content).toBe('good');
  });
});
