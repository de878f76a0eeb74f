/** Cells of a kernel through the front door: what they answer, see and leave. */
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { cancel, ended, eventsOf, outputOf, post } from '../support/actions.ts';
import {
  type CellAnswer,
  cellOf,
  type CellOptions,
  JUPYTER_PYTHON,
  needsJupyter,
  needsPackage,
  runCell,
  startJupyterServer,
} from '../support/jupyter.ts';
import type { TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const NO_OUTPUT = '[Code executed successfully with no output]';

let server: TestServer;

beforeEach(needsJupyter);
/** A cell that prints for a minute, while the other tests run: its id. */
let minute: string;
beforeAll(async () => {
  server = await startJupyterServer();
  const loop = 'for i in range(600):\n  print(f"line {i}", flush=True); time.sleep(0.1)';
  minute = await begin(`import time\n${loop}`, { session: 'minute', timeout: 110 });
});
afterAll(() => server[Symbol.asyncDispose]());

const cell = (code: string, options?: CellOptions): Promise<CellAnswer> => runCell(server, code, options);
const text = async (code: string, options?: CellOptions): Promise<string> => (await cell(code, options)).content;

async function begin(code: string, options?: CellOptions): Promise<string> {
  const { json } = await post(server, cellOf(code, options), { prefer: 'respond-async' });
  return json.action_id as string;
}

describe('content', () => {
  test('texts follow each other, streams and results in order', async () => {
    expect(await text('print(1); 2')).toBe('1\n2');
    expect(await text('import sys; print("out"); print("err", file=sys.stderr); print("end")')).toBe('out\nerr\nend');
    expect(await text('x = 1')).toBe(NO_OUTPUT);
    expect(await text('')).toBe(NO_OUTPUT);
    expect(await text('print("龍" * 5, "\\N{PILE OF POO}")')).toBe('龍龍龍龍龍 \u{1f4a9}');
  });

  test('the extra lines name the directory and the interpreter', async () => {
    const { content } = await cell('print(1)', { include_extra: true });
    expect(content).toBe(
      `1\n[Jupyter current working directory: ${server.workingDir}]\n[Jupyter Python interpreter: ${JUPYTER_PYTHON}]`,
    );
  });

  test('errors come with chained tracebacks, in plain text', async () => {
    const { content, observation, body } = await cell(
      'def f():\n  raise ValueError("inner")\ntry:\n  f()\nexcept Exception as e:\n  raise KeyError("outer") from e',
    );
    expect(observation).toBe('run_ipython');
    expect(body.success).toBe(true);
    expect(content).toContain(
      'ValueError: inner\n\nThe above exception was the direct cause of the following exception:',
    );
    expect(content).toMatch(/KeyError: 'outer'$/);
    expect(content).not.toContain('\u001b');
    expect(body.outputs[0]).toMatchObject({ output_type: 'error', ename: 'KeyError' });
    expect(await text('def (')).toContain('SyntaxError: invalid syntax');
  });

  test('await works at the top level', async () => {
    expect(await text('import asyncio\nawait asyncio.sleep(0.01)\nprint("awaited")')).toBe('awaited');
  });

  test('a bundle of any type is shown by its best text, and whole in outputs', async () => {
    const html = await cell(
      'class H:\n  def _repr_html_(self): return "<b>x</b>"\n  def __repr__(self): return "plain-x"\nH()',
    );
    expect(html.content).toBe('plain-x');
    expect(html.body.outputs[0].data).toEqual({ 'text/plain': 'plain-x', 'text/html': '<b>x</b>' });
    const custom = await cell(
      'from IPython.display import display\ndisplay({"application/x-thing": "abc"}, raw=True)\ndisplay({"application/json": {"a": 1}}, raw=True)',
    );
    expect(custom.content).toBe('[application/x-thing]\n{"a":1}');
    expect(custom.body.outputs.map(({ data }: { data: object }) => data)).toEqual([
      { 'application/x-thing': 'abc' },
      { 'application/json': { a: 1 } },
    ]);
  });

  test('what a notebook shows in its pager is shown, too', async () => {
    await text('def triple(x):\n  "Three times x."\n  return 3 * x');
    const { content, body } = await cell('print("before")\ntriple?');
    expect(content).toMatch(/^before\nSignature: triple\(x\)\nDocstring: Three times x\.\n/);
    expect(content).not.toContain('\u001b');
    expect(body.outputs.at(-1)).toMatchObject({ output_type: 'display_data' });
    expect(await text('triple??')).toContain('return 3 * x');
  });

  test('images are data URLs in order, and no text', async () => {
    const { content, images, body } = await cell(
      `import base64\nfrom IPython.display import display\npng = "${PNG}"\ndisplay({"image/png": png}, raw=True)\ndisplay({"image/jpeg": "anBn"}, raw=True)\nprint("shown")`,
    );
    expect(content).toBe('shown');
    expect(images).toEqual([`data:image/png;base64,${PNG}`, 'data:image/jpeg;base64,anBn']);
    expect(body.outputs).toHaveLength(3);
    expect((await cell('print("none")')).images).toBeNull();
  });

  test('what is cleared or updated ends as a notebook shows it', async () => {
    const clear = 'from IPython.display import clear_output, display\n';
    expect(await text(`${clear}for i in range(30): clear_output(wait=True); print("frame", i)`)).toBe('frame 29');
    expect(await text(`${clear}print("gone"); clear_output(); print("kept")`)).toBe('kept');
    expect(await text(`${clear}print("kept"); clear_output(wait=True)`)).toBe('kept');
    expect(await text('h = display("v0", display_id="d")\nfor i in range(30): h.update(f"v{i}")\nprint("end")')).toBe(
      "'v29'\nend",
    );
    expect(await text('h.update("later")')).toBe("'later'");
  });

  test('progress bars end in their last state', async () => {
    const bar = 'import sys\nfor i in range(300): print(f"\\rload {i + 1}/300", end="", flush=True)\nprint()';
    expect(await text(bar)).toBe('load 300/300');
    expect(await text('import sys\nsys.stderr.write("50%|#####     |\\r100%|##########|\\n"); print("done")')).toBe(
      '100%|##########|\ndone',
    );
    expect(await text('print("\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07plain")')).toBe('red plain');
  });

  test('long text is cut in the middle and whole in a file', async () => {
    const { content, body } = await cell('for i in range(60_000): print("line", i)');
    expect(content).toMatch(/^line 0\nline 1\n/);
    expect(content).toContain('\n[... Observation truncated due to length ...]\n');
    expect(content).toContain('\nline 59999\n[Full output: ');
    expect(content.length).toBeLessThan(101_000);
    expect(body.truncated).toBe(true);
    const whole = readFileSync(body.output_file as string, 'utf8');
    expect(whole).toBe(Array.from({ length: 60_000 }, (_, index) => `line ${index}\n`).join(''));
  });

  test('characters outside of the basic plane are whole wherever the text is taken apart', async () => {
    const expected = `a${'\u{1f4a9}'.repeat(150_000)}`;
    const { body } = await cell('print("a" + "\\N{PILE OF POO}" * 150_000)');
    expect(body.truncated).toBe(true);
    expect(readFileSync(body.output_file as string, 'utf8') === `${expected}\n`).toBe(true);
    expect(outputOf(await eventsOf(server, body.action_id as string)) === `${expected}\n`).toBe(true);
  });

  test('each flushed line of a flood arrives', async () => {
    const { content } = await cell('for i in range(3000): print(i, flush=True)');
    expect(content).toBe(Array.from({ length: 3000 }, (_, index) => String(index)).join('\n'));
  });

  test('half a surrogate pair that is printed costs nothing else', async () => {
    expect(await text('print("a\\ud800b"); print("next")')).toBe('a\\ud800b\nnext');
  });

  test('input is refused at once', async () => {
    expect(await text('name = input("name? ")')).toContain('does not support input requests');
    expect(await text('import getpass; getpass.getpass()')).toContain('StdinNotImplementedError');
    expect(
      await text('import subprocess; print(subprocess.run(["cat"], capture_output=True, timeout=9).returncode)'),
    ).toBe('0');
  });
});

describe("notebooks' work", () => {
  test('a plot is an image', async (context) => {
    needsPackage(context, 'matplotlib');
    const { content, images } = await cell('import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()');
    expect(content).toBe('<Figure size 640x480 with 1 Axes>');
    expect(images).toHaveLength(1);
    expect(images?.[0]).toMatch(/^data:image\/png;base64,iVBOR/);
  });

  test('a data frame is text, and HTML in outputs', async (context) => {
    needsPackage(context, 'pandas');
    const { content, body } = await cell('import pandas as pd\npd.DataFrame({"a": [1, 2]})');
    expect(content).toBe('   a\n0  1\n1  2');
    expect(body.outputs[0].data['text/html']).toContain('<table');
  });

  test('tqdm ends at 100 %', async (context) => {
    needsPackage(context, 'tqdm');
    const content = await text('from tqdm import tqdm\nfor _ in tqdm(range(50)): pass\nprint("done")');
    expect(content).toMatch(/^100%\|█+\| 50\/50 .*\ndone$/);
  });
});

describe('widgets', () => {
  test('a progress bar of tqdm ends at 100 %, where a notebook would show it', async (context) => {
    needsPackage(context, 'tqdm');
    needsPackage(context, 'ipywidgets');
    const { content, body } = await cell(
      'from tqdm.notebook import tqdm\nfor _ in tqdm(range(50)): pass\nprint("done")',
    );
    expect(content).toMatch(/^100%\|█{10}\|\s50\/50\s\[[^\]]*\]\ndone$/);
    expect(body.outputs[0].data['application/vnd.jupyter.widget-view+json'].model_id).toMatch(/^\w+$/);
  });

  test.for(['tqdm', 'tqdm.notebook', 'tqdm.auto'])('a bar of %s that is not to stay is gone', async (name, context) => {
    needsPackage(context, 'tqdm');
    needsPackage(context, 'ipywidgets');
    const { content } = await cell(
      `from ${name} import tqdm\nprint("begin")\nfor _ in tqdm(range(3)):\n  for _ in tqdm(range(50), leave=False): pass\nprint("done")`,
    );
    expect(content).toMatch(/^begin\n100%\|█+\|\s3\/3\s[^\n]*\ndone$/);
    const alone = await cell(`for _ in tqdm(range(50), leave=False): pass\nprint("done")`);
    expect(alone.content).toBe('done');
  });

  test('so does one of rich', async (context) => {
    needsPackage(context, 'rich');
    needsPackage(context, 'ipywidgets');
    expect(await text('from rich.progress import track\nfor _ in track(range(50)): pass')).toMatch(
      /^Working\.\.\. ━+ 100% \d:\d\d:\d\d$/,
    );
  });

  test('one that is not finished shows how far it is, and goes on in a later cell', async (context) => {
    needsPackage(context, 'ipywidgets');
    expect(
      await text('import ipywidgets\nbar = ipywidgets.IntProgress(value=3, max=10, description="step ")\nbar'),
    ).toBe('step |███       |');
    expect(await text('bar.value = 10\nbar')).toBe('step |██████████|');
    expect(await text('ipywidgets.IntSlider(value=3)')).toBe('IntSlider(value=3)');
  });
});

describe('following the shell', () => {
  const SESSION = 'follow';
  const inShell = (command: string) => server.run(command, { session: SESSION });
  const inKernel = (code: string) => text(code, { session: SESSION });

  test('its directory, whatever the name; Python may leave until the shell moves on', async () => {
    const odd = join(server.workingDir, `a 'b" \\ $x`);
    mkdirSync(odd);
    await inShell(`cd ${JSON.stringify(server.workingDir)}/a*`);
    expect(await inKernel('import os; print(os.getcwd())')).toBe(odd);
    await inKernel('os.chdir("/")');
    expect(await inKernel('print(os.getcwd())')).toBe('/');
    await inShell('cd ..');
    expect(await inKernel('print(os.getcwd())')).toBe(server.workingDir);
  });

  test('a directory that is gone is told, and the kernel goes on', async () => {
    const gone = join(server.workingDir, 'gone');
    mkdirSync(gone);
    await inShell('cd gone');
    rmSync(gone, { recursive: true });
    const content = await inKernel('print("still here")');
    expect(content).toContain(`The shell's directory ${gone} cannot be entered`);
    expect(content).toContain('still here');
    await inShell('cd ..');
    expect(await inKernel('print(os.getcwd())')).toBe(server.workingDir);
  });

  test('what it exports, as it changes', async () => {
    await inShell(`export ONE='a "b" $c' TWO=$'x\\ny' THREE=3; FOUR=not-exported`);
    const show = 'import os; print([os.environ.get(n) for n in ("ONE", "TWO", "THREE", "FOUR")])';
    expect(await inKernel(show)).toBe(`['a "b" $c', 'x\\ny', '3', None]`);
    await inKernel('os.environ["THREE"] = "mine"');
    await inShell('unset ONE; export TWO=2');
    expect(await inKernel(show)).toBe(`[None, '2', 'mine', None]`);
    await inShell('export THREE=shell');
    expect(await inKernel(show)).toBe(`[None, '2', 'shell', None]`);
  });

  test("`!pip` and `%pip` are the kernel's own", async () => {
    expect(await inKernel('!command -v python')).toBe(JUPYTER_PYTHON);
    expect(await inKernel('%pip --version')).toContain(join(JUPYTER_PYTHON, '../..'));
  });
});

describe('several cells in one action', () => {
  test('run in order and are answered together and one by one', async () => {
    const { content, body } = await cell('', { cells: ['a = 1', 'print(a)', 'a + 1'] });
    expect(content).toBe('1\n2');
    expect(body.cells.map(({ status, content: own }: { status: string; content: string }) => [status, own])).toEqual([
      ['ok', NO_OUTPUT],
      ['ok', '1'],
      ['ok', '2'],
    ]);
    expect(body.extras.code).toBe('a = 1\nprint(a)\na + 1');
  });

  test('stop at the first error, unless told otherwise', async () => {
    const cells = ['print("first")', '1/0', 'print("third")'];
    const stopped = await cell('', { cells });
    expect(stopped.content).toContain('[Cell 2 of 3 failed; the one after it was not run.]');
    expect(stopped.content).not.toContain('third');
    expect(stopped.body.cells.map(({ status }: { status: string }) => status)).toEqual(['ok', 'error', 'skipped']);
    const all = await cell('', { cells, stop_on_error: false });
    expect(all.content).toMatch(/^first\n[^]*ZeroDivisionError[^]*\nthird$/);
    expect(all.body.cells.map(({ status }: { status: string }) => status)).toEqual(['ok', 'error', 'ok']);
  });

  test('share one time limit', async () => {
    const { content, body } = await cell('', {
      cells: ['print("one")', 'import time; time.sleep(60)', 'print("three")'],
      timeout: 1,
    });
    expect(content).toMatch(/^one\n[^]*\[Execution timed out \(1\.0 seconds\)\.\]\n\[Cell 2 of 3 failed/);
    expect(body.cells[2]).toEqual({ status: 'skipped' });
  });
});

describe('live output', () => {
  test('comes while the cell runs, without escapes', async () => {
    const id = await begin('import time\nprint("\\x1b[1mearly\\x1b[0m")\nwhile True: time.sleep(0.05)');
    await until('the first output', async () => outputOf(await eventsOf(server, id)) === 'early\n');
    const { observation, status } = await cancel(server, id);
    expect(status).toBe('cancelled');
    expect(observation?.content).toMatch(/^early\n[^]*KeyboardInterrupt[^]*\n\[The cell was cancelled\.\]$/);
  });

  test('of a thread belongs to the cell that started it, also behind its end', async () => {
    await cell('import threading\ngo = threading.Event()');
    const code = 'def late():\n  go.wait(20)\n  print("late")\nthreading.Thread(target=late).start()\nprint("started")';
    const first = await begin(code);
    await ended(server, first);
    const second = await begin('go.set()\nfor i in range(20): time.sleep(0.02); print("mine")');
    const { observation } = await ended(server, second);
    expect(observation?.content).toBe(Array.from({ length: 20 }, () => 'mine').join('\n'));
    await until('the late output', async () => outputOf(await eventsOf(server, first)) === 'started\nlate\n');
    expect(outputOf(await eventsOf(server, second))).not.toContain('late');
  });
});

describe('sessions', () => {
  const sessions = async (): Promise<{ lane: string; pid: number; state: string; cwd: string }[]> =>
    (await server.request('GET', '/sessions')).json.sessions;

  test('have kernels of their own, are listed and can be ended', async () => {
    await cell('who = "one"', { session: 'one' });
    expect(await text('print("who" in dir())', { session: 'two' })).toBe('False');
    const one = (await sessions()).find(({ lane }) => lane === 'ipython:one');
    expect(one).toMatchObject({ name: 'one', kind: 'jupyter', state: 'idle', cwd: server.workingDir });
    expect(Number(await text('import os; print(os.getpid())', { session: 'one' }))).toBe(one?.pid);
    expect((await server.request('DELETE', '/sessions/ipython:one')).json).toEqual({ closed: 'ipython:one' });
    expect((await sessions()).some(({ lane }) => lane === 'ipython:one')).toBe(false);
    expect((await server.request('DELETE', '/sessions/ipython:one')).status).toBe(404);
    expect(await text('print("who" in dir())', { session: 'one' })).toBe('False');
  });

  test('run beside each other and beside the shell', async () => {
    const slow = await begin('import time; time.sleep(30)', { session: 'two' });
    expect(await text('print("free")')).toBe('free');
    expect((await server.run('echo free')).content).toBe('free');
    expect((await sessions()).find(({ lane }) => lane === 'ipython:two')?.state).toBe('running');
    await cancel(server, slow);
  });

  test('are interrupted and restarted from outside', async () => {
    await cell('keep = 1', { session: 'two' });
    const first = await begin('import time; print("on"); time.sleep(30)', { session: 'two' });
    await until('the cell at work', async () => outputOf(await eventsOf(server, first)) !== '');
    expect((await server.request('POST', '/sessions/ipython:two/interrupt')).json).toEqual({ interrupted: true });
    expect((await ended(server, first)).observation?.content).toMatch(/^on\n[^]*KeyboardInterrupt/);
    expect(await text('print(keep)', { session: 'two' })).toBe('1');
    expect((await server.request('POST', '/sessions/ipython:two/restart')).json).toEqual({ restarted: 'ipython:two' });
    expect(await text('print("keep" in dir())', { session: 'two' })).toBe('False');
    expect((await server.request('POST', '/sessions/ipython:two/interrupt')).json).toEqual({ interrupted: false });
    for (const path of ['/sessions/ipython:none/interrupt', '/sessions/bash:default/restart'])
      expect((await server.request('POST', path)).status, path).toBe(404);
  });

  test('name a kernel of the server, or say which there are', async () => {
    expect(await text('1', { session: 'three', kernel: 'python3' })).toBe('1');
    const unknown = await cell('1', { session: 'four', kernel: 'klingon' });
    expect(unknown.observation).toBe('error');
    expect(unknown.content).toBe('There is no kernel "klingon": args.kernel can be python3.');
    const other = await cell('1', { session: 'three', kernel: 'klingon' });
    expect(other.content).toContain('The session three has the kernel python3.');
    expect((await sessions()).some(({ lane }) => lane === 'ipython:four')).toBe(false);
  });
});

describe('bad input', () => {
  test.each([
    ['a NUL', { code: 'print("\0")' }, /must not contain a NUL/],
    ['half a surrogate pair', { code: 'print("\ud800")' }, /args\.code: there is half of a surrogate pair at index 7/],
    ['the same in a later cell', { code: '', cells: ['1', '"\udc00"'] }, /args\.cells\[1\]: there is half/],
    ['20 MB of code', { code: `x = "${'a'.repeat(20_000_000)}"` }, /args\.code: 20000006 characters are more than/],
    ['no cells', { code: '', cells: [] }, /cells/],
    ['neither code nor cells', {}, /code/],
    ['a wrong session name', { code: '1', session: 'a/b' }, /session/],
  ])('%s is an error that says what to do', async (_, args, expected) => {
    const { observation, content } = await server.action({ action: 'run_ipython', args, timeout: 30 });
    expect(observation).toBe('error');
    expect(content).toMatch(expected);
    expect(content.length).toBeLessThan(1000);
  });
});

test('secrets are in no answer, event or file, also where they are split or the text is cut', async () => {
  const secret = 'kernel-secret-0123456789';
  await server.request('POST', '/secrets', { values: [secret] });
  const spelled = `a = ${JSON.stringify(secret.slice(0, 9))}; b = ${JSON.stringify(secret.slice(9))}`;
  const split = await cell(
    `${spelled}\nimport sys\nsys.stdout.write("<" + a); sys.stdout.flush(); sys.stdout.write(b + ">\\n"); sys.stdout.flush()\na + b`,
  );
  expect(split.content).toBe("<<secret_hidden>>\n'<secret_hidden>'");
  const long = await cell('for _ in range(12000): print(a + b)');
  expect(long.body.truncated).toBe(true);
  const failed = await cell('raise ValueError(a + b)');
  expect(failed.content).toContain('ValueError: ');
  const events = await Promise.all(
    [long, failed].map(async ({ body }) => (await server.request('GET', `/events?action_id=${body.action_id}`)).json),
  );
  for (const shown of [long.body, failed.body, ...events, readFileSync(long.body.output_file, 'utf8')]) {
    expect(JSON.stringify(shown)).not.toMatch(/kernel-s|0123456789/);
  }
});

test(
  'a loop that prints for a minute is live output all the time, whole and in order',
  { timeout: 120_000 },
  async () => {
    const lines = Array.from({ length: 600 }, (_, line) => `line ${line}`).join('\n');
    await ended(server, minute);
    expect((await ended(server, minute)).observation?.content).toBe(lines);
    const outputs = (await eventsOf(server, minute)).filter(({ kind }) => kind === 'output');
    expect(outputOf(outputs)).toBe(`${lines}\n`);
    expect(outputs.length).toBeGreaterThan(150);
    const [first, last] = [outputs[0], outputs.at(-1)].map((event) => Date.parse(event?.time ?? '')) as [
      number,
      number,
    ];
    expect(last - first).toBeGreaterThan(50_000);
  },
);
