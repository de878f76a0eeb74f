/**
 * V0's tests of searching (V0 §7.8). Its client makes these command lines and there is no endpoint: what is shown here is that the
 * shell takes them as they are. V0's two tests of the command builder alone concern no server.
 */
import { execFileSync } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunReply, TestServer } from '../support/server.ts';

const hasRipgrep = isInstalled('rg');

function isInstalled(program: string): boolean {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** As Python's `shlex.quote`. */
function quote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'"'"'`)}'`;
}

function announced(command: string): string {
  return `echo "Below are the execution results of the ${command.startsWith('rg --files') ? 'glob' : 'search'} command: ${escaped(command)}\n"; ${command}`;
}

/** As V0 puts a command inside double quotes. */
function escaped(command: string): string {
  return command.replaceAll(/["\\$`]/g, String.raw`\$&`);
}

function grepCommand(pattern: string, path: string, include?: string): string {
  const glob = include === undefined ? '' : ` --glob ${quote(include)}`;
  return announced(`rg -li ${quote(pattern)} --sortr=modified${glob} ${quote(path)} | head -n 100`);
}

function globCommand(pattern: string, path: string): string {
  return announced(`rg --files ${quote(path)} -g ${quote(pattern)} --sortr=modified | head -n 100`);
}

describe.skipIf(!hasRipgrep)('with ripgrep', () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await TestServer.start();
  });

  afterAll(() => server[Symbol.asyncDispose]());

  async function setUp(command: string): Promise<void> {
    expect((await server.run(command)).exitCode).toBe(0);
  }

  async function search(command: string): Promise<RunReply> {
    const reply = await server.run(command);
    expect(reply.exitCode).toBe(0);
    for (const problem of ['command not found', 'syntax error', 'unexpected'])
      expect(reply.content.split('command:').slice(1).join('').split('\n').slice(1).join('\n')).not.toContain(problem);
    return reply;
  }

  test('test_grep_to_cmdrun_quotes', async () => {
    await setUp(`mkdir -p /tmp/grep-quotes && cd /tmp/grep-quotes && \\
      echo 'function "quoted_test" here' > double.txt && \\
      echo "function 'single_test' here" > single.txt`);
    const double = await search(grepCommand('function.*"quoted_test"', '/tmp/grep-quotes'));
    expect(double.content).toContain('/tmp/grep-quotes/double.txt');
    const single = await search(grepCommand("function.*'single_test'", '/tmp/grep-quotes'));
    expect(single.content).toContain('/tmp/grep-quotes/single.txt');
  });

  test('test_grep_to_cmdrun_special_chars', async () => {
    await setUp(`mkdir -p /tmp/grep-special && cd /tmp/grep-special && \\
      echo "testing x && y || z pattern" > and.txt && \\
      echo "price is \\$100 and \\\`tick\\\` bang!" > dollar.txt && \\
      echo "foo { bar }" > braces.txt && \\
      echo "a > b # comment" > more.txt && \\
      echo "name is star.js *.js" > star.txt`);
    for (const [pattern, file] of [
      [String.raw`x && y \|\| z`, 'and.txt'],
      [String.raw`\$100`, 'dollar.txt'],
      [String.raw`foo \{ bar \}`, 'braces.txt'],
      ['a > b #', 'more.txt'],
      [String.raw`\*\.js`, 'star.txt'],
    ] as const) {
      const found = await search(grepCommand(pattern, '/tmp/grep-special'));
      expect(found.content).toContain(`/tmp/grep-special/${file}`);
    }
  });

  test('test_grep_to_cmdrun_paths_with_spaces', async () => {
    await setUp(`mkdir -p "/tmp/grep with space" && echo "function in file" > "/tmp/grep with space/a file.txt"`);
    const found = await search(grepCommand('function', '/tmp/grep with space', '*.txt'));
    expect(found.content).toContain('/tmp/grep with space/a file.txt');
  });

  test('test_glob_to_cmdrun_basic', async () => {
    await setUp(
      'mkdir -p /tmp/glob-basic/src && touch /tmp/glob-basic/app.js /tmp/glob-basic/src/util.js /tmp/glob-basic/a.py',
    );
    const found = await search(globCommand('**/*.js', '/tmp/glob-basic'));
    expect(found.content).toContain('/tmp/glob-basic/app.js');
    expect(found.content).toContain('/tmp/glob-basic/src/util.js');
    expect(found.content).not.toContain('/tmp/glob-basic/a.py');
  });

  test('test_glob_to_cmdrun_special_patterns', async () => {
    await setUp(
      'mkdir -p "/tmp/glob-special/with space" && cd /tmp/glob-special && touch test1.txt test2.txt testa.txt b.json "with space/c d.txt"',
    );
    for (const [pattern, files] of [
      ['**/test[0-9].txt', ['test1.txt', 'test2.txt']],
      ['**/*.{json,md}', ['b.json']],
      ['test?.txt', ['testa.txt']],
      ['**/c d.txt', ['with space/c d.txt']],
    ] as const) {
      const found = await search(globCommand(pattern, '/tmp/glob-special'));
      for (const file of files) expect(found.content).toContain(`/tmp/glob-special/${file}`);
    }
  });
});
