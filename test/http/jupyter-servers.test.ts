/** Where kernels come from: a gateway of our own, a Jupyter server that is there already, or none at all. */
import type { ChildProcess } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { findAccount } from '../../src/sandbox/account.ts';
import { ended, eventsOf, outputOf, post } from '../support/actions.ts';
import { cellOf, JUPYTER_PYTHON, needsJupyter, runCell, startJupyterServer } from '../support/jupyter.ts';
import { isJupyterUp, startPlainJupyter } from '../support/plain-jupyter.ts';
import { freePort } from '../support/port.ts';
import { childrenOf, processesWith } from '../support/processes.ts';
import { TestServer } from '../support/server.ts';
import { SeverableProxy } from '../support/severable-proxy.ts';
import { until } from '../support/wait.ts';

const readiness = async (server: TestServer) => (await server.request('GET', '/ready')).json;

describe('a plain jupyter server', () => {
  const token = 'secret-of-the-test';
  let directory: string;
  let jupyter: ChildProcess | undefined;
  let port: number;

  beforeEach(needsJupyter);

  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'actiond-jupyter-'));
    port = await freePort();
    jupyter = startServer(port);
    jupyter.once('error', () => (jupyter = undefined));
    await until('the Jupyter server', async () => !jupyter || (await isJupyterUp(port)));
  });

  const startServer = (onPort: number): ChildProcess => startPlainJupyter(onPort, token, directory);

  afterAll(() => {
    jupyter?.kill('SIGTERM');
    rmSync(directory, { recursive: true, force: true });
  });

  async function kernels(): Promise<{ readonly id: string; readonly connections: number }[]> {
    const headers = { authorization: `token ${token}` };
    const reply = await fetch(`http://127.0.0.1:${port}/api/kernels`, { headers });
    return (await reply.json()) as { id: string; connections: number }[];
  }

  const start = (url: string, own = token): Promise<TestServer> =>
    TestServer.start(['--jupyter-url', url], { ACTIOND_JUPYTER_TOKEN: own });

  test('runs cells that follow the shell and have skills, and heals', async () => {
    await using server = await start(`http://127.0.0.1:${port}/`);
    await server.run('export GIVEN=1');
    expect((await runCell(server, 'import os; print(os.getcwd(), os.environ["GIVEN"])')).content).toBe(
      `${server.workingDir} 1`,
    );
    expect((await runCell(server, 'print(callable(file_editor))')).content).toBe('True');
    expect((await runCell(server, 'print("begin"); import time; time.sleep(60)', { timeout: 1 })).content).toMatch(
      /^begin\n[^]*KeyboardInterrupt[^]*\[Execution timed out \(1\.0 seconds\)\.\]$/,
    );
    expect((await runCell(server, 'print("last"); os._exit(3)')).content).toMatch(/^last\n\[The kernel died \(/);
    expect((await runCell(server, 'import os; print(os.environ["GIVEN"])')).content).toBe('1');
  });

  test('has no kernel of ours left behind', async () => {
    const ids = async (): Promise<string[]> => (await kernels()).map(({ id }) => id);
    // Jupyter lists a kernel until it has ended, which may be after the server that had it deleted: those of other tests, too.
    const before = await ids();
    let ours: string[];
    {
      await using server = await start(`http://127.0.0.1:${port}`);
      await runCell(server, '1');
      ours = (await ids()).filter((id) => !before.includes(id));
      expect(ours).toHaveLength(1);
    }
    await until('the kernel gone', async () => (await ids()).every((id) => !ours.includes(id)));
  });

  test('that is cut off in the middle of a cell costs nothing of what it prints meanwhile; what was under way may be lost', async () => {
    const before = new Set((await kernels()).map(({ id }) => id));
    await using proxy = await SeverableProxy.start(port);
    await using server = await start(`http://127.0.0.1:${proxy.port}`);
    await runCell(server, '1');
    const isConnected = async (): Promise<boolean> =>
      (await kernels()).some(({ id, connections }) => !before.has(id) && connections > 0);
    const [go, gone] = [join(server.workingDir, 'go'), join(server.workingDir, 'gone')];
    const code = `import os, time
for i in range(5): print(i, flush=True)
while not os.path.exists("${go}"): time.sleep(0.01)
for i in range(5, 20): print(i, flush=True)
open("${gone}", "w").close()`;
    const { json } = await post(server, cellOf(code), { prefer: 'respond-async' });
    await until('some output', async () => outputOf(await eventsOf(server, json.action_id)).includes('4\n'));
    expect(await isConnected()).toBe(true);
    proxy.sever();
    // What Jupyter sends before it knows is lost on the way.
    await until('Jupyter to notice', async () => !(await isConnected()));
    writeFileSync(go, '');
    await until('output that nobody gets', () => existsSync(gone));
    proxy.mend();
    const { observation } = await ended(server, json.action_id);
    const lines = Array.from({ length: 20 }, (_, index) => String(index)).join('\n');
    expect(observation?.content).toBe(
      `${lines}\n[While the cell ran the connection to the kernel broke, or brought what cannot be read: some of its output may be missing.]`,
    );
    expect((await runCell(server, 'print("on")')).content).toBe('on');
  });

  test('that ends during a cell, or before one, is told as what it is', async () => {
    const ownPort = await freePort();
    const gone = startServer(ownPort);
    try {
      await until('another Jupyter server', () => isJupyterUp(ownPort));
      await using server = await start(`http://127.0.0.1:${ownPort}`);
      const { json } = await post(server, cellOf('print("begin"); import time; time.sleep(60)'), {
        prefer: 'respond-async',
      });
      await until('some output', async () => outputOf(await eventsOf(server, json.action_id)).includes('begin'));
      gone.kill('SIGKILL');
      const { observation } = await ended(server, json.action_id);
      expect(observation?.content).toMatch(
        /^begin\n\[The kernel cannot be reached \(the Jupyter server does not answer: .*ECONNREFUSED.*\): whether the cell/,
      );
      expect(observation?.content).not.toContain('restarted');
      expect((await runCell(server, '1')).content).toContain(
        `The Jupyter server at http://127.0.0.1:${ownPort} does not answer: `,
      );
      expect((await readiness(server)).subsystems.jupyter).toBe('failed');
    } finally {
      // Its kernel ends without it.
      gone.kill('SIGKILL');
    }
  });

  test('that stands still when the time of a cell is up is told', async () => {
    const ownPort = await freePort();
    const still = startServer(ownPort);
    try {
      await until('another Jupyter server', () => isJupyterUp(ownPort));
      await using server = await start(`http://127.0.0.1:${ownPort}`);
      const { json } = await post(server, cellOf('print("begin"); import time; time.sleep(60)', { timeout: 4 }), {
        prefer: 'respond-async',
      });
      await until('some output', async () => outputOf(await eventsOf(server, json.action_id)).includes('begin'));
      still.kill('SIGSTOP');
      expect((await ended(server, json.action_id)).observation?.content).toMatch(
        /^begin\n\[Execution timed out \(4\.0 seconds\)\.\]\n\[The kernel cannot be reached \(the Jupyter server does not answer: it has not taken/,
      );
      still.kill('SIGCONT');
      await until('a new kernel', async () => (await runCell(server, 'print("on")')).content.endsWith('on'));
    } finally {
      still.kill('SIGCONT');
      still.kill('SIGTERM');
    }
  });

  test('that refuses the token is named, with the flag', async () => {
    await using server = await start(`http://127.0.0.1:${port}`, 'wrong');
    const { observation, content } = await runCell(server, '1');
    expect(observation).toBe('error');
    expect(content).toBe(
      `The Jupyter server at http://127.0.0.1:${port} refuses the token (HTTP 403): check --jupyter-token.`,
    );
    const { status, subsystems, reasons } = await readiness(server);
    expect([status, subsystems.jupyter]).toEqual(['ready', 'failed']);
    expect(reasons.jupyter).toBe(content);
  });
});

describe('an address', () => {
  test('where nobody listens is an error at once, and tried again with the next cell', async () => {
    const port = await freePort();
    await using server = await TestServer.start(['--jupyter-url', `http://127.0.0.1:${port}`]);
    for (const _ of [1, 2]) {
      const { observation, content } = await runCell(server, '1');
      expect(observation).toBe('error');
      expect(content).toContain(`The Jupyter server at http://127.0.0.1:${port} does not answer: `);
    }
  });

  test('of something else is an error that says so', async () => {
    await using other = await TestServer.start();
    await using server = await TestServer.start(['--jupyter-url', other.url]);
    expect((await runCell(server, '1')).content).toBe(`The Jupyter server at ${other.url} answered HTTP 404.`);
  });
});

describe('without Jupyter', () => {
  test('the answer says how to install it, and everything else works', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'actiond-python-'));
    try {
      const python = join(directory, 'python3');
      writeFileSync(python, '#!/bin/sh\necho "it has nothing" >&2\nexit 3\n');
      chmodSync(python, 0o755);
      await using server = await TestServer.start(['--jupyter-python', python]);
      const { observation, content } = await runCell(server, '1');
      expect(observation).toBe('error');
      expect(content).toContain(`Jupyter could not be started (${python}: it has nothing).`);
      expect(content).toContain('pip install jupyter_kernel_gateway ipykernel');
      expect((await server.run('echo works')).content).toBe('works');
      const { status, subsystems } = await readiness(server);
      expect([status, subsystems.jupyter]).toEqual(['ready', 'failed']);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  test('an interpreter that the account cannot reach is named, with the account and what to do', async (context) => {
    needsJupyter(context);
    context.skip(process.getuid?.() !== 0 || findAccount('nobody') === undefined, 'needs root and the account nobody');
    const directory = mkdtempSync(join(tmpdir(), 'actiond-python-'));
    try {
      // As an environment in a directory of everybody whose interpreter is a link into a private one.
      const [hidden, open] = [join(directory, 'private'), join(directory, 'open')];
      chmodSync(directory, 0o755);
      mkdirSync(hidden, { mode: 0o700 });
      mkdirSync(open, { mode: 0o755 });
      const python = join(open, 'python');
      symlinkSync(JUPYTER_PYTHON, join(hidden, 'python'));
      symlinkSync(join(hidden, 'python'), python);
      await using server = await TestServer.start(['--jupyter-python', python, '--username', 'nobody']);
      const reason = `${python}: the account nobody cannot execute it: pass --jupyter-python with an interpreter outside of`;
      await until('the search for Jupyter', async () => (await readiness(server)).subsystems.jupyter === 'failed');
      expect((await readiness(server)).reasons.jupyter).toContain(reason);
      const { observation, content } = await runCell(server, '1');
      expect(observation).toBe('error');
      expect(content).toContain(`Jupyter could not be started (${reason}`);
      expect((await readiness(server)).reasons.jupyter).toBe(content);
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });

  test('an interpreter that is not there is named', async () => {
    await using server = await TestServer.start(['--jupyter-python', '/nonexistent/python']);
    expect((await runCell(server, '1')).content).toContain('(/nonexistent/python: not found)');
  });
});

describe('a kernel of another language', () => {
  beforeEach(needsJupyter);

  test("runs cells, without what is Python's own", async () => {
    const directory = mkdtempSync(join(tmpdir(), 'actiond-kernels-'));
    try {
      const program = join(import.meta.dirname, '../fixtures/kernels/echo_kernel.py');
      const spec = {
        argv: [JUPYTER_PYTHON, program, '-f', '{connection_file}'],
        display_name: 'Echo',
        language: 'echo',
      };
      mkdirSync(join(directory, 'kernels/echo'), { recursive: true });
      writeFileSync(join(directory, 'kernels/echo/kernel.json'), JSON.stringify(spec));
      await using server = await startJupyterServer([], { JUPYTER_PATH: directory });
      const echo = (code: string, include_extra = false) =>
        runCell(server, code, { kernel: 'echo', session: 'echo', include_extra });
      expect((await echo('hello')).content).toBe('echo: hello');
      expect((await echo('hello', true)).content).toBe(
        `echo: hello\n[Jupyter current working directory: ${server.workingDir}]\n[Jupyter Python interpreter: echo]`,
      );
      const asked = await echo('ask');
      expect(asked.content).toContain('[The cell asked for input, which nobody can give: it was interrupted.');
      expect((await echo('on')).content).toBe('echo: on');
      expect((await runCell(server, 'print("python")')).content).toBe('python');
    } finally {
      rmSync(directory, { recursive: true, force: true });
    }
  });
});

describe('readiness', () => {
  beforeEach(needsJupyter);

  test('lazy until the first cell, then ready', async () => {
    await using server = await startJupyterServer();
    expect((await readiness(server)).subsystems.jupyter).toBe('lazy');
    expect((await server.request('GET', '/sessions')).json.sessions).toHaveLength(1);
    await runCell(server, '1');
    expect((await readiness(server)).subsystems.jupyter).toBe('ready');
  });

  test('a wrong name of a kernel says nothing about the server', async () => {
    await using server = await startJupyterServer();
    expect((await runCell(server, '1', { kernel: 'klingon' })).content).toContain('There is no kernel "klingon"');
    expect((await readiness(server)).subsystems.jupyter).toBe('ready');
  });

  test('with the plugin it starts by itself, and nothing waits for it', async () => {
    await using server = await startJupyterServer(['--plugins', 'jupyter']);
    expect((await readiness(server)).status).toBe('ready');
    await until('the kernel', async () => (await readiness(server)).subsystems.jupyter === 'ready');
    // Without the plugin agent_skills, as in V0.
    expect((await runCell(server, 'print("file_editor" in dir())')).content).toBe('False');
  });

  test('a spare kernel takes the place of one that died', async () => {
    await using server = await startJupyterServer(['--jupyter-warm', '1']);
    const pid = async (): Promise<number> =>
      Number((await runCell(server, 'import os; os.getpid()')).content.split('\n').at(-1));
    const used = await pid();
    const own = new Set(childrenOf(process.pid));
    const gateway = processesWith('jupyter-kernelgateway').find((candidate) => own.has(candidate)) ?? 0;
    await until('a spare', () => childrenOf(gateway).length === 2);
    const spare = childrenOf(gateway).find((kernel) => kernel !== used);

    process.kill(used, 'SIGKILL');
    // A cell that comes before the death is noticed is told of it.
    await until('the spare to be taken', async () => (await pid()) === spare);
    await until('another spare', () => childrenOf(gateway).length === 2);
  });
});

test.each([
  [['--jupyter-url', 'ftp://x'], '--jupyter-url: expected an address such as http://127.0.0.1:8888, got "ftp://x"'],
  [['--jupyter-warm', '-1'], '--jupyter-warm: expected an integer from 0 to 64, got "-1"'],
])('%j is refused with a word', async (flags, message) => {
  await expect(TestServer.start(flags)).rejects.toThrow(message);
});
