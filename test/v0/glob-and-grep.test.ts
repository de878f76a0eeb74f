/**
 * V0's tests of searching (V0 §7.8). Its client makes these command lines and there is no endpoint: what is shown here is that the
 * shell takes them as they are. V0's two tests of the text alone are kept, with the same expectations of what the client sends, and
 * go on to run it.
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

function globCommand(pattern: string, path = '.'): string {
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

  test('test_grep_to_cmdrun_basic', async () => {
    await setUp('mkdir -p src && echo "function" > src/basic.txt && echo "An ERROR" > src/basic.js');
    const plain = grepCommand('function', 'src');
    expect(plain).toContain('rg -li function');
    expect(plain).toContain('Below are the execution results');
    expect((await search(plain)).content).toContain('src/basic.txt');
    const limited = grepCommand('error', 'src', '*.js');
    expect(limited).toContain('rg -li error');
    expect(limited).toContain("--glob '*.js'");
    expect(limited).toContain('Below are the execution results');
    const { content } = await search(limited);
    expect(content).toContain('src/basic.js');
    expect(content).not.toContain('basic.txt');
  });

  test('test_grep_to_cmdrun_quotes', async () => {
    await setUp(`echo 'const message = "Hello";' > test_quotes.js`);
    const double = grepCommand('const message = "Hello"', server.workingDir);
    expect(double).toContain('rg -li');
    expect((await search(double)).content).toContain(`${server.workingDir}/test_quotes.js`);
    await setUp(`echo "function('test') {}" > test_quotes2.js`);
    const single = grepCommand(String.raw`function\('test'\)`, server.workingDir);
    expect(single).toContain('rg -li');
    expect((await search(single)).content).toContain(`${server.workingDir}/test_quotes2.js`);
  });

  test('test_grep_to_cmdrun_special_chars', async () => {
    // As V0 sends it: a line end and blanks first, continued lines, escapes inside double quotes.
    const lines: readonly (readonly [text: string, file: string])[] = [
      ['testing x && y || z pattern', 'logical.txt'],
      ['function() { return x; }', 'function.txt'],
      [String.raw`using \$variable here`, 'dollar.txt'],
      ['using \\`backticks\\` here', 'backticks.txt'],
      [String.raw`line with \\n newline chars`, 'newline.txt'],
      ['matching *.js wildcard', 'wildcard.txt'],
      ['testing x > y redirection', 'redirect.txt'],
      ['testing a | b pipe', 'pipe.txt'],
      ['line with #comment', 'comment.txt'],
      [String.raw`CSS \!important rule`, 'bang.txt'],
    ];
    const place = `${server.workingDir}/test_special_patterns`;
    const commands = lines.map(([text, file]) => `echo "${text}" > ${place}/${file}`);
    await setUp(`\n        mkdir -p ${place} && \\\n        ${commands.join(' && \\\n        ')}\n        `);
    for (const [pattern, file] of [
      [String.raw`x && y \|\| z`, 'logical.txt'],
      [String.raw`function\(\) \{ return x; \}`, 'function.txt'],
      [String.raw`\$variable`, 'dollar.txt'],
      [String.raw`\\n newline`, 'newline.txt'],
      [String.raw`\*\.js`, 'wildcard.txt'],
      ['x > y', 'redirect.txt'],
      [String.raw`a \| b`, 'pipe.txt'],
      ['#comment', 'comment.txt'],
    ] as const) {
      const command = grepCommand(pattern, place);
      expect(command).toContain('rg -li');
      expect(command).toContain('Below are the execution results of the search command:');
      expect((await search(command)).content, pattern).toContain(`${place}/${file}`);
    }
  });

  test('test_grep_to_cmdrun_paths_with_spaces', async () => {
    await setUp(`
        mkdir -p "src/my project" "test files/unit tests" "src/special$chars" "path with spaces and $pecial ch@rs" && \\
        echo "function searchablePattern() { return true; }" > "src/my project/test.js" && \\
        echo "function testFunction() { return 42; }" > "test files/unit tests/test.js" && \\
        echo "function specialFunction() { return null; }" > "src/special$chars/test.js" && \\
        echo "function weirdFunction() { return []; }" > "path with spaces and $pecial ch@rs/test.js"
        `);
    for (const path of ['src/my project', 'test files/unit tests']) {
      const command = grepCommand('function', path);
      expect(command).toContain('rg -li');
      const { content } = await search(command);
      expect(content).toContain('function');
      expect(content).toContain(`${path}/test.js`);
    }
  });

  test('test_glob_to_cmdrun_basic', async () => {
    await setUp('mkdir -p src && touch src/app.js src/a.py b.py');
    const inside = globCommand('*.js', 'src');
    expect(inside).toContain("rg --files src -g '*.js'");
    expect(inside).toContain('head -n 100');
    expect(inside).toContain('echo "Below are the execution results of the glob command:');
    expect((await search(inside)).content).toContain('src/app.js');
    const here = globCommand('*.py');
    expect(here).toContain("rg --files . -g '*.py'");
    expect(here).toContain('head -n 100');
    expect(here).toContain('echo "Below are the execution results of the glob command:');
    const { content } = await search(here);
    expect(content).toContain('./src/a.py');
    expect(content).toContain('./b.py');
    expect(content).not.toContain('app.js');
  });

  test('test_glob_to_cmdrun_special_patterns', async () => {
    await setUp(`
        mkdir -p src/components src/utils && \\
        touch src/file1.js src/file2.js src/file9.js && \\
        touch src/components/comp.jsx src/components/comp.tsx && \\
        touch src/$special-file.js && \\
        touch src/temp1.js src/temp2.js && \\
        touch src/file.js src/file.ts src/file.jsx && \\
        touch "src/weird\\\`file\\\`.js" && \\
        touch "src/file with spaces.js"
        `);
    for (const [pattern, files] of [
      ['**/*.js', ['file1.js', 'file2.js']],
      ['**/{*.jsx,*.tsx}', ['comp.jsx', 'comp.tsx']],
      ['file[0-9].js', ['file1.js', 'file2.js', 'file9.js']],
      ['temp?.js', ['temp1.js', 'temp2.js']],
      ['file.{js,ts,jsx}', ['file.js', 'file.ts', 'file.jsx']],
      ['file with spaces.js', ['file with spaces.js']],
    ] as const) {
      const { content } = await search(globCommand(pattern, 'src'));
      for (const file of files) expect(content, pattern).toContain(file);
    }
  });

  test('test_glob_to_cmdrun_paths_with_spaces', async () => {
    await setUp(`
        mkdir -p "project files/src" "test results/unit tests" "weird$path/code" "path with spaces and $pecial ch@rs" && \\
        touch "project files/src/file1.js" "project files/src/file2.js" && \\
        touch "test results/unit tests/test1.js" "test results/unit tests/test2.js" && \\
        touch "weird$path/code/weird1.js" "weird$path/code/weird2.js" && \\
        touch "path with spaces and $pecial ch@rs/special1.js" "path with spaces and $pecial ch@rs/special2.js"
        `);
    for (const [path, files] of [
      ['project files/src', ['file1.js', 'file2.js']],
      ['test results/unit tests', ['test1.js', 'test2.js']],
    ] as const) {
      const { content } = await search(globCommand('*.js', path));
      for (const file of files) expect(content).toContain(file);
    }
  });
});
