/** The exact words and fields of answers to `run` (V0 §5.3, §4.2), and whose state they speak of. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { RunObservation } from '../../../src/protocol/observations.ts';
import { processesWith } from '../../support/processes.ts';
import { TestServer } from '../../support/server.ts';
import { TestShell } from '../../support/shell.ts';
import { until } from '../../support/wait.ts';

const BIN = join(import.meta.dirname, '../../fixtures/bin');

/** V0 §5.3, "T", letter for letter. */
const T =
  "You may wait longer to see additional output by sending empty command '', send other commands to interact with the current process, " +
  'send keys ("C-c", "C-z", "C-d") to interrupt/kill the previous command before sending your new command, or use the timeout parameter ' +
  'in execute_bash for future commands.';
const BELOW = '[Below is the output of the previous command.]\n';
const SILENT = `\n[The command has no new output after 1 seconds. ${T}]`;
const NOT_EXECUTED = (command: string): string =>
  `\n[Your command "${command}" is NOT executed. The previous command is still running - You CANNOT send new commands until the previous ` +
  `command is completed. By setting \`is_input\` to \`true\`, you can interact with the current process: ${T}]`;
const COMPLETED = (exitCode: number): string => `\n[The command completed with exit code ${exitCode}.]`;
const NOTICE = '\n[... Observation truncated due to length ...]\n';
const NO_METADATA = {
  exit_code: -1,
  pid: -1,
  username: null,
  hostname: null,
  working_dir: null,
  py_interpreter_path: null,
};

let server: TestServer;
let shells = 0;

beforeAll(async () => {
  server = await TestServer.start(['--max-sessions', '100'], {
    NO_CHANGE_TIMEOUT_SECONDS: '1',
    SESSION_API_KEY: '',
    SOME_SESSION_API_KEY: 'k',
  });
});
afterAll(() => server[Symbol.asyncDispose]());

function sessionName(): string {
  shells += 1;
  return `texts-${shells}`;
}

const newShell = (): TestShell => new TestShell(server, sessionName());
const file = (name: string): string => join(server.workingDir, name);

/** The interpreter that an answer names. */
const python = (reply: { body: { extras: { metadata: { py_interpreter_path: string } } } }): string =>
  reply.body.extras.metadata.py_interpreter_path;

/** Prints so many different emoji. */
const printEmoji = (count: number): string =>
  `python3 -c "print(''.join(chr(0x1f600 + i % 64) for i in range(${count})), end='')"`;

const emoji = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, index) => String.fromCodePoint(0x1f600 + ((from + index) % 64))).join('');

describe('texts of V0 §5.3', () => {
  test('completed', async () => {
    const shell = newShell();
    const reply = await shell.run('echo hi; (exit 42)');
    expect([reply.prefix, reply.content, reply.suffix, reply.exitCode]).toEqual(['', 'hi', COMPLETED(42), 42]);
  });

  test('completed after a key', async () => {
    const shell = newShell();
    const waiting = await shell.soft('cat');
    expect([waiting.exitCode, waiting.suffix]).toEqual([-1, SILENT]);
    const ended = await shell.ended(shell.input('C-d'));
    expect([ended.prefix, ended.content, ended.suffix]).toEqual([
      '',
      '',
      '\n[The command completed with exit code 0. CTRL+D was sent.]',
    ]);
    await shell.soft('sleep 60');
    const interrupted = await shell.ended(shell.input('C-c'));
    expect([interrupted.content, interrupted.suffix]).toEqual([
      '^C',
      '\n[The command completed with exit code 130. CTRL+C was sent.]',
    ]);
    await shell.soft('sleep 61');
    const stopped = await shell.ended(shell.input('C-z'));
    expect(stopped.suffix).toBe('\n[The command completed with exit code 148. CTRL+Z was sent.]');
    expect(stopped.content).toBe('^Z\n[1]+  Stopped                 sleep 61');
    await shell.run('kill -9 %1');
  });

  test('start scrolled out of the history', async () => {
    const reply = await newShell().run('seq 1 30000');
    const kept = Number(
      /^\[Previous command outputs are truncated\. Showing the last (\d+) lines of the output below\.\]\n$/.exec(
        reply.prefix,
      )?.[1],
    );
    // V0 §5.7: what V0's own test needs.
    expect(kept).toBeGreaterThanOrEqual(10_001);
    expect(kept).toBeLessThanOrEqual(11_363);
    expect(reply.content.split('\n')[0]).toBe(String(30_000 - kept + 1));
    expect(reply.content).toMatch(/\n30000$/);
    expect(reply.suffix).toBe(`${COMPLETED(0)}\n[Full output: ${reply.body.output_file}]`);
  });

  test('silence, polls and the "Below" prefix', async () => {
    const shell = newShell();
    const first = await shell.soft('echo one; read x; echo "two $x"; read y; echo "three $y"');
    expect(first.body).toMatchObject({
      message: expect.stringMatching(/ executed with exit code -1\.$/),
      success: false,
      content: 'one',
      extras: { hidden: false, metadata: { ...NO_METADATA, prefix: '', suffix: SILENT } },
    });
    const poll = await shell.soft('');
    expect(poll.body.extras).toEqual({
      command: '',
      hidden: false,
      metadata: { ...NO_METADATA, prefix: BELOW, suffix: SILENT },
    });
    expect(poll.content).toBe('');
    const second = await shell.input('a');
    expect([second.prefix, second.content, second.suffix]).toEqual([BELOW, 'two a', SILENT]);
    const third = await shell.ended(shell.input('b'));
    expect([third.prefix, third.content, third.suffix]).toEqual(['', 'three b', COMPLETED(0)]);
  });

  test.each([
    [1, '1.0'],
    [1.25, '1.25'],
  ])('a hard timeout of %d s is printed as Python prints it', async (timeout, printed) => {
    const shell = newShell();
    const reply = await shell.run('echo out; sleep 60', { timeout });
    expect([reply.prefix, reply.content, reply.suffix]).toEqual([
      '',
      'out',
      `\n[The command timed out after ${printed} seconds. ${T}]`,
    ]);
    expect(reply.body.extras.metadata).toMatchObject(NO_METADATA);
    await shell.ended(shell.input('C-c'));
  });

  test('not executed', async () => {
    const shell = newShell();
    await shell.soft('echo out; cat');
    for (const command of ['ls -l "x"', 'C-c', 'echo a\necho b']) {
      const refused = await shell.run(command);
      expect(refused.body.extras).toEqual({
        command,
        hidden: false,
        metadata: { ...NO_METADATA, prefix: BELOW, suffix: NOT_EXECUTED(command) },
      });
      expect([refused.observation, refused.content]).toEqual(['run', '']);
    }
    await shell.ended(shell.input('C-d'));
  });

  test('output that is new since the last report comes with the refusal', async () => {
    const shell = newShell();
    const go = `go-${shells}`;
    await shell.soft(`echo one; until [ -e ${go} ]; do sleep 0.02; done; echo two; touch ${go}-done; cat`);
    writeFileSync(file(go), '');
    await until('the second line', () => existsSync(file(`${go}-done`)));
    const refused = await shell.run('ls');
    expect([refused.prefix, refused.content]).toEqual([BELOW, 'two']);
    expect((await shell.ended(shell.input('C-d'))).content).toBe('');
  });

  test('a refusal that comes first has no prefix', async () => {
    const shell = newShell();
    // Two actions of one lane: the second is taken when the first has been answered, by its hard limit.
    const first = shell.run('cat', { timeout: 0 });
    const second = await shell.run('ls');
    expect((await first).prefix).toBe('');
    expect(second.prefix).toBe(BELOW);
    await shell.ended(shell.input('C-d'));
  });

  test('nothing runs', async () => {
    const shell = newShell();
    for (const [reply, content] of [
      [await shell.run(''), 'ERROR: No previous running command to retrieve logs from.'],
      [await shell.run('  \n '), 'ERROR: No previous running command to retrieve logs from.'],
      [await shell.input('text'), 'ERROR: No previous running command to interact with.'],
      [await shell.input('C-c'), 'ERROR: No previous running command to interact with.'],
      [await shell.input(''), 'ERROR: No previous running command to retrieve logs from.'],
    ] as const) {
      expect(reply.body).toMatchObject({
        observation: 'run',
        content,
        success: false,
        extras: { command: '', hidden: false, metadata: { ...NO_METADATA, prefix: '', suffix: '' } },
      });
    }
  });

  test('several commands', async () => {
    const reply = await newShell().run('echo a\necho b');
    const text =
      'ERROR: Cannot execute multiple commands at once.\n' +
      'Please run each command separately OR chain them into a single command via && or ;\n' +
      'Provided commands:\n(1) echo a\n(2) echo b';
    expect(reply.body).toMatchObject({ observation: 'error', content: text, message: text, extras: { error_id: '' } });
  });

  test('a program that ignores C-c: a hint, then the third one kills', async () => {
    const shell = newShell();
    await shell.shown(shell.soft(`${BIN}/ignore-interrupts.py`), 'deaf');
    const first = await shell.input('C-c');
    expect([first.exitCode, first.suffix]).toEqual([-1, SILENT]);
    const second = await shell.input('C-c');
    expect([second.exitCode, second.suffix]).toEqual([
      -1,
      `${SILENT}\n[The program ignores C-c. Send C-c once more to kill it (SIGKILL).]`,
    ]);
    const third = await shell.ended(shell.input('C-c'));
    expect(third.exitCode).toBe(137);
    expect(third.suffix).toBe(
      '\n[The command completed with exit code 137. CTRL+C was sent.]\n[The program ignored C-c and was killed (SIGKILL).]',
    );
    expect((await shell.run('echo next')).content).toBe('next');
  });

  test('C-c ends a loop of the shell that ignores it, in the end', async () => {
    const shell = newShell();
    await shell.shown(shell.soft("trap '' INT; echo deaf; while :; do sleep 0.1; done"), 'deaf');
    for (let presses = 0; presses < 3; presses += 1) await shell.input('C-c');
    // One more at most: the third may have met the loop between two programs.
    const last = await shell.input('C-c');
    expect(last.exitCode === 137 || last.content === 'ERROR: No previous running command to interact with.').toBe(true);
    expect((await shell.run('echo next')).content).toBe('next');
  });

  test('the answer to C-c does not wait, however long the program has run', async () => {
    const shell = newShell();
    await shell.run('sleep 60', { timeout: 2.8 });
    const interrupted = await shell.input('C-c');
    expect([interrupted.exitCode, interrupted.content]).toEqual([130, '^C']);
    await shell.run('for i in {1..60}; do sleep 1; done', { timeout: 2.8 });
    expect((await shell.input('C-c')).exitCode).toBe(130);
  });

  test('a program ended from elsewhere is answered without delay, too', async () => {
    const shell = newShell();
    const pid = await shell.pid();
    await shell.run('sleep 60', { timeout: 2.8 });
    // What a client of a terminal would do with C-c, done by somebody else.
    await newShell().run(`kill -INT -$(ps -o tpgid= -p ${pid} | tr -d ' ')`);
    expect((await shell.soft('')).exitCode).toBe(130);
  });
});

describe('fields', () => {
  test('message, success, command', async () => {
    const shell = newShell();
    for (const [command, exitCode] of [
      ['true', 0],
      ['false', 1],
      ['echo "a  b" |  cat', 0],
      ['if true\nthen\n\techo x\nfi', 0],
    ] as const) {
      const { body } = await shell.run(`\n ${command}  \n`);
      expect(body.message).toBe(`Command \`${command}\` executed with exit code ${exitCode}.`);
      expect([body.success, body.extras.command]).toEqual([exitCode === 0, command]);
      RunObservation.parse(body);
    }
  });

  test('command of texts, keys and polls', async () => {
    const shell = newShell();
    await shell.shown(shell.soft('cat'), '');
    expect((await shell.input('some text')).body.extras.command).toBe('some text');
    expect((await shell.soft('')).body.extras.command).toBe('');
    const key = await shell.input('C-d');
    expect([key.body.extras.command, key.body.message]).toEqual(['C-d', 'Command `C-d` executed with exit code 0.']);
    const atPrompt = await shell.run('C-c');
    expect([atPrompt.observation, atPrompt.body.extras.command]).toEqual(['run', 'C-c']);
  });

  test('a key of a terminal at the prompt is not called by its last letter', async () => {
    expect((await newShell().run('\u001b[A')).suffix).toBe(COMPLETED(0));
  });

  test('blanks around a key do not make a text of it', async () => {
    const shell = newShell();
    await shell.soft('sleep 60');
    const interrupted = await shell.ended(shell.input(' C-c\n'));
    expect([interrupted.body.extras.command, interrupted.exitCode]).toEqual(['C-c', 130]);
  });

  test('no other keys than the contract has', async () => {
    const { body } = await newShell().run('true');
    expect(Object.keys(body.extras).toSorted()).toEqual(['command', 'hidden', 'metadata']);
    expect(Object.keys(body).toSorted()).toEqual([
      'action_id',
      'content',
      'duration_ms',
      'extras',
      'message',
      'observation',
      'success',
    ]);
  });

  test('metadata', async () => {
    const shell = newShell();
    const fresh = await shell.run('true');
    expect(fresh.body.extras.metadata).toEqual({
      exit_code: 0,
      pid: -1,
      username: userInfo().username,
      hostname: hostname().split('.')[0],
      working_dir: server.workingDir,
      py_interpreter_path: (await shell.run('which python')).content,
      prefix: '',
      suffix: COMPLETED(0),
    });
    const job = await shell.run('sleep 86399 &');
    const pid = Number(/^\[1\] (\d+)$/.exec(job.content)?.[1]);
    expect(job.body.extras.metadata.pid).toBe(pid);
    expect((await shell.run('cd /; true')).body.extras.metadata).toMatchObject({ pid, working_dir: '/' });
    expect((await shell.run('kill %1; wait; true')).body.extras.metadata.pid).toBe(pid);
  });

  test('py_interpreter_path follows the PATH, as entering and leaving a virtual environment changes it', async () => {
    const shell = newShell();
    const setUp = 'mkdir -p venv/bin; printf "#!/bin/sh\\n" > venv/bin/python; chmod +x venv/bin/python; old=$PATH';
    const before = python(await shell.run(setUp));
    expect(python(await shell.run('export PATH="$PWD/venv/bin:$PATH"'))).toBe(file('venv/bin/python'));
    expect(python(await shell.run('chmod -x venv/bin/python'))).toBe(before);
    expect(python(await shell.run('PATH=/nowhere'))).toBe('');
    expect(python(await shell.run('PATH=$old'))).toBe(before);
  });

  test('hidden', async () => {
    const session = sessionName();
    const shell = new TestShell(server, session);
    const done = await shell.run('echo secret', { hidden: true });
    expect([done.body.extras.hidden, done.content]).toEqual([true, 'secret']);
    expect((await shell.run('echo plain')).body.extras.hidden).toBe(false);
    const long = await shell.run('seq 1 9000', { hidden: true });
    expect([long.content.split('\n').length, long.body.output_file, long.body.truncated]).toEqual([
      9000,
      undefined,
      undefined,
    ]);
    expect((await shell.run('history')).content).not.toMatch(/secret|seq 1 9000/);
    const waiting = await shell.soft('cat', { hidden: true });
    expect([waiting.exitCode, waiting.body.extras.hidden]).toEqual([-1, false]);
    const refused = await shell.run('ls', { hidden: true });
    expect([refused.observation, refused.exitCode, refused.body.extras.hidden]).toEqual(['run', -1, true]);
    await shell.ended(shell.input('C-d'));
    // An `error` would crash V0's client (V0 §4.1).
    const several = await shell.run('echo a\necho b', { hidden: true });
    expect([several.observation, several.exitCode, several.body.extras.hidden]).toEqual(['run', -1, true]);
    expect(several.content).toContain('Cannot execute multiple commands at once');
  });
});

describe('content', () => {
  test.each([
    { name: 'leading blanks of the first line', command: "printf '   lead\\n  two\\n'", content: '   lead\n  two' },
    { name: 'tabs', command: "printf '\\tx\\ty\\n'", content: '\tx\ty' },
    { name: 'blanks at the end of lines', command: "printf 'a  \\nb \\t\\nc\\n'", content: 'a  \nb \t\nc' },
    { name: 'blank lines between', command: "printf 'a\\n\\n\\nb\\n\\n'", content: 'a\n\n\nb' },
    { name: 'blank lines at the start and the end', command: "printf '\\n\\n  a\\n\\n\\n'", content: '  a' },
    { name: 'NUL, BEL and other controls', command: "printf 'a\\0b\\ac\\016\\017d\\177e\\n'", content: 'abcde' },
    { name: 'carriage returns', command: "printf 'abc\\rX\\n12345\\r\\033[Knew\\n'", content: 'Xbc\nnew' },
    { name: 'backspaces', command: "printf 'abc\\b\\bX\\n'", content: 'aXc' },
    {
      name: 'colours and titles',
      command: "printf '\\033]0;title\\007\\033[1;31mred\\033[0m \\033[38;2;1;2;3mrgb\\033[m\\n'",
      content: 'red rgb',
    },
    { name: 'what is no UTF-8', command: "printf 'a\\377\\376b\\n'", content: 'ab' },
    { name: 'wide characters and emoji', command: "printf 'é漢字😀👩‍👩‍👧e\\u0301\\n'", content: 'é漢字😀👩‍👩‍👧e\u0301' },
    { name: 'no final line end', command: "printf 'no end'", content: 'no end' },
    {
      name: 'a line of 2,500 characters',
      command: "printf '%2500s\\n' x | tr ' ' '.'",
      content: `${'.'.repeat(2499)}x`,
    },
    { name: 'the text of the command itself', command: "echo 'echo x'", content: 'echo x' },
  ])('$name', async ({ command, content }) => {
    expect((await server.run(command)).content).toBe(content);
  });

  test('an answer typed at a program is not repeated, its output is', async () => {
    const shell = newShell();
    await shell.shown(shell.soft('cat'), '');
    expect((await shell.input('  two words')).content).toBe('  two words');
    await shell.ended(shell.input('C-d'));
  });

  test('30,000 code points are whole, one more is cut in the middle', async () => {
    const shell = newShell();
    const whole = await shell.run(printEmoji(30_000));
    expect(whole.content).toBe(emoji(0, 30_000));
    expect([whole.body.truncated, whole.body.output_file]).toEqual([undefined, undefined]);
    const cut = await shell.run(printEmoji(30_001));
    expect(cut.content).toBe(emoji(0, 15_000) + NOTICE + emoji(15_001, 30_001));
    expect([...cut.content].length).toBe(30_047);
    expect([cut.body.truncated, cut.suffix]).toEqual([true, `${COMPLETED(0)}\n[Full output: ${cut.body.output_file}]`]);
    expect(readFileSync(cut.body.output_file, 'utf8')).toBe(emoji(0, 30_001));
  });

  test('the output file has every byte, as the terminal got them', async () => {
    const shell = newShell();
    const program = 'import sys; [sys.stdout.buffer.write(bytes(range(256)) + b"\\x1b[31m\\r\\n") for _ in range(400)]';
    const reply = await shell.run(`python3 -c '${program}'`);
    expect(reply.body.truncated).toBe(true);
    const line = Buffer.concat([
      Buffer.from(Array.from({ length: 256 }, (_, index) => index)),
      Buffer.from('\u001b[31m\r\n'),
    ]);
    // The terminal driver puts a carriage return before each line feed.
    const sent = Buffer.concat(Array.from({ length: 400 }, () => line))
      .toString('latin1')
      .replaceAll('\n', '\r\n');
    expect(readFileSync(reply.body.output_file).equals(Buffer.from(sent, 'latin1'))).toBe(true);
  });

  test('a cut report of a running command names the file, the last one has it all', async () => {
    const shell = newShell();
    const first = await shell.soft('seq 1 9000; read x; seq 9001 20000');
    expect([first.exitCode, first.body.truncated]).toEqual([-1, true]);
    expect(first.suffix).toMatch(/^\n\[The command has no new output.*\]\n\[Full output: .*\]$/s);
    const last = await shell.ended(shell.input(''.padEnd(1, 'y')));
    expect(last.body.output_file).toBe(first.body.output_file);
    const numbers = Array.from({ length: 20_000 }, (_, index) => String(index + 1));
    expect(readFileSync(last.body.output_file, 'utf8').split('\r\n')).toEqual([
      ...numbers.slice(0, 9000),
      'y',
      ...numbers.slice(9000),
      '',
    ]);
  });
});

describe('whose state', () => {
  test('env is the same in two calls, and has nothing of the server', async () => {
    const shell = newShell();
    const first = await shell.run('env');
    await shell.run('cd / && cd - > /dev/null; sleep 0.01 & wait');
    const between = await shell.run('env | grep -v ^OLDPWD=');
    const second = await shell.run('env');
    expect((await shell.run('env')).content).toBe(second.content);
    expect(between.content).toBe(
      first.content
        .split('\n')
        .filter((line) => !line.startsWith('OLDPWD='))
        .join('\n'),
    );
    expect(first.content).not.toMatch(/API_KEY/);
    expect(first.content).toContain('TERM=');
    expect((await shell.run('locale charmap')).content).toBe('UTF-8');
  });

  test('programs inherit the terminal and nothing else of ours', async () => {
    const shell = newShell();
    const reply = await shell.run('tty; for fd in /proc/self/fd/*; do readlink $fd; done | sort -u; stty size');
    expect(reply.content).toMatch(/^\/dev\/pts\/\d+\n/);
    expect(reply.content).not.toMatch(/commands|reports|exports|ptmx|output/);
    expect(reply.content).toMatch(/1000 1000$/);
    expect((await shell.run('test -t 0 && test -t 1 && test -t 2 && echo terminal')).content).toBe('terminal');
  });

  test('history has the commands of the session alone, as they were', async () => {
    const shell = newShell();
    await shell.run('history -c');
    await shell.run('echo "one  two" # three');
    await shell.run('for i in 1; do\n  echo $i\ndone');
    expect((await shell.run('history')).content.replaceAll(/^ +\d+ +/gm, '')).toBe(
      'echo "one  two" # three\nfor i in 1; do\n  echo $i\ndone\nhistory',
    );
  });

  test('state lasts: variables, functions, aliases, options, umask, jobs, $?', async () => {
    const shell = newShell();
    for (const command of [
      'x="a  b"',
      'f() { echo "f:$1"; }',
      "alias g='echo galias'",
      'shopt -s extglob',
      'umask 027',
      'arr=(1 "2 3")',
    ]) {
      expect([command, (await shell.run(command)).exitCode]).toEqual([command, 0]);
    }
    expect((await shell.run('echo "$x|${arr[1]}"; f y; g z; umask; shopt extglob')).content).toBe(
      'a  b|2 3\nf:y\ngalias z\n0027\nextglob        \ton',
    );
    await shell.run('(exit 9)');
    expect((await shell.run('echo $?')).content).toBe('9');
    expect((await shell.run('echo $?')).content).toBe('0');
  });

  test('sessions do not see each other', async () => {
    const [a, b] = [newShell(), newShell()];
    await Promise.all([a.run('x=a; cd /'), b.run('x=b; cd /usr')]);
    expect((await a.run('echo $x $PWD')).content).toBe('a /');
    expect((await b.run('echo $x $PWD')).content).toBe('b /usr');
  });

  test('text typed ahead is never run as a command', async () => {
    const shell = newShell();
    const name = `typed-${shells}`;
    await shell.soft(`until [ -e ${name}-go ]; do sleep 0.02; done; touch ${name}-done`);
    await shell.input(`touch ${name}-run`);
    writeFileSync(file(`${name}-go`), '');
    await shell.ended(shell.soft(''));
    expect((await shell.run('echo next')).content).toBe('next');
    await shell.run('exit 3');
    expect((await shell.run('echo again')).content).toBe('again');
    expect([existsSync(file(`${name}-done`)), existsSync(file(`${name}-run`))]).toEqual([true, false]);
  });

  test('text typed ahead is not taken for the answer to a later question', async () => {
    const shell = newShell();
    const name = `ahead-${shells}`;
    await shell.soft(`until [ -e ${name} ]; do sleep 0.02; done`);
    await shell.input('yes');
    writeFileSync(file(name), '');
    await shell.ended(shell.soft(''));
    // Status 142 is what bash gives when the time is over without a line.
    expect((await shell.run('read -t 0.5 -p "Delete? " answer; echo "$? [$answer]"')).content).toBe('Delete? 142 []');
  });

  test('input that comes after the end is not run either', async () => {
    const shell = newShell();
    const name = `late-${shells}`;
    await shell.run(`until [ -e ${name} ]; do sleep 0.02; done; echo over; touch ${name}-over`, { timeout: 0.2 });
    writeFileSync(file(name), '');
    await until('the end', () => existsSync(file(`${name}-over`)));
    await until('the session to be idle', async () => {
      const { sessions } = (await server.request('GET', '/sessions')).json;
      return sessions.find((session: { name: string }) => session.name === `texts-${shells}`).state === 'idle';
    });
    const late = await shell.input(`touch ${name}-run`);
    expect([late.exitCode, late.content]).toEqual([0, 'over']);
    expect(late.suffix).toBe(`${COMPLETED(0)}\n[Your input was not sent: the command had already completed.]`);
    await shell.run('true');
    expect(existsSync(file(`${name}-run`))).toBe(false);
  });

  test('a command after one that ended unseen comes with the rest of its output', async () => {
    const shell = newShell();
    const name = `unseen-${shells}`;
    await shell.run(`echo start; until [ -e ${name} ]; do sleep 0.02; done; echo rest; touch ${name}-over`, {
      timeout: 0.2,
    });
    writeFileSync(file(name), '');
    await until('the session to be idle', async () => {
      const { sessions } = (await server.request('GET', '/sessions')).json;
      return sessions.find((session: { name: string }) => session.name === `texts-${shells}`).state === 'idle';
    });
    const next = await shell.run('echo own; (exit 2)');
    expect([next.prefix, next.content, next.suffix]).toEqual(['', 'rest\nown', COMPLETED(2)]);
  });

  test('what background jobs print appears in a later answer', async () => {
    const shell = newShell();
    const name = `background-${shells}`;
    const started = await shell.run(`(until [ -e ${name} ]; do sleep 0.02; done; echo late; touch ${name}-printed) &`);
    expect(started.content).toMatch(/^\[1\] \d+$/);
    expect((await shell.run('echo meanwhile')).content).toBe('meanwhile');
    writeFileSync(file(name), '');
    await until('the job to print', () => existsSync(file(`${name}-printed`)));
    const next = await shell.run('echo next');
    expect(next.content).toMatch(/^late\n/);
    expect(next.content).toContain('next');
  });
});

describe('is_static', () => {
  test('a fresh shell in its own directory, without a trace in the main one', async () => {
    const shell = newShell();
    await shell.run('x=main; f() { :; }; cd /');
    const fresh = await server.run('echo "[$x]"; type f; x=static; export y=1; cd /usr; pwd', { is_static: true });
    expect(fresh.content).toContain('[]');
    expect(fresh.content).toContain('type: f: not found');
    expect([fresh.exitCode, fresh.cwd]).toEqual([0, '/usr']);
    const placed = await server.run('pwd', { is_static: true, cwd: '/usr/bin' });
    expect([placed.content, placed.cwd]).toEqual(['/usr/bin', '/usr/bin']);
    expect((await server.run('pwd', { is_static: true })).content).toBe(server.workingDir);
    expect((await shell.run('echo "$x $y $PWD"')).content).toBe('main  /');
  });

  test('it does not wait for the main shell', async () => {
    const name = 'static-go';
    const main = server.run(`until [ -e ${name} ]; do sleep 0.02; done; echo main`);
    expect((await server.run(`touch ${name}; echo static`, { is_static: true })).content).toBe('static');
    expect((await main).content).toBe('main');
  });

  test('nothing of it is left, whatever it started', async () => {
    const mark = `86398.${process.pid}`;
    const before = (await server.request('GET', '/sessions')).json.sessions.length;
    const reply = await server.run(`sleep ${mark}1 & nohup sleep ${mark}2 > /dev/null 2>&1 & disown; echo started`, {
      is_static: true,
    });
    expect(reply.content).toContain('started');
    expect(processesWith(`sleep ${mark}`)).toEqual([]);
    const cut = await server.run(`trap '' TERM HUP; sleep ${mark}3`, { is_static: true, timeout: 0.5 });
    expect([cut.exitCode, cut.suffix]).toEqual([-1, `\n[The command timed out after 0.5 seconds. ${T}]`]);
    expect(processesWith(`sleep ${mark}`)).toEqual([]);
    expect((await server.request('GET', '/sessions')).json.sessions.length).toBe(before);
  });

  test('exit, hidden, errors and truncation are as in the main shell', async () => {
    const ended = await server.run('echo bye; exit 6', { is_static: true, hidden: true });
    expect([ended.exitCode, ended.body.extras.hidden]).toEqual([6, true]);
    expect((await server.run('', { is_static: true })).content).toBe(
      'ERROR: No previous running command to retrieve logs from.',
    );
    expect((await server.run('a\nb', { is_static: true })).observation).toBe('error');
    const long = await server.run('seq 1 9000', { is_static: true });
    expect(long.body.truncated).toBe(true);
    expect(readFileSync(long.body.output_file, 'utf8')).toMatch(/\r\n9000\r\n$/);
  });

  test('a cwd is relative to the working directory, and one that is missing is named', async () => {
    await server.run(`mkdir -p "${server.workingDir}/below"`);
    expect((await server.run('pwd', { is_static: true, cwd: 'below' })).content).toBe(`${server.workingDir}/below`);
    const missing = await server.run('touch ran.txt', { is_static: true, cwd: '/no/such/folder' });
    expect(missing.observation).toBe('error');
    expect(missing.content).toContain('args.cwd: /no/such/folder is not a directory');
    const hidden = await server.run('pwd', { is_static: true, cwd: '/etc/passwd', hidden: true });
    expect([hidden.observation, hidden.exitCode]).toEqual(['run', -1]);
    expect(hidden.content).toContain('args.cwd: /etc/passwd is not a directory');
  });

  test('more of them than --max-sessions wait for their turn, and are no sessions', async () => {
    await using small = await TestServer.start(['--max-sessions', '2']);
    const numbers = Array.from({ length: 8 }, (_, index) => index);
    const replies = await Promise.all(
      numbers.map((number) => small.run(`mkdir one-of-$$; echo ${number}; rmdir one-of-$$`, { is_static: true })),
    );
    expect(replies.map(({ content }) => content)).toEqual(numbers.map(String));
    expect((await small.run('echo a', { session: 'a' })).content).toBe('a');
    const [first, second] = ['go-1', 'go-2'].map((name) =>
      small.run(`until [ -e ${name} ]; do sleep 0.02; done; echo ${name}`, { is_static: true }),
    );
    const late = await small.run('echo late', { is_static: true, timeout: 0.001 });
    expect(late.content).toContain('--max-sessions');
    await small.run('touch go-1 go-2');
    expect([(await first)?.content, (await second)?.content]).toEqual(['go-1', 'go-2']);
  });
});

describe('other settings', () => {
  test('named sessions are limited, and closing one makes room', async () => {
    await using small = await TestServer.start(['--max-sessions', '2']);
    expect((await small.run('echo a', { session: 'a' })).content).toBe('a');
    const refused = await small.run('echo b', { session: 'b' });
    expect(refused.observation).toBe('error');
    expect(refused.content).toContain('--max-sessions');
    const hidden = await small.run('echo b', { session: 'b', hidden: true });
    expect([hidden.observation, hidden.exitCode, hidden.body.extras.hidden]).toEqual(['run', -1, true]);
    expect((await small.run('echo still', { session: 'a' })).content).toBe('still');
    const closed = await small.request('DELETE', '/sessions/bash:a');
    expect([closed.status, closed.json]).toEqual([200, { closed: 'bash:a' }]);
    expect((await small.run('echo b', { session: 'b' })).content).toBe('b');
  });

  test('a server that stops leaves the other one in its process alone', async () => {
    const shell = newShell();
    const pid = await shell.pid();
    {
      await using other = await TestServer.start();
      expect((await other.run('echo other')).content).toBe('other');
    }
    const next = await shell.run('echo $$');
    expect([next.content, next.suffix]).toEqual([String(pid), COMPLETED(0)]);
  });

  test('many actions for one new session make one shell', async () => {
    await using small = await TestServer.start(['--max-sessions', '2']);
    const replies = await Promise.all(Array.from({ length: 8 }, () => small.run('echo $$', { session: 'same' })));
    expect(new Set(replies.map(({ content }) => content)).size).toBe(1);
  });

  test('--multi-command=run runs them in order', async () => {
    await using lenient = await TestServer.start(['--multi-command=run']);
    const reply = await lenient.run('echo a\ncd /\n\n# comment\necho b; (exit 3)');
    expect([reply.observation, reply.content, reply.exitCode, reply.cwd]).toEqual(['run', 'a\nb', 3, '/']);
    expect((await lenient.run('echo c')).content).toBe('c');
  });

  test('a hard limit before the silence limit wins', async () => {
    await using plain = await TestServer.start([], { NO_CHANGE_TIMEOUT_SECONDS: '2' });
    const reply = await plain.soft('sleep 60', { timeout: 1.5 });
    expect(reply.suffix).toBe(`\n[The command timed out after 1.5 seconds. ${T}]`);
    const silent = await plain.soft('', { timeout: 30 });
    expect(silent.suffix).toBe(`\n[The command has no new output after 2 seconds. ${T}]`);
  });
});
