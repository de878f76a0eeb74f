/** The tests of V0's own suite (V0 §6.6), by their names, with the same expectations, over HTTP. */
import { accessSync, chmodSync, constants, mkdirSync, realpathSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { findAccount } from '../../src/sandbox/account.ts';
import { JUPYTER_PYTHON, needsJupyter, startJupyterServer } from '../support/jupyter.ts';
import type { RunReply, TestServer } from '../support/server.ts';

const NO_OUTPUT = '[Code executed successfully with no output]';
const ACCOUNT = findAccount('nobody');
/** As the suite's client starts the server. */
const PLUGINS = ['--plugins', 'agent_skills', 'jupyter'];

beforeEach(needsJupyter);

const ipython = (server: TestServer, code: string): Promise<RunReply> =>
  server.action({ action: 'run_ipython', args: { code }, timeout: 120 });

const extras = (server: TestServer): string =>
  `[Jupyter current working directory: ${server.workingDir}]\n[Jupyter Python interpreter: ${JUPYTER_PYTHON}]`;

describe('as the account of the server', () => {
  let server: TestServer;

  beforeAll(async () => void (server = await startJupyterServer(PLUGINS)));
  afterAll(() => server[Symbol.asyncDispose]());

  test('test_simple_cmd_ipython_and_fileop', async () => {
    const listed = await server.soft('ls -l', { timeout: 120 });
    expect(listed.exitCode).toBe(0);
    expect(listed.content).toContain('total 0');
    const hello = await ipython(server, "print('Hello, `World`!\\n')");
    expect(hello.observation).toBe('run_ipython');
    expect(hello.content).toBe(`Hello, \`World\`!\n${extras(server)}`);
    const missing = await server.action({ action: 'read', args: { path: 'hello.sh' } });
    expect(missing.observation).toBe('error');
    expect(missing.content).toContain('File not found');
    const path = join(server.workingDir, 'hello.sh');
    const written = await server.action({
      action: 'write',
      args: { path: 'hello.sh', content: 'echo "Hello, World!"' },
    });
    expect([written.content, written.body.extras.path]).toEqual(['', path]);
    const read = await server.action({ action: 'read', args: { path: 'hello.sh' } });
    expect([read.content, read.body.extras.path]).toEqual(['echo "Hello, World!"\n', path]);
    expect((await server.soft('rm -rf hello.sh', { timeout: 120 })).exitCode).toBe(0);
  });

  test('test_ipython_simple', async () => {
    expect((await ipython(server, 'print(1)')).content).toBe(`1\n${extras(server)}`);
  });

  test('test_ipython_chdir', async () => {
    const made = await ipython(
      server,
      "import os\nos.makedirs('test_ipy_chdir')\nprint(os.path.abspath('test_ipy_chdir'))",
    );
    const [directory = ''] = made.content.split('\n');
    expect(directory).toBe(join(server.workingDir, 'test_ipy_chdir'));
    const moved = await ipython(server, `os.chdir(r'${directory}')\nprint(os.getcwd())`);
    expect(moved.content.split('\n')[0]).toBe(directory);
    await ipython(server, `os.chdir(r'${server.workingDir}')`);
  });

  test('test_ipython_package_install', async (context) => {
    expect((await ipython(server, 'import pymsgbox')).content).toContain(
      "ModuleNotFoundError: No module named 'pymsgbox'",
    );
    const installed = await ipython(server, '%pip install pymsgbox==1.0.9');
    context.skip(
      /Could not find a version|connection|No matching distribution/i.test(installed.content),
      'no package index can be reached',
    );
    try {
      expect(installed.content).toMatch(/Successfully installed pymsgbox-1\.0\.9|\[Package installed successfully\]/);
      expect((await ipython(server, 'import pymsgbox')).content).toBe(`${NO_OUTPUT}\n${extras(server)}`);
    } finally {
      await ipython(server, '%pip uninstall -y pymsgbox');
    }
  });

  test('test_ipython_file_editor_permissions_as_openhands (its own files)', async () => {
    const path = join(server.workingDir, 'editor.txt');
    const call = async (args: string): Promise<string> =>
      (await ipython(server, `print(file_editor(${args}))`)).content;
    expect(await call(`command='create', path='${path}', file_text='Line 1\\nLine 2\\nLine 3'`)).toContain(
      'File created successfully',
    );
    expect(await call(`command='view', path='${path}'`)).toContain('Line 2');
    expect(await call(`command='str_replace', path='${path}', old_str='Line 2', new_str='New Line 2'`)).toContain(
      'New Line 2',
    );
    const undone = await call(`command='undo_edit', path='${path}'`);
    expect(undone).toContain('Last edit to');
    expect(undone).toContain('undone successfully');
  });
});

describe('as root for another account', () => {
  let server: TestServer;
  const { uid } = ACCOUNT ?? { uid: -1 };

  beforeAll(async () => {
    if (!canSwitch()) return;
    server = await startJupyterServer([...PLUGINS, '--username', 'nobody']);
    chmodSync(dirname(server.workingDir), 0o755);
  });
  afterAll(() => server?.[Symbol.asyncDispose]());
  beforeEach((context) =>
    context.skip(!canSwitch(), 'needs root, the account nobody, and an interpreter that it can reach'),
  );

  test('test_ipython_multi_user', async () => {
    expect((await ipython(server, "import os; print(os.environ['USER'])")).content).toBe(`nobody\n${extras(server)}`);
    expect((await ipython(server, 'import os; print(os.getcwd())')).content).toBe(
      `${server.workingDir}\n${extras(server)}`,
    );
    const written = await ipython(server, "with open('test.txt', 'w') as f: f.write('Hello, world!')");
    expect(written.content).toBe(`${NO_OUTPUT}\n${extras(server)}`);
    expect(statSync(join(server.workingDir, 'test.txt')).uid).toBe(uid);
  });

  test('what IPython keeps is not left among the temporary files by a kernel that is killed', async () => {
    const { content } = await ipython(server, 'print(get_ipython().ipython_dir)');
    expect(content).toMatch(/\/actiond-\d+-\d+-\w+\/jupyter\/ipython$/m);
  });

  test('test_ipython_file_editor_permissions_as_openhands', async () => {
    const locked = join(dirname(server.workingDir), 'locked');
    mkdirSync(locked, { mode: 0o700 });
    const path = join(locked, 'test.txt');
    writeFileSync(path, 'secret\n', { mode: 0o600 });
    const call = async (args: string): Promise<string> =>
      (await ipython(server, `print(file_editor(${args}))`)).content;
    for (const args of [
      `command='view', path='${path}'`,
      `command='str_replace', path='${path}', old_str='secret', new_str='open'`,
      `command='create', path='${locked}/new.txt', file_text='x'`,
    ])
      expect(await call(args), args).toMatch(/ERROR:\\nRan into \[Errno 13\] Permission denied: /);
  });
});

/** Whether the account may reach the interpreter: each directory above it, and above what it links to. */
function canSwitch(): boolean {
  return (
    process.getuid?.() === 0 && ACCOUNT !== undefined && isReachable(JUPYTER_PYTHON) && isReachable('/usr/bin/setpriv')
  );
}

function isReachable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    for (const start of [path, realpathSync(path)])
      for (let directory = dirname(start); directory !== '/'; directory = dirname(directory))
        if ((statSync(directory).mode & 0o001) === 0) return false;
    return true;
  } catch {
    return false;
  }
}
