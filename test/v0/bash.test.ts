/** The tests of V0's own suite (V0 §5.8), by their names, with the same expectations, over HTTP. */
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TIMEOUT_ADVICE } from '../../executors/bash/texts.ts';
import { type RunReply, TestServer } from '../support/server.ts';

const BELOW = '[Below is the output of the previous command.]\n';

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}

/** A helper of the suite: no explicit timeout, so 120 s and the silence limit. */
const run = (server: TestServer, command: string): Promise<RunReply> => server.soft(command, { timeout: 120 });
const hard = (server: TestServer, command: string, timeout: number): Promise<RunReply> =>
  server.run(command, { timeout });
const input = (server: TestServer, command: string, timeout?: number): Promise<RunReply> =>
  timeout === undefined ? server.input(command, { timeout: 120 }) : server.input(command, { timeout, blocking: true });

async function withServer(
  body: (server: TestServer) => Promise<void>,
  env: Readonly<Record<string, string>> = {},
): Promise<void> {
  await using server = await TestServer.start([], env);
  await body(server);
}

describe('with the default silence limit', () => {
  test('test_bash_server', () =>
    withServer(async (server) => {
      const port = await freePort();
      const started = await hard(server, `python3 -u -m http.server ${port}`, 4);
      expect(started.exitCode).toBe(-1);
      expect(started.content).toContain('Serving HTTP on');
      expect(started.suffix).toContain(`[The command timed out after 4.0 seconds. ${TIMEOUT_ADVICE}]`);
      const stopped = await input(server, 'C-c', 30);
      expect(stopped.exitCode).toBe(0);
      expect(stopped.content).toContain('Keyboard interrupt received, exiting.');
      expect(stopped.cwd).toBe(server.workingDir);
      const listed = await hard(server, 'ls', 30);
      expect(listed.exitCode).toBe(0);
      expect(listed.content).not.toContain('Keyboard interrupt received, exiting.');
      expect(listed.cwd).toBe(server.workingDir);
      const again = await hard(server, `python3 -u -m http.server ${port}`, 4);
      expect(again.exitCode).toBe(-1);
      expect(again.content).toContain('Serving HTTP on');
    }));

  test('test_bash_background_server', () =>
    withServer(async (server) => {
      const port = await freePort();
      expect((await run(server, `python3 -m http.server ${port} &`)).exitCode).toBe(0);
      const waiting = `until curl -s -o /dev/null http://localhost:${port}; do sleep 0.05; done`;
      expect((await run(server, waiting)).exitCode).toBe(0);
      const page = await run(server, `curl http://localhost:${port}`);
      expect(page.exitCode).toBe(0);
      expect(page.content).toContain('Directory listing for');
      expect((await run(server, `pkill -f "http.server ${port}"`)).exitCode).toBe(0);
    }));

  test('test_multiline_commands', () =>
    withServer(async (server) => {
      const continued = await run(server, 'echo \\\n -e "foo"');
      expect([continued.exitCode, continued.content]).toEqual([0, 'foo']);
      const quoted = await run(server, 'echo -e "hello\nworld"');
      expect([quoted.exitCode, quoted.content]).toEqual([0, 'hello\nworld']);
      const blank = await run(server, 'echo -e "a\\n\\n\\nz"');
      expect(blank.exitCode).toBe(0);
      expect(blank.content).toContain('\n\n\n');
    }));

  test('test_complex_commands', () =>
    withServer(async (server) => {
      const command =
        'count=0; tries=0; while [ $count -lt 3 ]; do result=$(echo "Heads"); tries=$((tries+1)); echo "Flip $tries: $result"; ' +
        'if [ "$result" = "Heads" ]; then count=$((count+1)); else count=0; fi; done; echo "Got 3 heads in a row after $tries flips!";';
      const reply = await run(server, command);
      expect(reply.exitCode).toBe(0);
      expect(reply.content).toContain('Got 3 heads in a row after 3 flips!');
    }));

  test('test_no_ps2_in_output', () =>
    withServer(async (server) => {
      const reply = await run(server, 'echo -e "hello\nworld"');
      expect(reply.content).toContain('hello\nworld');
      expect(reply.content).not.toContain('>');
    }));

  test('test_multiline_command_loop', () =>
    withServer(async (server) => {
      const create =
        'mkdir -p _modules && \\\nfor month in {01..04}; do\n    for day in {01..05}; do\n' +
        '        touch "_modules/2024-${month}-${day}-sample.md"\n    done\ndone && echo "created files"\n';
      const created = await run(server, create);
      expect(created.exitCode).toBe(0);
      expect(created.content).toContain('created files');
      const rename =
        "for file in _modules/*.md; do\n    new_date=$(echo $file | sed -E 's/2024-(01|02|03|04)-/2024-/;s/2024-01/2024-08/')\n" +
        '    mv "$file" "$new_date"\ndone && echo "success"\n';
      const renamed = await run(server, rename);
      expect(renamed.exitCode).toBe(0);
      expect(renamed.content).toContain('success');
    }));

  test('test_multiple_multiline_commands', () =>
    withServer(async (server) => {
      const cases = [
        ['ls -l', 'total 0'],
        ['echo -e "hello\nworld"', 'hello\nworld'],
        ['echo -e "hello it\'s me"', "hello it's me"],
        ["echo \\\n    -e 'hello' \\\n    world", 'hello world'],
        ["echo -e 'hello\\nworld\\nare\\nyou\\nthere?'", 'hello\nworld\nare\nyou\nthere?'],
        ["echo -e 'hello\nworld\nare\n\nyou\nthere?'", 'hello\nworld\nare\n\nyou\nthere?'],
        ["echo -e 'hello\nworld \"'", 'hello\nworld "'],
      ] as const;
      const refused = await run(server, cases.map(([command]) => command).join('\n'));
      expect(refused.observation).toBe('error');
      expect(refused.content).toContain('Cannot execute multiple commands at once');
      for (const [command, piece] of cases) {
        const reply = await run(server, command);
        expect([reply.observation, reply.exitCode]).toEqual(['run', 0]);
        expect(reply.content).toContain(piece);
      }
    }));

  test('test_cmd_run', () =>
    withServer(async (server) => {
      const root = server.workingDir;
      expect((await run(server, `ls -l ${root}`)).exitCode).toBe(0);
      expect((await run(server, 'ls -l')).content).toContain('total 0');
      expect((await run(server, 'mkdir test')).exitCode).toBe(0);
      const listed = await run(server, 'ls -l');
      expect(listed.exitCode).toBe(0);
      expect(listed.content).toContain('test');
      expect(listed.content).toContain(listed.body.extras.metadata.username);
      expect((await run(server, 'touch test/foo.txt')).exitCode).toBe(0);
      expect((await run(server, 'ls -l test')).content).toContain('foo.txt');
      expect((await run(server, 'rm -rf test')).exitCode).toBe(0);
    }));

  test('test_run_as_user_correct_home_dir', () =>
    withServer(async (server) => {
      const reply = await run(server, 'cd ~ && pwd');
      expect([reply.exitCode, reply.content]).toEqual([0, process.env['HOME']]);
    }));

  test('test_multi_cmd_run_in_single_line', () =>
    withServer(async (server) => {
      const reply = await run(server, 'pwd && ls -l');
      expect(reply.exitCode).toBe(0);
      expect(reply.content).toContain(server.workingDir);
      expect(reply.content).toContain('total 0');
    }));

  test('test_stateful_cmd', () =>
    withServer(async (server) => {
      for (const command of ['mkdir -p test', 'cd test']) expect((await run(server, command)).exitCode).toBe(0);
      expect((await run(server, 'pwd')).content).toBe(`${server.workingDir}/test`);
    }));

  test('test_failed_cmd', () =>
    withServer(async (server) => {
      expect((await run(server, 'non_existing_command')).exitCode).not.toBe(0);
    }));

  test('test_git_operation', () =>
    withServer(async (server) => {
      await run(
        server,
        'git config --global --add safe.directory "*"; export GIT_AUTHOR_NAME=o GIT_AUTHOR_EMAIL=o@e.invalid',
      );
      await run(server, 'export GIT_COMMITTER_NAME=o GIT_COMMITTER_EMAIL=o@e.invalid');
      for (const command of ['git init', 'echo "hello" > test_file.txt', 'git add test_file.txt']) {
        expect((await run(server, command)).exitCode).toBe(0);
      }
      const diff = await run(server, 'git diff --no-color --cached');
      expect(diff.exitCode).toBe(0);
      expect(diff.content).toContain('b/test_file.txt');
      expect(diff.content).toContain('+hello');
      expect((await run(server, 'git commit -m "test commit"')).exitCode).toBe(0);
    }));

  test('test_python_version', () =>
    withServer(async (server) => {
      const reply = await run(server, 'python3 --version');
      expect(reply.exitCode).toBe(0);
      expect(reply.content).toContain('Python 3');
    }));

  test('test_pwd_property', () =>
    withServer(async (server) => {
      const reply = await run(server, 'mkdir -p random_dir && cd random_dir && pwd');
      expect([reply.exitCode, reply.content, reply.cwd]).toEqual([
        0,
        `${server.workingDir}/random_dir`,
        `${server.workingDir}/random_dir`,
      ]);
    }));

  test('test_basic_command', () =>
    withServer(async (server) => {
      const echo = await run(server, "echo 'hello world'");
      expect([echo.content, echo.exitCode, echo.suffix]).toEqual([
        'hello world',
        0,
        '\n[The command completed with exit code 0.]',
      ]);
      const missing = await run(server, 'nonexistent_command');
      expect(missing.exitCode).toBe(127);
      expect(missing.content).toContain('nonexistent_command: command not found');
      const quoted = await run(server, 'echo -e "first   line\n  second     line"');
      expect(quoted.content).toBe('first   line\n  second     line');
      const chain = await run(server, 'mkdir -p d && cd d && touch f && ls');
      expect([chain.content, chain.exitCode]).toEqual(['f', 0]);
    }));

  test('test_long_output', () =>
    withServer(async (server) => {
      const reply = await hard(server, 'for i in $(seq 1 5000); do echo "Line $i"; done', 10);
      expect(reply.exitCode).toBe(0);
      expect(reply.content).toContain('Line 1\n');
      expect(reply.content).toContain('Line 5000');
    }));

  test('test_long_output_exceed_history_limit', () =>
    withServer(async (server) => {
      const reply = await hard(server, 'for i in $(seq 1 50000); do echo "Line $i"; done', 30);
      expect(reply.exitCode).toBe(0);
      expect(reply.prefix).toContain('Previous command outputs are truncated');
      expect(reply.content).toContain('Line 40000\n');
      expect(reply.content).toContain('Line 50000');
      const file = reply.body.output_file;
      expect(reply.suffix).toContain(file);
      expect(existsSync(file)).toBe(true);
    }));

  test('test_long_output_from_nested_directories', () =>
    withServer(async (server) => {
      const setUp =
        'mkdir -p /tmp/nested_$$ && cd /tmp/nested_$$ && for i in {1..100}; do mkdir -p "folder_$i"; ' +
        'for j in {1..100}; do touch "folder_$i/file_$j.txt"; done; done';
      expect((await hard(server, setUp, 170)).exitCode).toBe(0);
      const reply = await hard(server, 'ls -R', 170);
      expect(reply.exitCode).toBe(0);
      for (const name of ['folder_1', 'file_1.txt', 'folder_100', 'file_100.txt'])
        expect(reply.content).toContain(name);
      expect((await hard(server, 'cd / && rm -rf /tmp/nested_$$', 170)).exitCode).toBe(0);
    }));

  test('test_command_backslash', () =>
    withServer(async (server) => {
      await run(server, 'mkdir -p /tmp/test_dir_$$ && echo "implemented_function" > /tmp/test_dir_$$/file_1.txt');
      const reply = await run(server, 'find /tmp/test_dir_$$ -type f -exec grep -l "implemented_function" {} \\;');
      expect(reply.exitCode).toBe(0);
      expect(reply.content).toMatch(/^\/tmp\/test_dir_\d+\/file_1\.txt$/);
      await run(server, 'rm -r /tmp/test_dir_$$');
    }));

  test('test_command_output_continuation', () =>
    withServer(async (server) => {
      const first = await hard(server, 'for i in {1..5}; do echo $i; sleep 3; done', 2.5);
      expect([first.content, first.prefix]).toEqual(['1', '']);
      expect(first.suffix).toContain('[The command timed out after 2.5 seconds.');
      let seen = 1;
      for (let reply = first; reply.exitCode === -1;) {
        reply = await hard(server, '', 2.5);
        if (reply.exitCode === 0) {
          expect(reply.prefix).toBe('');
          continue;
        }
        expect(reply.prefix).toBe(BELOW);
        expect(reply.suffix).toContain('[The command timed out after 2.5 seconds.');
        if (reply.content === '') continue;
        seen += 1;
        expect(reply.content).toBe(String(seen));
      }
      expect(seen).toBe(5);
    }));

  test('test_long_running_command_follow_by_execute', () =>
    withServer(async (server) => {
      const first = await hard(server, 'for i in {1..3}; do echo $i; sleep 3; done', 2.5);
      expect([first.content, first.exitCode, first.prefix]).toEqual(['1', -1, '']);
      const second = await hard(server, '', 2.5);
      expect([second.content, second.exitCode, second.prefix]).toEqual(['2', -1, BELOW]);
      const refused = await hard(server, 'sleep 15', 2.5);
      expect(refused.content).not.toContain('3');
      expect([refused.exitCode, refused.prefix]).toEqual([-1, BELOW]);
      expect(refused.suffix).toContain('The previous command is still running');
      let seen = '';
      for (let reply = refused; reply.exitCode === -1;) {
        reply = await hard(server, '', 2.5);
        seen += reply.content;
        if (reply.exitCode !== -1) expect(reply.suffix).toContain('[The command completed with exit code 0.]');
      }
      expect(seen).toBe('3');
    }));

  test('test_empty_command_errors', () =>
    withServer(async (server) => {
      const reply = await run(server, '');
      expect([reply.observation, reply.content]).toEqual([
        'run',
        'ERROR: No previous running command to retrieve logs from.',
      ]);
    }));

  test('test_bash_remove_prefix', () =>
    withServer(async (server) => {
      const url = 'https://host.invalid/group/project.git';
      expect((await run(server, `git init && git remote add origin ${url}`)).exitCode).toBe(0);
      const reply = await run(server, 'git remote -v');
      expect(reply.content).toContain(url);
      expect(reply.content).not.toContain('git remote -v');
    }));
});

describe('with a silence limit of one second', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start([], { NO_CHANGE_TIMEOUT_SECONDS: '1' });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test('test_interactive_command', async () => {
    const asked = await run(server, 'read -p "Enter name: " name && echo "Hello $name"');
    expect(asked.content).toContain('Enter name:');
    expect(asked.suffix).toContain('[The command has no new output after 1 seconds.');
    const greeted = await input(server, 'John');
    expect(greeted.content).toContain('Hello John');
    expect(greeted.suffix).toContain('[The command completed with exit code 0.]');
    const heredoc = await run(server, 'cat << EOF\nline 1\nline 2\nEOF');
    expect([heredoc.content, heredoc.exitCode]).toEqual(['line 1\nline 2', 0]);
  });

  test('test_stress_long_output_with_soft_and_hard_timeout', async () => {
    for (let round = 1; round <= 3; round += 1) {
      for (const column of ['%mem', '%cpu']) {
        const listed = await run(
          server,
          `ps aux --sort=-${column} | awk '{print $1,$2,$3,$4,$11}' | grep -v awk | head -5`,
        );
        expect(listed.exitCode).toBe(0);
      }
      const question =
        'read -p "Do you want to continue? [Y/n] " answer; if [[ $answer == "Y" ]]; then echo "Proceeding with operation..."; ' +
        'echo "Operation completed successfully!"; else echo "Operation cancelled."; exit 1; fi';
      expect((await run(server, question)).exitCode).toBe(-1);
      const answered = await input(server, 'Y');
      expect(answered.content).toContain('Proceeding with operation...');
      expect(answered.content).toContain('Operation completed successfully!');
      expect(answered.exitCode).toBe(0);
      const loop = await hard(server, `for i in {1..100}; do echo "Line $i - Iteration ${round}"; sleep 1; done`, 2);
      expect(loop.exitCode).toBe(-1);
      expect(loop.content).toContain(`Line 1 - Iteration ${round}`);
      const refused = await run(server, 'ls');
      expect(refused.exitCode).toBe(-1);
      expect(refused.suffix).toContain('The previous command is still running');
      expect((await input(server, 'C-c')).exitCode).toBe(130);
      expect((await run(server, 'ls')).exitCode).toBe(0);
    }
  });
});

/** Python starts within them also on a busy machine. */
describe('with a silence limit of three seconds', () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await TestServer.start([], { NO_CHANGE_TIMEOUT_SECONDS: '3' });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test('test_python_interactive_input', async () => {
    const program = `python3 -c "name = input('Enter your name: '); age = input('Enter your age: '); print(f'Hello {name}, you are {age} years old')"`;
    const first = await run(server, program);
    expect(first.content).toContain('Enter your name:');
    expect(first.exitCode).toBe(-1);
    const second = await input(server, 'Alice');
    expect(second.content).toContain('Enter your age:');
    expect(second.exitCode).toBe(-1);
    const last = await input(server, '25');
    expect(last.content).toContain('Hello Alice, you are 25 years old');
    expect(last.exitCode).toBe(0);
  });

  test('test_python_interactive_input_without_set_input', async () => {
    const program = `python3 -c "name = input('Enter your name: '); age = input('Enter your age: '); print(f'Hello {name}, you are {age} years old')"`;
    expect((await run(server, program)).content).toContain('Enter your name:');
    const refused = await run(server, 'Alice');
    expect(refused.content).not.toContain('Enter your age:');
    expect(refused.suffix).toContain('Your command "Alice" is NOT executed. The previous command is still running');
    expect(refused.exitCode).toBe(-1);
    expect((await input(server, 'Alice')).content).toContain('Enter your age:');
    const last = await input(server, '25');
    expect(last.content).toContain('Hello Alice, you are 25 years old');
    expect(last.exitCode).toBe(0);
  });
});
