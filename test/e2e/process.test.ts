/** The daemon as a process: command line, signals, what it leaves behind, what it tells nobody. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { Build, Daemon, run } from '../support/built-server.ts';
import { RawConnection } from '../support/http.ts';
import { freePort } from '../support/port.ts';
import { childrenOf, processesWith } from '../support/processes.ts';
import { until } from '../support/wait.ts';

/** The optional program, from the PATH. */
const tini = (process.env['PATH'] ?? '')
  .split(':')
  .map((folder) => join(folder, 'tini'))
  .find((path) => existsSync(path));

let build: Build;
let directories = 0;

beforeAll(() => {
  build = new Build();
});
afterAll(() => build[Symbol.dispose]());

/** A directory that no other test uses. */
function newDirectory(): string {
  directories += 1;
  return build.directory(`state-${directories}`);
}

function start(args: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Daemon {
  const directory = newDirectory();
  return new Daemon(build, ['0', '--state-dir', directory, '--working-dir', directory, ...args], { env });
}

/** An argument that only this test's processes have. */
let marksMade = 0;
function newMark(): string {
  marksMade += 1;
  return `86396.${process.pid}${String(marksMade).padStart(3, '0')}`;
}

describe('command line', () => {
  test('--help', async () => {
    using daemon = new Daemon(build, ['--help']);
    expect((await daemon.exited).code).toBe(0);
    expect(daemon.stderr).toBe('');
    for (const flag of [
      '--host',
      '--state-dir',
      '--working-dir',
      '--username',
      '--multi-command',
      '--max-body-bytes',
      'SESSION_API_KEY',
      'NO_CHANGE_TIMEOUT_SECONDS',
    ]) {
      expect(daemon.stdout).toContain(flag);
    }
  });

  test('--version', async () => {
    using daemon = new Daemon(build, ['--version']);
    expect((await daemon.exited).code).toBe(0);
    const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
      version: string;
    };
    expect(daemon.stdout).toBe(`actiond ${version}\n`);
  });

  test.each([
    { args: ['--wrong-flag'], names: '--wrong-flag' },
    { args: ['8000', '9000'], names: '9000' },
    { args: ['http'], names: 'PORT' },
    { args: ['70000'], names: 'PORT' },
    { args: ['0', '--working-dir', 'relative'], names: '--working-dir' },
    { args: ['0', '--working-dir'], names: '--working-dir' },
    { args: ['0', '--max-sessions', 'many'], names: '--max-sessions' },
    { args: ['0', '--max-body-bytes=-1'], names: '--max-body-bytes' },
    { args: ['0', '--log-level', 'loud'], names: '--log-level' },
    { args: ['0', '--host', '999.1.1.1'], names: '--host' },
    { args: ['0', '--multi-command', 'perhaps'], names: '--multi-command' },
    { args: ['0', '--plugins', 'nonsense'], names: 'nonsense' },
  ])('$args: exit 2 and one line that names it', async ({ args, names }) => {
    using daemon = new Daemon(build, args);
    expect((await daemon.exited).code).toBe(2);
    expect(daemon.stdout).toBe('');
    expect(daemon.stderr).toMatch(/^actiond: [^\n]+\n$/);
    expect(daemon.stderr).toContain(names);
  });

  test('a wrong variable: exit 2 and one line that names it', async () => {
    using daemon = new Daemon(build, ['0'], { env: { NO_CHANGE_TIMEOUT_SECONDS: 'soon' } });
    expect((await daemon.exited).code).toBe(2);
    expect(daemon.stderr).toMatch(/^actiond: [^\n]*NO_CHANGE_TIMEOUT_SECONDS[^\n]*\n$/);
  });

  test.each([
    ['--state-dir', '/proc/x'],
    ['--state-dir', '/proc'],
    ['--state-dir', '/etc/passwd'],
    ['--state-dir', '/dev/null/x'],
    ['--working-dir', '/etc/passwd'],
    ['--working-dir', '/proc/x'],
    ['--working-dir', '/dev/null/x'],
  ])('%s %s: exit 1 and one line that names both and says what to do', async (flag, path) => {
    using daemon = start([flag, path]);
    expect((await daemon.exited).code).toBe(1);
    expect(daemon.stdout).toBe('');
    expect(daemon.stderr).toMatch(
      /^actiond: [^\n]+; choose a directory that this user \(uid \d+, gid \d+\) may make and write\n$/,
    );
    expect(daemon.stderr).toContain(`${flag} ${path}: `);
    expect(readdirSync(tmpdir()).filter((name) => name.startsWith(`actiond-${daemon.pid}-`))).toEqual([]);
  });

  test.each(['192.0.2.1', 'no-such-name.invalid', '2001:db8::1'])(
    '--host %s: exit 1 and one line that names it and says what to do',
    async (host) => {
      using daemon = start(['--host', host], { SESSION_API_KEY: 'some-key' });
      expect((await daemon.exited).code).toBe(1);
      expect(daemon.stderr).toMatch(/^actiond: [^\n]+: choose one, such as 127\.0\.0\.1[^\n]*\n$/);
      expect(daemon.stderr).toContain(`--host ${host} `);
    },
  );

  test('a port that is taken: exit 1, a plain message, nothing left', async () => {
    const taken = createServer();
    const port = await new Promise<number>((resolve) => {
      taken.listen(0, '127.0.0.1', () => resolve((taken.address() as { port: number }).port));
    });
    try {
      const directory = newDirectory();
      using daemon = new Daemon(build, [`${port}`, '--state-dir', directory, '--working-dir', directory]);
      const { pid } = daemon;
      expect((await daemon.exited).code).toBe(1);
      expect(daemon.stderr).toMatch(/^actiond: [^\n]*in use[^\n]*\n$/);
      expect(daemon.stderr).toContain(String(port));
      expect(childrenOf(pid)).toEqual([]);
      expect(processesWith(directory)).toEqual([]);
      expect(readdirSync(tmpdir()).filter((name) => name.startsWith(`actiond-${pid}-`))).toEqual([]);
    } finally {
      taken.close();
    }
  });

  test("V0's own list of arguments", async () => {
    const { username, uid } = userInfo();
    const port = await freePort();
    const workspace = newDirectory();
    const args = [
      ...'run -n openhands poetry run python -u -m openhands.runtime.action_execution_server'.split(' '),
      `${port}`,
      '--working-dir',
      workspace,
      ...'--plugins agent_skills jupyter --no-enable-browser --username'.split(' '),
      username,
      '--user-id',
      `${uid}`,
    ];
    using daemon = new Daemon(build, args, { env: { XDG_STATE_HOME: newDirectory(), SESSION_API_KEY: 'v0-key' } });
    const url = await daemon.url();
    expect(url).toBe(`http://127.0.0.1:${port}`);
    expect(await (await fetch(`${url}/alive`)).json()).toEqual({ status: 'ok' });
    const reply = await run(url, 'pwd; whoami', { key: 'v0-key' });
    expect([reply.content, reply.username]).toEqual([`${workspace}\n${username}`, username]);
    // V0 binds all addresses; a container's client comes from outside.
    expect(daemon.stdout).toContain('"host":"0.0.0.0"');
  });
});

describe('a poor environment', () => {
  test('too few open files: exit 1 and one line with the remedy, not a server without a shell', async () => {
    const directory = newDirectory();
    const args = ['0', '--state-dir', directory, '--working-dir', directory];
    using daemon = new Daemon(build, args, { init: ['prlimit', '--nofile=200:200'] });
    expect((await daemon.exited).code).toBe(1);
    expect(daemon.stderr).toMatch(/^actiond: only 200 open files are allowed here, .*ulimit -n 1024.*\n$/);
  });

  test('just enough open files', async () => {
    const directory = newDirectory();
    const args = ['0', '--state-dir', directory, '--working-dir', directory];
    using daemon = new Daemon(build, args, { init: ['prlimit', '--nofile=256:256'] });
    expect((await run(await daemon.url(), 'echo works')).content).toBe('works');
  });

  test('no place for temporary files: the state directory has one, gone with the server', async () => {
    const directory = newDirectory();
    const args = ['0', '--state-dir', directory, '--working-dir', directory];
    using daemon = new Daemon(build, args, { env: { TMPDIR: '/dev/null/tmp' } });
    const { content } = await run(await daemon.url(), 'dirname $(mktemp)');
    expect(content.startsWith(`${directory}/actiond-`)).toBe(true);
    daemon.signal('SIGTERM');
    expect((await daemon.exited).code).toBe(0);
    expect(existsSync(content)).toBe(false);
  });

  test.each(['', undefined])('PATH %j: programs are found all the same', async (path) => {
    const directory = newDirectory();
    const args = ['0', '--state-dir', directory, '--working-dir', `${directory}/work`];
    const settings = path === undefined ? ['-u', 'PATH'] : [`PATH=${path}`];
    using daemon = new Daemon(build, args, { init: ['env', ...settings] });
    expect((await run(await daemon.url(), 'pwd; ls -d /usr')).content).toBe(`${directory}/work\n/usr`);
  });
});

describe.skipIf(process.getuid?.() !== 0)('root without some of its rights (skipped: needs root)', () => {
  const without = (names: string[]): string[] => {
    const list = names.map((name) => `-${name}`).join(',');
    return ['setpriv', `--bounding-set=${list}`, `--inh-caps=${list}`];
  };

  test('that cannot switch users: exit 1 and the rights that --username takes', async () => {
    const directory = newDirectory();
    const args = ['0', '--state-dir', directory, '--working-dir', directory, '--username', 'nobody'];
    using daemon = new Daemon(build, args, { init: without(['setuid', 'kill']) });
    expect((await daemon.exited).code).toBe(1);
    expect(daemon.stderr).toMatch(/^actiond: --username nobody: .* lacks the capabilities KILL, SETUID\. /);
  });

  test('a working directory that it may not enter: shells start above it, and the log says so', async () => {
    const [state, above] = [newDirectory(), newDirectory()];
    const directory = join(above, 'volume');
    mkdirSync(directory, { mode: 0o700 });
    chownSync(directory, 65_534, 65_534);
    using daemon = new Daemon(build, ['0', '--state-dir', state, '--working-dir', directory], {
      init: without(['dac_override', 'dac_read_search']),
    });
    expect((await run(await daemon.url(), 'pwd')).content).toBe(above);
    expect(daemon.stdout).toMatch(/--working-dir .*volume: uid 0, gid 0 cannot work in it/);
  });
});

describe('shutdown', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s: everything running is answered and ended, exit 0 in time',
    async (signal) => {
      using daemon = start();
      const url = await daemon.url();
      const mark = newMark();
      const jobs = [
        `sleep ${mark}1 &`,
        `sleep ${mark}2 & disown`,
        `setsid sleep ${mark}3 &`,
        `(setsid sh -c 'trap "" HUP TERM; sleep ${mark}4; :' &)`,
        `nohup sleep ${mark}5 > /dev/null 2>&1 &`,
        `(sleep ${mark}6 & exec setsid sleep ${mark}7) &`,
        // With another environment: only the tree tells whose it is.
        `env -i sleep ${mark}8 &`,
      ];
      for (const job of jobs) expect((await run(url, job)).exitCode).toBe(0);
      await run(url, 'true', { session: 'other' });
      using idle = await RawConnection.open(url);
      await idle.send('GET /alive HTTP/1.1\r\nhost: localhost\r\nconnection: keep-alive\r\n\r\n');
      await until('the answer', () => idle.received.includes('200 OK'));
      using half = await RawConnection.open(url);
      await half.send('POST /execute_action HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n');
      const running = run(url, `echo partial; sleep ${mark}9`);
      const queued = run(url, 'echo never');
      const stubborn = run(url, `trap '' INT TERM HUP; echo deaf; sleep ${mark}0; yes`, { session: 'other' });
      await until('all processes', () =>
        Array.from('1234567890').every((digit) => processesWith(`sleep ${mark}${digit}`).length > 0),
      );
      daemon.signal(signal);
      expect(await daemon.exited).toEqual({ code: 0, signal: null });
      const answer = await running;
      expect([answer.status, answer.content, answer.suffix]).toEqual([
        200,
        'partial',
        '\n[The server is shutting down; the command was ended.]',
      ]);
      expect((await stubborn).content).toBe('deaf');
      expect((await queued).content).not.toContain('never');
      expect(processesWith(mark)).toEqual([]);
      await until('the sockets to be closed', () => idle.isClosed && half.isClosed);
      expect(readdirSync(tmpdir()).filter((name) => name.startsWith(`actiond-${daemon.pid}-`))).toEqual([]);
      expect(daemon.stderr).toBe('');
    },
  );

  test.skipIf(tini === undefined)(
    'below a small init it also ends what left its shell, its session and its environment',
    async () => {
      const directory = newDirectory();
      using daemon = new Daemon(build, ['0', '--state-dir', directory, '--working-dir', directory], {
        init: [tini ?? '', '-s', '--'],
      });
      const url = await daemon.url();
      const mark = newMark();
      await run(url, `env -i setsid -f sleep ${mark}1; env -i setsid -f sh -c 'trap "" HUP TERM; sleep ${mark}2; :'`);
      await until('both', () => ['1', '2'].every((digit) => processesWith(`sleep ${mark}${digit}`).length > 0));
      daemon.signal('SIGTERM');
      expect(await daemon.exited).toEqual({ code: 0, signal: null });
      expect(processesWith(mark)).toEqual([]);
    },
  );

  test('an idle server goes', async () => {
    using daemon = start();
    await daemon.url();
    daemon.signal('SIGTERM');
    expect((await daemon.exited).code).toBe(0);
    expect(daemon.stderr).toBe('');
  });

  test('a signal while it starts', async () => {
    using daemon = start();
    const { pid } = daemon;
    await until('a shell that starts', () => childrenOf(pid).length > 0);
    daemon.signal('SIGTERM');
    expect((await daemon.exited).code).toBe(0);
    expect(daemon.stderr).toBe('');
  });

  test("is not one of an agent's `pkill node`", async () => {
    using daemon = start();
    const url = await daemon.url();
    const named = async (name: string): Promise<string[]> => (await run(url, `pgrep -x ${name}`)).content.split('\n');
    expect(await named('node')).not.toContain(`${daemon.pid}`);
    expect(await named('actiond')).toContain(`${daemon.pid}`);
  });

  test.each(['a program that says nothing', 'a module that never loads'])(
    'a signal while %s is waited for, before actions are taken',
    async (what) => {
      const mark = newMark();
      const plugin = join(newDirectory(), what.includes('program') ? 'mute' : 'mute.mjs');
      const [program, module] = [`#!/bin/sh\ntrap '' TERM HUP\nsleep ${mark}; :\n`, 'await new Promise(() => {});\n'];
      writeFileSync(plugin, plugin.endsWith('.mjs') ? module : program, { mode: 0o755 });
      const port = await freePort();
      const directory = newDirectory();
      const args = [`${port}`, '--state-dir', directory, '--working-dir', directory, '--plugin', plugin];
      using daemon = new Daemon(build, args);
      const health = () => fetch(`http://127.0.0.1:${port}/health`).catch(() => undefined);
      await until('the port', async () => (await health())?.ok ?? false);
      expect((await fetch(`http://127.0.0.1:${port}/alive`)).status).toBe(503);
      daemon.signal('SIGTERM');
      expect((await daemon.exited).code).toBe(0);
      expect(processesWith(mark)).toEqual([]);
    },
  );

  test('a part that does not stop is not waited for: the rest is ended and closed as always', async () => {
    const directory = newDirectory();
    // Takes connections and never answers.
    const jupyter = createServer();
    await new Promise<void>((resolve) => jupyter.listen(0, '127.0.0.1', resolve));
    const { port } = jupyter.address() as AddressInfo;
    const args = ['0', '--state-dir', directory, '--working-dir', directory];
    using daemon = new Daemon(build, [...args, '--jupyter-url', `http://127.0.0.1:${port}`, '--jupyter-warm', '1']);
    await daemon.url();
    daemon.signal('SIGTERM');
    expect((await daemon.exited).code).toBe(0);
    jupyter.close();
    using next = new Daemon(build, args);
    const { events } = (await (await fetch(`${await next.url()}/events?after=0&kind=server`)).json()) as {
      events: { was_clean?: boolean }[];
    };
    expect(events.flatMap(({ was_clean: wasClean }) => wasClean ?? [])).toEqual([true, true]);
  });

  test('a second signal does not cut it short, requests meanwhile are told', async () => {
    using daemon = start();
    const url = await daemon.url();
    const mark = newMark();
    await run(url, `(trap '' HUP TERM; sleep ${mark}; :) &`);
    daemon.signal('SIGTERM');
    daemon.signal('SIGTERM');
    daemon.signal('SIGINT');
    expect((await daemon.exited).code).toBe(0);
    expect(processesWith(mark)).toEqual([]);
  });
});

describe('several and again', () => {
  test('two servers side by side', async () => {
    using first = start();
    using second = start();
    const [a, b] = await Promise.all([first.url(), second.url()]);
    const marks = [newMark(), newMark()];
    await Promise.all([run(a, `sleep ${marks[0]} & x=a`), run(b, `sleep ${marks[1]} & x=b`)]);
    expect(
      await Promise.all([run(a, 'echo $x'), run(b, 'echo $x')]).then((replies) =>
        replies.map(({ content }) => content),
      ),
    ).toEqual(['a', 'b']);
    first.signal('SIGTERM');
    expect((await first.exited).code).toBe(0);
    expect([processesWith(marks[0] ?? '').length, processesWith(marks[1] ?? '').length]).toEqual([0, 1]);
    expect((await run(b, 'echo $x')).content).toBe('b');
  });

  test('kill -9, then a start on the same state and port', async () => {
    const [directory, port] = [newDirectory(), await freePort()];
    const args = [`${port}`, '--state-dir', directory, '--working-dir', directory];
    using first = new Daemon(build, args);
    const url = await first.url();
    const long = (await run(url, 'seq 1 20000')).suffix;
    const file = /\[Full output: (.*)\]/.exec(long)?.[1] ?? '';
    const mark = newMark();
    const lost = run(url, `sleep ${mark}`).catch((error: unknown) => error);
    await until('it to run', () => processesWith(mark).length > 0);
    const shells = childrenOf(first.pid);
    first.signal('SIGKILL');
    expect((await first.exited).signal).toBe('SIGKILL');
    expect(await lost).toBeInstanceOf(Error);
    // The terminal hangs up: the shells do not outlive their server.
    await until('the shells to end', () => shells.every((pid) => !existsSync(`/proc/${pid}`)));
    using second = new Daemon(build, args);
    expect(await second.url()).toBe(url);
    expect((await run(url, 'echo again')).content).toBe('again');
    expect((await run(url, `tail -1 ${file}`)).content).toBe('20000');
    expect(readdirSync(tmpdir()).filter((name) => name.startsWith(`actiond-${first.pid}-`))).toEqual([]);
  });

  test('kill -9 with several sessions and jobs: the shells end all the same', async () => {
    using daemon = start();
    const url = await daemon.url();
    const mark = newMark();
    for (const session of ['a', 'b', 'c'])
      await run(url, `nohup sleep ${mark} > /dev/null 2>&1 < /dev/null & disown`, { session });
    const shells = childrenOf(daemon.pid);
    expect(shells.length).toBeGreaterThanOrEqual(4);
    daemon.signal('SIGKILL');
    await daemon.exited;
    try {
      await until('the shells to end', () => shells.every((pid) => !existsSync(`/proc/${pid}`)));
    } finally {
      for (const pid of [...processesWith(`sleep ${mark}`), ...shells.filter((shell) => existsSync(`/proc/${shell}`))])
        process.kill(pid, 'SIGKILL');
    }
  });
});

test('what a killed server left behind, because it ignores hangups, ends when the next one starts', async () => {
  const directory = newDirectory();
  const args = ['0', '--state-dir', directory, '--working-dir', directory];
  using first = new Daemon(build, args);
  const url = await first.url();
  const marks = [newMark(), newMark(), newMark()];
  const [foreground, detached, looping] = marks;
  void run(url, `nohup sleep ${foreground}`).catch(() => {});
  await until('the first', () => processesWith(`${foreground}`).length > 0);
  const more = (command: string) => run(url, command, { session: 'more' });
  await more(`setsid sleep ${detached} & disown`);
  void more(`trap '' HUP; while :; do sleep ${looping}; done`).catch(() => {});
  await until('all', () => marks.every((mark) => processesWith(mark).length > 0));
  first.signal('SIGKILL');
  await first.exited;
  expect(marks.filter((mark) => processesWith(mark).length > 0)).not.toEqual([]);
  // One that is killed before it has done so leaves it to the one after it.
  const port = await freePort();
  using hasty = new Daemon(build, [`${port}`, ...args.slice(1)]);
  const isUp = () =>
    fetch(`http://127.0.0.1:${port}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  await until('the port', isUp);
  hasty.signal('SIGKILL');
  await hasty.exited;
  using second = new Daemon(build, args);
  await run(await second.url(), 'true');
  expect(marks.flatMap((mark) => processesWith(mark))).toEqual([]);
  second.signal('SIGTERM');
  expect((await second.exited).code).toBe(0);
  expect(readdirSync(join(directory, 'events'))).not.toContain('instance');
});

test('a fault of its own ends the server with all that it has started, and tells no secret', async () => {
  const directory = newDirectory();
  const secret = 's3cret-of-the-sandbox';
  using daemon = new Daemon(build, ['0', '--state-dir', directory, '--working-dir', directory], {
    env: { MY_TOKEN: secret, NODE_OPTIONS: '--inspect=127.0.0.1:0' },
  });
  const url = await daemon.url();
  const mark = newMark();
  void run(url, `trap '' HUP; sleep ${mark}; :`).catch(() => {});
  await until('the program', () => processesWith(`sleep ${mark}`).length > 0);
  const debuggerUrl = /ws:\S+/.exec(daemon.stderr)?.[0] ?? '';
  const socket = new WebSocket(debuggerUrl);
  await once(socket, 'open');
  const expression = `setTimeout(() => { throw new Error('fault with ${secret}'); })`;
  socket.send(JSON.stringify({ id: 1, method: 'Runtime.evaluate', params: { expression } }));
  // Node waits for its debugger to go.
  await until('the fault', () => daemon.stderr.includes('fault with'));
  socket.terminate();
  expect((await daemon.exited).code).toBe(1);
  expect(daemon.stderr).toMatch(/^actiond: Error: fault with /m);
  expect(daemon.stdout + daemon.stderr).not.toContain(secret);
  await until('the program is gone', () => processesWith(`sleep ${mark}`).length === 0);
});

/** Of a child that may have ended by now, as one that was asked for its version. */
function environmentOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return '';
  }
}

describe('secrets', () => {
  test('keys are in no environment and no log', async () => {
    const keys = ['s3cret-session-key', 's3cret-second-key'];
    using daemon = start(['--log-level', 'trace'], {
      SESSION_API_KEY: keys[0] ?? '',
      ACTIOND_API_KEYS: keys[1] ?? '',
      MY_SESSION_API_KEY: 's3cret-third',
      HARMLESS: 'kept',
    });
    const url = await daemon.url();
    const key = keys[0] ?? '';
    const seen = await run(url, 'env; declare -px; tr "\\0" "\\n" < /proc/$$/environ', { key });
    expect(seen.content).toContain('HARMLESS=kept');
    expect(seen.content).not.toMatch(/s3cret|SESSION_API_KEY|ACTIOND_API_KEYS/);
    for (const pid of childrenOf(daemon.pid))
      expect(readFileSync(`/proc/${pid}/environ`, 'latin1')).not.toMatch(/s3cret/);
    expect((await fetch(`${url}/sessions`, { headers: { 'x-session-api-key': `${key}x` } })).status).toBe(403);
    expect((await run(url, 'echo wrong', { key: 's3cret-wrong' })).status).toBe(403);
    await run(url, 'exit 1', { key });
    expect((await run(url, 'env; cat /proc/$$/environ', { key })).content).not.toMatch(/s3cret/);
    const info = await (await fetch(`${url}/server_info`)).text();
    daemon.signal('SIGTERM');
    await daemon.exited;
    expect(daemon.stdout + daemon.stderr + info).not.toMatch(/s3cret/);
    expect(daemon.stdout).toContain('"serving"');
  });

  test("keys are not in the server's own environment, which its user's commands may look into", async () => {
    using daemon = start([], {
      SESSION_API_KEY: 's3cret-session-key',
      ACTIOND_API_KEYS: 's3cret-second-key,s3cret-ké',
      OH_SESSION_API_KEY: 's3cret-third',
      ACTIOND_TOKEN: 's3cret-fourth',
      HARMLESS: 'kept',
    });
    const url = await daemon.url();
    const key = 's3cret-session-key';
    const seen = await run(url, 'tr "\\0" "\\n" < /proc/$PPID/environ; echo $PPID', { key });
    expect(seen.content.split('\n')).toEqual(expect.arrayContaining(['HARMLESS=kept', `${daemon.pid}`]));
    expect(seen.content).not.toMatch(/s3cret|\*\*|API_KEY|ACTIOND_(API|TOKEN)/);
    expect(readFileSync(`/proc/${daemon.pid}/environ`, 'latin1')).not.toMatch(/s3cret/);
    for (const pid of childrenOf(daemon.pid)) expect(environmentOf(pid)).not.toMatch(/s3cret/);
    expect((await run(url, 'echo second', { key: 's3cret-second-key' })).content).toBe('second');
    expect(daemon.stdout + daemon.stderr).not.toMatch(/environ/);
  });

  test('what a hidden command says is in no log', async () => {
    using daemon = start(['--log-level', 'trace']);
    const url = await daemon.url();
    await fetch(`${url}/execute_action`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        action: { action: 'run', args: { command: 'echo hid-$((1+1))-den', hidden: true, blocking: true } },
      }),
    });
    daemon.signal('SIGTERM');
    await daemon.exited;
    expect(daemon.stdout).not.toMatch(/hid-/);
  });
});

test('an action that cannot be recorded is told why: only a full disk is called full', async () => {
  using daemon = start();
  const url = await daemon.url();
  expect((await run(url, 'echo before')).content).toBe('before');
  // No file of this process may grow beyond a byte: a reason that free space does not remove.
  execFileSync('prlimit', [`--pid=${daemon.pid}`, '--fsize=1:']);
  const refused = (await run(url, 'echo refused')).content;
  expect(refused).toMatch(/^The action was not started, because it could not be recorded: .*EFBIG/);
  expect(refused).not.toMatch(/space/);
  execFileSync('prlimit', [`--pid=${daemon.pid}`, '--fsize=unlimited:']);
  await until('it to recover', async () => (await run(url, 'echo after')).content === 'after');
});

describe('a program that ignores everything and floods', () => {
  test('the hard limit is kept, /alive answers meanwhile, the shell can be had back', async () => {
    using daemon = start();
    const url = await daemon.url();
    let answers = 0;
    let isOver = false;
    const flood = run(url, "trap '' INT TERM; yes 'no end of it'", { timeout: 3 }).finally(() => (isOver = true));
    while (!isOver) {
      expect((await fetch(`${url}/alive`)).status).toBe(200);
      answers += 1;
    }
    const answer = await flood;
    expect([answer.exitCode, answer.suffix.includes('[The command timed out after 3.0 seconds.')]).toEqual([-1, true]);
    expect(answer.content).toMatch(/^no end of it\n/);
    expect(answers).toBeGreaterThan(5);
    expect((await run(url, 'echo elsewhere', { session: 'other' })).content).toBe('elsewhere');
    for (let presses = 0; presses < 3; presses += 1) await run(url, 'C-c', { is_input: true, timeout: 0.2 });
    expect((await run(url, '', { timeout: 20 })).exitCode).not.toBe(-2);
    expect((await run(url, 'echo back')).content).toMatch(/back$/);
  });

  test('SIGTERM ends the server while it floods', async () => {
    using daemon = start();
    const url = await daemon.url();
    const mark = newMark();
    const flood = run(url, `trap '' INT TERM HUP; yes 'flood ${mark}'`);
    await until('the flood', () => processesWith(`flood ${mark}`).length > 0);
    daemon.signal('SIGTERM');
    expect((await daemon.exited).code).toBe(0);
    expect((await flood).suffix).toContain('[The server is shutting down; the command was ended.]');
    expect(processesWith(`flood ${mark}`)).toEqual([]);
  });
});
