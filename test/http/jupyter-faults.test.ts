/** Kernels that die, hang or are cut off: the answer says so in time, and the next cell works. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { cancel, ended, eventsOf, outputOf, post } from '../support/actions.ts';
import {
  type CellAnswer,
  cellOf,
  type CellOptions,
  needsJupyter,
  runCell,
  startJupyterServer,
} from '../support/jupyter.ts';
import { childrenOf, processesWith } from '../support/processes.ts';
import type { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

let server: TestServer;

beforeEach(needsJupyter);
beforeAll(async () => void (server = await startJupyterServer()));
afterAll(() => server[Symbol.asyncDispose]());

const cell = (code: string, options?: CellOptions): Promise<CellAnswer> => runCell(server, code, options);
const text = async (code: string, options?: CellOptions): Promise<string> => (await cell(code, options)).content;

async function begin(code: string, options?: CellOptions): Promise<string> {
  const { json } = await post(server, cellOf(code, options), { prefer: 'respond-async' });
  return json.action_id as string;
}

/** Waits until a cell has shown something. */
const shown = (id: string, what: string): Promise<void> =>
  until(what, async () => outputOf(await eventsOf(server, id)).includes(what));

const gatewayPid = (): number => {
  const own = new Set(childrenOf(process.pid));
  return processesWith('jupyter-kernelgateway').find((pid) => own.has(pid)) ?? 0;
};

describe('a kernel that dies', () => {
  test.each([
    ['os._exit', 'import os; print("going"); os._exit(9)', 'exit code 9'],
    ['SIGKILL', 'import os, signal; print("going"); os.kill(os.getpid(), signal.SIGKILL)', 'killed by signal 9'],
    [
      'a segmentation fault',
      'import ctypes, time; print("going"); time.sleep(0.3); ctypes.string_at(0)',
      'killed by signal 11',
    ],
  ])('%s is told, with what it printed', async (_, code, cause) => {
    await text('keep = 1');
    const { content, observation } = await cell(code);
    expect(observation).toBe('run_ipython');
    expect(content).toMatch(/^going\n/);
    expect(content).toContain(`[The kernel died (${cause}): all variables are lost.`);
    expect(await text('print("keep" in dir())')).toBe('False');
  });

  test('has a successor with its directory, environment and skills', async () => {
    await server.run('mkdir -p healed && cd healed && export SHELLS=1');
    await text('import os; os.environ["OWN"] = "2"; del os.environ["LOGNAME"]');
    await text('import os; os._exit(1)');
    const show =
      'import os; print(os.getcwd()); print([os.environ.get(n) for n in ("SHELLS", "OWN", "LOGNAME")]); print(callable(file_editor))';
    expect(await text(show)).toBe(`${server.workingDir}/healed\n['1', '2', None]\nTrue`);
    await server.run('cd ..');
  });

  test('has a successor where Python code had gone, until the shell moves on', async () => {
    await server.run('mkdir -p left moved');
    await text('import os; os.chdir("left")');
    await text('import os; os._exit(1)');
    expect(await text('import os; print(os.getcwd())')).toBe(`${server.workingDir}/left`);
    await text('os._exit(1)');
    await server.run('cd moved');
    expect(await text('import os; print(os.getcwd())')).toBe(`${server.workingDir}/moved`);
    await server.run('cd ..');
  });

  test('between two cells is told by the next one', async () => {
    const pid = Number(await text('import os; os.getpid()'));
    process.kill(pid, 'SIGKILL');
    await until('the death noticed', async () => {
      const { json } = await server.request('GET', '/sessions');
      const session = json.sessions.find(({ lane }: { lane: string }) => lane === 'ipython:default');
      return session.pid !== pid;
    });
    expect(await text('print("on")')).toBe(
      '[The kernel had died (killed by signal 9) before this cell: all variables are lost, and a new kernel was started.]\non',
    );
    expect(await text('print("on")')).toBe('on');
  });

  test('quit() ends it with a word', async () => {
    expect(await text('quit()')).toContain('[The cell ended its kernel: all variables are lost.');
    expect(await text('print("on")')).toBe('on');
  });

  test('takes what it has started with it', async () => {
    await text(
      'import subprocess; subprocess.Popen(["sleep", "987654"]); subprocess.Popen(["setsid", "sleep", "987654"])',
    );
    expect(processesWith('sleep 987654')).toHaveLength(2);
    await server.request('DELETE', '/sessions/ipython:default');
    expect(processesWith('sleep 987654')).toEqual([]);
  });
});

describe('a cell beyond its time', () => {
  test('is interrupted, and its output kept above the text of V0', async () => {
    await text('n = 0');
    const { content } = await cell('print("begin")\nwhile True: n += 1', { timeout: 1 });
    expect(content).toMatch(/^begin\n[^]*KeyboardInterrupt:?\s*\n\[Execution timed out \(1\.0 seconds\)\.\]$/);
    expect(await text('print(n > 0)')).toBe('True');
  });

  test('in C code that waits is interrupted too', async () => {
    expect(await text('import time; time.sleep(60)', { timeout: 0.5 })).toContain(
      '[Execution timed out (0.5 seconds).]',
    );
    expect(await text('print("free")')).toBe('free');
  });

  test.each([
    ['waits', 'await asyncio.sleep(60)', 'CancelledError'],
    ['waits for others', 'await asyncio.gather(asyncio.sleep(60), asyncio.sleep(70))', 'CancelledError'],
    ['computes', 'await asyncio.sleep(0)\nwhile True: pass', 'KeyboardInterrupt'],
    [
      'waits while another task computes',
      'async def busy():\n  while True: pass\ntask = asyncio.ensure_future(busy())\nawait asyncio.sleep(60)',
      'CancelledError',
    ],
  ])('in a coroutine that %s is interrupted, and its kernel lives', async (_, code, error) => {
    await text('x = 7');
    const content = await text(`import asyncio\nprint("begin")\n${code}`, { timeout: 1 });
    expect(content).toMatch(/^begin\n[^]*\n\[Execution timed out \(1\.0 seconds\)\.\]$/);
    expect(content).toContain(error);
    expect(await text('x')).toBe('7');
  });

  test.each([
    [
      'ignores the interrupt',
      'import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nprint("stubborn")\nwhile True: pass',
    ],
    [
      'is in C code that nothing reaches',
      'import ctypes, signal\nprint("stubborn")\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\nctypes.PyDLL(None).sleep(60)',
    ],
  ])('that %s costs the kernel, and the answer says so', async (_, code) => {
    const content = await text(code, { timeout: 1 });
    expect(content).toMatch(
      /^stubborn\n\[Execution timed out \(1\.0 seconds\)\.\]\n\[The cell did not react to the interrupt, so the kernel was restarted/,
    );
    expect(await text('print("on")')).toBe('on');
  });
});

describe('cancelling', () => {
  test('a cell that waits for its turn', async () => {
    const first = await begin('import time; print("first"); time.sleep(30)');
    const second = await begin('print("never")');
    expect((await cancel(server, second)).status).toBe('cancelled');
    await shown(first, 'first');
    expect((await cancel(server, first)).observation?.content).toContain('[The cell was cancelled.]');
    expect(outputOf(await eventsOf(server, second))).toBe('');
  });

  test('a cell that ignores it costs the kernel', async () => {
    const id = await begin(
      'import time\nprint("deaf")\nwhile True:\n  try: time.sleep(30)\n  except KeyboardInterrupt: pass',
    );
    await shown(id, 'deaf');
    const { observation, status } = await cancel(server, id);
    expect(status).toBe('cancelled');
    expect(observation?.content).toContain('[The cell did not react to the interrupt, so the kernel was restarted');
    expect(await text('print("on")')).toBe('on');
  });
});

describe('a stream that is gone', () => {
  test.each([
    ['sys.stdout = None', 'sys.stdout'],
    ['sys.stdout = sys.stderr = None', 'sys.stdout and sys.stderr'],
    ['del sys.stdout', 'sys.stdout'],
    ['sys.stderr = open("/dev/null", "w"); sys.stderr.close()', 'sys.stderr'],
    ['sys.stdout = 5', 'sys.stdout'],
  ])('%s: the next cell has it again', async (code, names) => {
    await text('x = 7');
    expect(await text(`import sys\nprint("begin")\n${code}`, { timeout: 10 })).toBe(
      `begin\n[${names} could not be written to: it is the kernel's own again.]`,
    );
    expect(await text('print(x); print("e", file=sys.stderr)', { timeout: 10 })).toBe('7\ne');
  });

  test('the own one cannot be closed', async () => {
    expect(await text('import sys\nprint("begin"); sys.stdout.close(); sys.stderr.close()', { timeout: 10 })).toBe(
      'begin',
    );
    expect(await text('print("on")', { timeout: 10 })).toBe('on');
  });

  test('taken by a thread between two cells', async () => {
    const taken = join(server.workingDir, 'taken');
    await text(
      `import sys, threading\ndef take():\n  sys.stdout = None; open("${taken}", "w").close()\nthreading.Timer(0.3, take).start()`,
    );
    await until('the stream to be taken', () => existsSync(taken));
    expect(await text('print("on")', { timeout: 10 })).toBe('on');
  });

  test('one that can be written to stays where the user has put it', async () => {
    await text('import io, sys\nsys.stdout = io.StringIO()\nprint("kept")');
    expect(
      await text('print("too"); kept = sys.stdout.getvalue(); sys.stdout = sys.__stdout__ = own = None'),
    ).toContain('sys.stdout could not');
    expect(await text('kept')).toBe("'kept\\ntoo\\n'");
    await text('own, sys.stdout = sys.stdout, io.StringIO()');
    expect(await text('sys.stdout = own; print("back")')).toBe('back');
  });
});

describe('the gateway', () => {
  test('that is killed is told, leaves nothing behind and is started again', async () => {
    const kernel = Number(await text('import os; os.getpid()'));
    await text('import os; os.chdir("/")');
    const id = await begin('print("working"); import time; time.sleep(60)');
    await shown(id, 'working');
    process.kill(gatewayPid(), 'SIGKILL');
    const { observation } = await ended(server, id);
    expect(observation?.content).toMatch(/^working\n\[The kernel died \(the Jupyter server ended: killed by SIGKILL\)/);
    await until('the old kernel gone', () => !processesWith('ipykernel').includes(kernel));
    expect(await text('print("on")')).toBe('on');
    expect((await server.request('GET', '/ready')).json.subsystems.jupyter).toBe('ready');
  });

  test('that stands still for a while costs no line of a flood', async () => {
    const id = await begin('print("start")\nfor i in range(4000): print(i, flush=True)');
    await shown(id, 'start');
    const pid = gatewayPid();
    process.kill(pid, 'SIGSTOP');
    // Long enough for the kernel to fill every queue on the way.
    setTimeout(() => process.kill(pid, 'SIGCONT'), 3000);
    const lines = (await ended(server, id)).observation?.content.split('\n');
    expect(lines).toEqual(['start', ...Array.from({ length: 4000 }, (_, index) => String(index))]);
  });

  test('that stands still while a kernel dies passes on what it has printed last', async () => {
    const go = join(server.workingDir, 'go');
    const id = await begin(
      `import os, time\nprint("start")\nwhile not os.path.exists("${go}"): time.sleep(0.01)\nprint("last"); os._exit(3)`,
    );
    await shown(id, 'start');
    const pid = gatewayPid();
    process.kill(pid, 'SIGSTOP');
    writeFileSync(go, '');
    // Long enough for the death to be noticed.
    setTimeout(() => process.kill(pid, 'SIGCONT'), 1500);
    expect((await ended(server, id)).observation?.content).toMatch(/^start\nlast\n\[The kernel died \(exit code 3\)/);
  });

  test('survives that its directory is removed', async () => {
    const remove = 'import os, shutil\nfrom ipykernel.connect import get_connection_file\n';
    const directory = await text(`${remove}d = os.path.dirname(get_connection_file()); shutil.rmtree(d); print(d)`);
    expect(directory).toMatch(/\/actiond-\d+-\d+-\w+\/jupyter$/);
    expect(existsSync(directory)).toBe(false);
    expect(await text('print("on")')).toBe('on');
    await text('import os; os._exit(1)');
    expect(await text('print("on")')).toBe('on');
    expect(await text('print("new")', { session: 'new' })).toBe('new');
  });
});

describe('many cells', () => {
  test('ten kernels at once', async () => {
    const names = Array.from({ length: 10 }, (_, index) => `many${index}`);
    const answers = await Promise.all(names.map((session) => text(`print("${session}")`, { session })));
    expect(answers).toEqual(names);
    await Promise.all(names.map((session) => server.request('DELETE', `/sessions/ipython:${session}`)));
    const { json } = await server.request('GET', '/sessions');
    expect(json.sessions.some(({ name }: { name: string }) => name.startsWith('many'))).toBe(false);
  });

  test('two hundred in a row, each whole', async () => {
    for (let index = 0; index < 200; index += 1)
      expect(await text(`print(${index}); ${index} * 2`)).toBe(`${index}\n${index * 2}`);
  });

  test('that print and show much leave nothing of it in the kernel', async () => {
    const resident = 'int(open("/proc/self/statm").read().split()[1]) * 4096';
    const megabytes = async (): Promise<number> => Number(await text(`print(${resident} // 2 ** 20)`));
    const show = 'for _ in range(20): print("x" * 2 ** 20)\ndisplay("x" * 2 ** 20)\n"x" * 2 ** 20';
    await text(show);
    const before = await megabytes();
    for (let index = 0; index < 6; index += 1) await text(show);
    expect((await megabytes()) - before).toBeLessThan(60);
  });

  test('fifty megabytes in one line and in many, in bounded memory', async () => {
    const before = process.memoryUsage().rss;
    const line = await cell('print("y" * 50_000_000)');
    const lines = await cell('for _ in range(500_000): print("x" * 99)');
    for (const { body } of [line, lines]) {
      expect(body.truncated).toBe(true);
      expect(body.content.length).toBeLessThan(101_000);
      expect(body.content).toMatch(/\[Full output: .*, 5000000[01] bytes\]$/);
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(300 * 1024 * 1024);
  });
});
