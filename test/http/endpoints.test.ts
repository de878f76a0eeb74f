/** The shapes of what is not `/execute_action`, and who may call. */
import { existsSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  AliveReply,
  ErrorBody,
  HealthReply,
  ReadyReply,
  ServerInfoReply,
  SessionClosedReply,
  SessionsReply,
} from '../../src/protocol/http.ts';
import { RawConnection, rawRequest } from '../support/http.ts';
import { processesWith } from '../support/processes.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const RUN = JSON.stringify({ action: { action: 'run', args: { command: 'echo in', blocking: true } } });
const OPEN = ['/alive', '/health', '/ready', '/server_info'];

describe('shapes', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test('/alive, /health, /ready', async () => {
    const alive = await server.request('GET', '/alive');
    expect([alive.status, AliveReply.parse(alive.json)]).toEqual([200, { status: 'ok' }]);
    const health = await server.request('GET', '/health');
    expect([health.status, HealthReply.parse(health.json)]).toEqual([200, { status: 'ok' }]);
    const ready = await server.request('GET', '/ready');
    expect(ready.status).toBe(200);
    expect(ReadyReply.parse(ready.json)).toMatchObject({ status: 'ready', subsystems: { bash: 'ready' } });
  });

  test('/server_info', async () => {
    const info = async (): Promise<ServerInfoReply> =>
      ServerInfoReply.parse((await server.request('GET', '/server_info')).json);
    const first = await info();
    expect(first.capabilities).toContain('run');
    expect(first.uptime).toBeGreaterThan(0);
    expect(first.resources.memory.rss).toBeGreaterThan(10_000_000);
    expect(first.resources.disk.total).toBeGreaterThan(0);
    await until('the tools to be known', async () => (await info()).sandbox.tools['python3'] !== undefined);
    const { sandbox } = await info();
    const python = await server.run('python3 --version');
    expect(`Python ${sandbox.tools['python3']}`).toBe(python.content);
    expect(sandbox.tools['bash']).toMatch(/^\d/);
  });

  test('/server_info: idle while nothing runs, not while something does', async () => {
    await server.run('true');
    const running = server.run('until [ -e idle-go ]; do sleep 0.02; done');
    await until(
      'the action to run',
      async () => (await server.request('GET', '/server_info')).json.running_actions === 1,
    );
    expect((await server.request('GET', '/server_info')).json.idle_time).toBe(0);
    await server.run('touch idle-go', { session: 'other' });
    await running;
    await until('idle time', async () => (await server.request('GET', '/server_info')).json.idle_time > 0);
    const { idle_time, uptime } = (await server.request('GET', '/server_info')).json;
    expect(idle_time).toBeLessThan(uptime);
  });

  test('/openapi.json', async () => {
    const { status, json } = await server.request('GET', '/openapi.json');
    expect(status).toBe(200);
    expect(json.openapi).toMatch(/^3\.1/);
    expect(Object.keys(json.paths)).toEqual(
      expect.arrayContaining([
        '/alive',
        '/health',
        '/ready',
        '/server_info',
        '/execute_action',
        '/sessions',
        '/sessions/{lane}',
        '/openapi.json',
      ]),
    );
  });

  test('a session that is closed in whatever moment: what is said of its command is true, and said once', async () => {
    const file = join(server.workingDir, 'ran');
    const isOpen = async (lane: string): Promise<boolean> =>
      (await server.request('GET', '/sessions')).json.sessions.some(
        (session: { lane: string }) => session.lane === lane,
      );
    for (let round = 0; round < 10; round += 1) {
      const running = server.run(`echo >> ${file}-${round}; sleep 60`, { session: `closed-${round}`, timeout: 60 });
      await until('the session', () => isOpen(`bash:closed-${round}`));
      // In some rounds later, by a request or several.
      for (let count = 0; count < round % 4; count += 1) await server.request('GET', '/alive');
      await server.request('DELETE', `/sessions/bash:closed-${round}`);
      const { exitCode, suffix } = await running;
      const notes = suffix.match(/\[The session was closed (?:while|before)[^\]]*\]/g) ?? [];
      expect(notes, suffix).toHaveLength(1);
      expect(exitCode === 126).toBe(suffix.includes('it was not run'));
      if (exitCode === 126) expect(existsSync(`${file}-${round}`)).toBe(false);
    }
  });

  test('/sessions lists, DELETE ends with everything started', async () => {
    const mark = `86397.${process.pid}`;
    await server.run(`cd /usr; sleep ${mark} & disown`, { session: 'listed' });
    const find = async (): Promise<SessionsReply['sessions'][number] | undefined> =>
      SessionsReply.parse((await server.request('GET', '/sessions')).json).sessions.find(
        ({ name }) => name === 'listed',
      );
    const listed = await find();
    expect(listed).toMatchObject({ lane: 'bash:listed', kind: 'bash', state: 'idle', cwd: '/usr' });
    expect(processesWith(`sleep ${mark}`).length).toBe(1);
    expect((await server.run('echo $$', { session: 'listed' })).content).toBe(String(listed?.pid));
    expect(Date.parse(listed?.last_used ?? '')).toBeGreaterThanOrEqual(Date.parse(listed?.created ?? ''));
    const running = server.run('sleep 60', { session: 'listed' });
    await until('it to run', async () => (await find())?.state === 'running');
    const closed = await server.request('DELETE', '/sessions/bash:listed');
    expect([closed.status, SessionClosedReply.parse(closed.json)]).toEqual([200, { closed: 'bash:listed' }]);
    const cut = await running;
    expect(cut.observation).toBe('run');
    expect(cut.suffix).toMatch(/The session was closed/);
    expect(processesWith(`sleep ${mark}`)).toEqual([]);
    expect(await find()).toBeUndefined();
    const again = await server.request('DELETE', '/sessions/bash:listed');
    expect([again.status, ErrorBody.parse(again.json).detail]).toEqual([
      404,
      'There is no session "bash:listed": GET /sessions lists them.',
    ]);
    expect((await server.run('pwd', { session: 'listed' })).content).toBe(server.workingDir);
  });

  test('DELETE takes a lane in its escaped form', async () => {
    await server.run('true', { session: 'escaped' });
    expect((await server.request('DELETE', '/sessions/bash%3Aescaped')).status).toBe(200);
  });

  test('the default session can be closed, too: the next command gets a new one', async () => {
    await server.run('x=1; cd /');
    expect((await server.request('DELETE', '/sessions/bash:default')).status).toBe(200);
    expect((await server.run('echo "[$x] $PWD"')).content).toBe(`[] ${server.workingDir}`);
    expect((await server.request('GET', '/ready')).status).toBe(200);
  });

  test("keep-alive outlives the pool of V0's client (5 s)", async () => {
    const reply = await rawRequest(server.url, { path: '/alive', headers: { connection: 'keep-alive' } });
    expect(Number(/timeout=(\d+)/.exec(String(reply.headers['keep-alive']))?.[1])).toBeGreaterThan(5);
  });

  test('/alive answers all the time while a shell floods', async () => {
    const flood = server.run('timeout 2 yes', { session: 'flood', timeout: 20 });
    let answers = 0;
    let isOver = false;
    void flood.finally(() => (isOver = true));
    while (!isOver) {
      expect((await server.request('GET', '/alive')).status).toBe(200);
      answers += 1;
    }
    expect((await flood).exitCode).toBe(124);
    expect(answers).toBeGreaterThan(5);
  });
});

describe('keys', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start([], { SESSION_API_KEY: 'first-key', ACTIOND_API_KEYS: 'second, third/+=~' });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const execute = (headers: Readonly<Record<string, string>>) =>
    rawRequest(server.url, {
      method: 'POST',
      path: '/execute_action',
      headers: { ...JSON_TYPE, ...headers },
      body: RUN,
    });

  test.each([
    { name: "V0's header", headers: { 'X-Session-API-Key': 'first-key' } },
    { name: 'a bearer', headers: { Authorization: 'Bearer first-key' } },
    { name: 'a bearer in other letters', headers: { authorization: 'bEARER  first-key ' } },
    { name: 'the second key', headers: { 'x-session-api-key': 'second' } },
    { name: 'the third key', headers: { authorization: 'Bearer third/+=~' } },
    {
      name: 'a wrong bearer beside the right key',
      headers: { authorization: 'Bearer x', 'x-session-api-key': 'first-key' },
    },
  ])('$name is let in', async ({ headers }) => {
    const reply = await execute(headers);
    expect([reply.status, JSON.parse(reply.text).content]).toEqual([200, 'in']);
  });

  test.each([
    { name: 'no key', headers: {} },
    { name: 'an empty key', headers: { 'X-Session-API-Key': '' } },
    { name: 'a wrong key', headers: { 'X-Session-API-Key': 'first-keX' } },
    { name: 'a prefix', headers: { 'X-Session-API-Key': 'first' } },
    { name: 'more than the key', headers: { 'X-Session-API-Key': 'first-key1' } },
    { name: 'other letters', headers: { 'X-Session-API-Key': 'FIRST-KEY' } },
    { name: 'the list of keys', headers: { 'X-Session-API-Key': 'second, third/+=~' } },
    { name: 'basic authorization', headers: { authorization: 'Basic first-key' } },
    { name: 'a bearer without a word', headers: { authorization: 'first-key' } },
    { name: 'the query', headers: {} },
  ])('$name is not', async ({ headers }) => {
    const reply = await execute(headers);
    expect([reply.status, JSON.parse(reply.text)]).toEqual([403, { detail: 'Invalid API Key' }]);
  });

  test('without a key nothing is told but what probes ask for', async () => {
    for (const path of OPEN) expect([path, (await rawRequest(server.url, { path })).status]).toEqual([path, 200]);
    for (const path of [
      '/sessions',
      '/openapi.json',
      '/nowhere',
      '/execute_action',
      '/',
      '/alive/x',
      '/alive%2f..%2fsessions',
      '//sessions',
      '/sessions/?x=/alive',
    ]) {
      expect([path, (await rawRequest(server.url, { path })).status]).toEqual([path, 403]);
    }
    for (const method of ['DELETE', 'PUT', 'OPTIONS'])
      expect((await rawRequest(server.url, { method, path: '/sessions' })).status).toBe(403);
    expect(
      (
        await rawRequest(server.url, {
          method: 'POST',
          path: '/execute_action?session_api_key=first-key',
          headers: JSON_TYPE,
          body: RUN,
        })
      ).status,
    ).toBe(403);
  });

  test('the body of an uninvited request is not waited for', async () => {
    using connection = await RawConnection.open(server.url);
    await connection.send(
      'POST /execute_action HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 60000000\r\n\r\n{',
    );
    await until('the answer', () => connection.received !== '');
    expect(connection.received).toMatch(/^HTTP\/1\.1 403 /);
  });

  test('keys are nowhere in the sandbox', async () => {
    const command = 'env; declare -p; cat /proc/$$/environ | tr "\\0" "\\n"';
    const action = { action: 'run', args: { command, blocking: true } };
    const { json } = await server.request('POST', '/execute_action', { action }, { 'X-Session-API-Key': 'first-key' });
    expect(json.content).toContain('PATH=');
    expect(json.content).not.toMatch(/first-key|third\/|SESSION_API_KEY|ACTIOND_API_KEYS/);
  });
});

test('a key beyond ASCII: in UTF-8, as Latin-1, as a bearer, in a query', async () => {
  const key = 'schlüssel-à-clé';
  await using server = await TestServer.start([], { SESSION_API_KEY: key, ACTIOND_API_KEYS: 'plain,ключ' });
  const statusOf = async (header: string, value: Buffer): Promise<string> => {
    using connection = await RawConnection.open(server.url);
    await connection.send(
      `GET /sessions HTTP/1.1\r\nhost: localhost\r\n${header}${value.toString('latin1')}\r\n\r\n`,
      'latin1',
    );
    await until('the answer', () => connection.received.includes('}'));
    return connection.received.slice(9, 12);
  };
  for (const header of ['x-session-api-key: ', 'authorization: Bearer ']) {
    for (const value of [key, 'plain', 'ключ']) expect(await statusOf(header, Buffer.from(value))).toBe('200');
    expect(await statusOf(header, Buffer.from(key, 'latin1'))).toBe('200');
    for (const value of [key.slice(1), 'schlussel-a-cle', 'plaiñ']) {
      expect(await statusOf(header, Buffer.from(value))).toBe('403');
      expect(await statusOf(header, Buffer.from(value, 'latin1'))).toBe('403');
    }
  }
  expect((await server.request('GET', `/events?session_api_key=${encodeURIComponent(key)}`)).status).toBe(200);
});

describe('web pages', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start(['--allow-origin', 'https://app.example']);
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const execute = (headers: Readonly<Record<string, string>>) =>
    rawRequest(server.url, {
      method: 'POST',
      path: '/execute_action',
      headers: { ...JSON_TYPE, ...headers },
      body: RUN,
    });

  test.each([
    { name: 'a foreign Origin', headers: { origin: 'https://evil.example' } },
    { name: 'another port of this machine', headers: { origin: 'http://localhost:1' } },
    { name: 'an opaque Origin', headers: { origin: 'null' } },
    { name: 'a file', headers: { origin: 'file://' } },
    { name: 'an extension of an allowed one', headers: { origin: 'https://app.example.evil.example' } },
    { name: 'the allowed one without TLS', headers: { origin: 'http://app.example' } },
    { name: 'Sec-Fetch-Site: cross-site', headers: { 'sec-fetch-site': 'cross-site' } },
    { name: 'Sec-Fetch-Site: same-site', headers: { 'sec-fetch-site': 'same-site' } },
    { name: 'a foreign Host', headers: { host: 'evil.example' } },
    { name: 'a foreign Host with our port', headers: { host: 'evil.example:8000' } },
    { name: 'a Host that begins like ours', headers: { host: 'localhost.evil.example' } },
    { name: 'a Host that ends like ours', headers: { host: 'evil.example:127.0.0.1' } },
    { name: 'another address of a network', headers: { host: '10.0.0.1' } },
  ])('$name: 403 that says why', async ({ headers }) => {
    const reply = await execute(headers);
    expect(reply.status).toBe(403);
    expect(ErrorBody.parse(JSON.parse(reply.text)).detail).toMatch(/Origin|Sec-Fetch-Site|Host/);
    expect(reply.headers['access-control-allow-origin']).toBeUndefined();
    expect((await execute({})).status).toBe(200);
  });

  test.each([
    { name: 'no page at all', headers: {} },
    { name: 'the allowed origin', headers: { origin: 'https://app.example' } },
    { name: 'the user, by typing an address', headers: { 'sec-fetch-site': 'none' } },
    { name: 'localhost', headers: { host: 'localhost' } },
    { name: 'localhost in capitals, with a port', headers: { host: 'LOCALHOST:8000' } },
    { name: 'IPv6', headers: { host: '[::1]:8000' } },
    { name: 'another loopback address', headers: { host: '127.1.2.3:80' } },
  ])('$name is let in', async ({ headers }) => {
    expect((await execute(headers)).status).toBe(200);
  });

  test.each([
    ['GET', '/alive'],
    ['GET', '/health'],
    ['GET', '/ready'],
    ['GET', '/server_info'],
    ['GET', '/sessions'],
    ['DELETE', '/sessions/bash:none'],
    ['GET', '/actions'],
    ['POST', '/actions/none/cancel'],
    ['GET', '/events'],
    ['GET', '/events/stream'],
    ['GET', '/metrics'],
    ['GET', '/openapi.json'],
    ['POST', '/execute_action'],
    ['POST', '/secrets'],
    ['POST', '/upload_file'],
    ['GET', '/download_files'],
    ['POST', '/list_files'],
    ['GET', '/files/nowhere'],
    ['PUT', '/files/'],
    ['POST', '/files/search'],
  ])('its own pages are let in: %s %s', async (method, path) => {
    for (const host of [new URL(server.url).host, 'localhost', 'localhost:80', '[::1]:8000']) {
      const from = (origin: string) => rawRequest(server.url, { method, path, headers: { host, origin } });
      expect((await from(`http://${host}`)).status).not.toBe(403);
      expect((await from('http://localhost.evil.example')).status).toBe(403);
    }
    expect((await execute({ 'sec-fetch-site': 'same-origin' })).status).toBe(200);
  });

  test('the open paths are checked, too', async () => {
    for (const path of OPEN) {
      expect([
        path,
        (await rawRequest(server.url, { path, headers: { origin: 'https://evil.example' } })).status,
      ]).toEqual([path, 403]);
    }
  });

  test('a form, which needs no permission from anybody, is refused by its type', async () => {
    const reply = await rawRequest(server.url, {
      method: 'POST',
      path: '/execute_action',
      headers: { 'content-type': 'text/plain' },
      body: RUN,
    });
    expect(reply.status).toBe(422);
  });

  test('on all addresses any Host is served', async () => {
    await using open = await TestServer.start(['--host', '0.0.0.0']);
    const reply = await rawRequest(open.url, {
      method: 'POST',
      path: '/execute_action',
      headers: { ...JSON_TYPE, host: `${hostname()}:8000` },
      body: RUN,
    });
    expect([reply.status, JSON.parse(reply.text).extras.metadata.username]).toEqual([200, userInfo().username]);
    expect((await rawRequest(open.url, { path: '/alive', headers: { origin: 'https://evil.example' } })).status).toBe(
      403,
    );
  });
});

describe('pages of an allowed origin', () => {
  const origin = 'https://app.example';
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start(['--allow-origin', 'https://other.example', '--allow-origin', origin], {
      SESSION_API_KEY: 'page-key',
    });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const from = (method: string, path: string, headers: Readonly<Record<string, string>> = {}, body?: string) =>
    rawRequest(server.url, {
      method,
      path,
      headers: { origin, 'sec-fetch-site': 'cross-site', ...headers },
      ...(body === undefined ? {} : { body }),
    });
  const key = { 'x-session-api-key': 'page-key' };

  test.each([
    ['POST', '/execute_action', 'content-type,idempotency-key,x-session-api-key'],
    ['PUT', '/files/tmp/x', 'if-match,x-session-api-key'],
    ['DELETE', '/sessions/bash:default', 'authorization'],
    ['GET', '/events', 'x-session-api-key'],
  ])('%s %s: the preflight needs no key', async (method, path, headers) => {
    const reply = await from('OPTIONS', path, {
      'access-control-request-method': method,
      'access-control-request-headers': headers,
    });
    expect([reply.status, reply.text]).toEqual([204, '']);
    expect(reply.headers['access-control-allow-origin']).toBe(origin);
    expect(reply.headers['access-control-allow-methods']?.split(', ')).toContain(method);
    expect(reply.headers['access-control-allow-headers']).toBe(headers);
    expect(reply.headers.vary?.toLowerCase()).toContain('origin');
  });

  test('answers may be read, with the headers that matter, also what is refused', async () => {
    const ran = await from('POST', '/execute_action', { ...JSON_TYPE, ...key, prefer: 'respond-async' }, RUN);
    expect([ran.status, ran.headers['access-control-allow-origin']]).toEqual([202, origin]);
    const exposed = String(ran.headers['access-control-expose-headers']).toLowerCase().split(', ');
    expect(exposed).toEqual(
      expect.arrayContaining(['location', 'idempotent-replay', 'retry-after', 'etag', 'content-range']),
    );
    for (const [status, reply] of [
      [403, await from('POST', '/execute_action', JSON_TYPE, RUN)],
      [422, await from('POST', '/execute_action', { ...JSON_TYPE, ...key }, '{')],
      [404, await from('GET', '/nowhere', key)],
      [404, await from('GET', '/actions/none', key)],
      [405, await from('GET', '/execute_action', key)],
      [200, await from('GET', '/alive')],
    ] as const)
      expect([reply.status, reply.headers['access-control-allow-origin']]).toEqual([status, origin]);
  });

  test.each(['/events/stream?session_api_key=page-key', '/files/watch?path=/tmp'])('the stream %s', async (path) => {
    using connection = await RawConnection.open(server.url);
    await connection.send(
      `GET ${path} HTTP/1.1\r\nhost: localhost\r\norigin: ${origin}\r\nx-session-api-key: page-key\r\naccept: text/event-stream\r\n\r\n`,
    );
    await until('the headers', () => connection.received.includes('\r\n\r\n'));
    expect(connection.received).toMatch(/^HTTP\/1\.1 200 /);
    expect(connection.received.toLowerCase()).toContain(`access-control-allow-origin: ${origin}\r\n`);
  });

  test('a preflight of another page, or to a name that is not ours, is refused', async () => {
    const ask = { 'access-control-request-method': 'POST' };
    for (const headers of [{ origin: 'https://evil.example' }, { origin: 'null' }, { host: 'evil.example' }]) {
      const reply = await from('OPTIONS', '/execute_action', { ...ask, ...headers });
      expect(reply.status).toBe(403);
      expect(reply.headers['access-control-allow-origin']).toBeUndefined();
      expect(reply.headers['access-control-allow-headers']).toBeUndefined();
    }
  });

  test('without --allow-origin there is no such header', async () => {
    await using plain = await TestServer.start();
    const reply = await rawRequest(plain.url, { path: '/alive' });
    expect(Object.keys(reply.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
    const asked = { origin, 'access-control-request-method': 'POST' };
    expect((await rawRequest(plain.url, { method: 'OPTIONS', path: '/alive', headers: asked })).status).toBe(403);
  });
});
