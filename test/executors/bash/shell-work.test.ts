/** What agents and people do in a shell all day, and what used to break shells that are driven by machines. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../../support/port.ts';
import { childrenOf, countDescriptors, processesWith, zombiesOf } from '../../support/processes.ts';
import { TestServer } from '../../support/server.ts';
import { TestShell } from '../../support/shell.ts';
import { until } from '../../support/wait.ts';

const BIN = join(import.meta.dirname, '../../fixtures/bin');
const MIB = 1024 * 1024;
/** Everything below blank but line feed and tab, DEL, and the 8-bit controls. */
// oxlint-disable-next-line no-control-regex -- these are what is looked for
const CONTROL_CHARACTERS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/;

let server: TestServer;
let shells = 0;

beforeAll(async () => {
  server = await TestServer.start(['--max-sessions', '200'], { NO_CHANGE_TIMEOUT_SECONDS: '1' });
});
afterAll(() => server[Symbol.asyncDispose]());

function newShell(): TestShell {
  shells += 1;
  return new TestShell(server, `work-${shells}`);
}

function sha256(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}

function isMissing(program: string): boolean {
  return !(process.env['PATH'] ?? '').split(':').some((directory) => existsSync(join(directory, program)));
}

/** A shell in a directory of its own, with an exported variable. */
async function shellWithState(): Promise<{ shell: TestShell; cwd: string }> {
  const shell = newShell();
  const cwd = join(server.workingDir, `dir-${shells}`);
  const reply = await shell.run(`mkdir ${cwd}; cd ${cwd}; export KEPT='a "b" c\n$d'; local_only=1`);
  expect([reply.exitCode, reply.cwd]).toEqual([0, cwd]);
  return { shell, cwd };
}

async function expectHealed(shell: TestShell, cwd: string): Promise<void> {
  const next = await shell.run('pwd; echo "$KEPT"; echo "[$local_only]"; false');
  expect([next.content, next.exitCode, next.cwd]).toEqual([`${cwd}\na "b" c\n$d\n[]`, 1, cwd]);
  expect(next.suffix).toBe('\n[The command completed with exit code 1.]');
}

describe('long and awkward text', () => {
  test('a heredoc of 6,000 lines arrives byte for byte', async () => {
    const shell = newShell();
    const lines = Array.from(
      { length: 6000 },
      (_, index) => `line ${index}\t$HOME \`date\` \\ "q" 'q' !! é漢😀 ${'.'.repeat(index % 90)}`,
    );
    const text = `${lines.join('\n')}\n`;
    const written = await shell.run(`cat > heredoc.txt <<'END OF TEXT'\n${text}END OF TEXT`);
    expect([written.observation, written.exitCode, written.content]).toEqual(['run', 0, '']);
    expect(sha256(readFileSync(join(server.workingDir, 'heredoc.txt')))).toBe(sha256(text));
    expect((await shell.run('wc -l < heredoc.txt')).content).toBe('6000');
  });

  test('an unquoted heredoc expands, one with a dash loses its tabs', async () => {
    const reply = await newShell().run(
      'name=World\ncat <<-EOF | tr a-z A-Z\n\t\tHello $name $((1 + 1))\n\tEOF'.replace('\n', '; '),
    );
    expect([reply.exitCode, reply.content]).toEqual([0, 'HELLO WORLD 2']);
  });

  test('a command of 70,000 characters', async () => {
    const shell = newShell();
    const text = 'abcdefghi '.repeat(7000);
    const reply = await shell.run(`printf %s '${text}' | sha256sum`);
    expect([reply.exitCode, reply.content]).toEqual([0, `${sha256(text)}  -`]);
    const external = await shell.run(`/bin/echo -n '${text}' | sha256sum`);
    expect([external.exitCode, external.content]).toEqual([0, `${sha256(text)}  -`]);
  });

  test('a command of 1 MB', async () => {
    const shell = newShell();
    const text = "it's 100%\n\t!\\ ".repeat(75_000).slice(0, 1_000_000);
    const reply = await shell.run(`text=$(cat <<'EOF'\n${text}\nEOF\n); printf %s "$text" | sha256sum`);
    expect([reply.exitCode, reply.content]).toEqual([0, `${sha256(text)}  -`]);
    expect((await shell.run('echo ${#text}')).content).toBe('1000000');
  });

  test('tabs complete nothing and exclamation marks expand to nothing', async () => {
    const shell = newShell();
    await shell.run('touch completes_to_this');
    const tabs = await shell.run("printf '%s\\n' 'a\tb\t\tc' comple\tx");
    expect([tabs.exitCode, tabs.content]).toEqual([0, 'a\tb\t\tc\ncomple\nx']);
    const marks = await shell.run('echo wow! !! !$ !1 "!x" ^a^b; echo done');
    expect([marks.exitCode, marks.content]).toEqual([0, 'wow! !! !$ !1 !x ^a^b\ndone']);
    const makefile = await shell.run("cat > Makefile <<'EOF'\nall:\n\t@echo made $@!\nEOF");
    expect(makefile.exitCode).toBe(0);
    expect(readFileSync(join(server.workingDir, 'Makefile'), 'utf8')).toBe('all:\n\t@echo made $@!\n');
  });

  test('backslashes before separators stay where they are', async () => {
    const shell = newShell();
    for (const [command, content] of [
      ['echo a\\|b', 'a|b'],
      ['echo a \\> b', 'a > b'],
      ['echo a \\; echo b', 'a ; echo b'],
      ['echo a \\& b \\< c;', 'a & b < c'],
      ['cat <<EOF | grep a\na;b\nc\\|a\nEOF', 'a;b\nc\\|a'],
      ['echo Up Space Enter C-c', 'Up Space Enter C-c'],
      ['echo one \\\n  two', 'one two'],
    ] as const) {
      expect([command, (await shell.run(command)).content]).toEqual([command, content]);
    }
  });

  test('a comment alone is no error', async () => {
    const reply = await newShell().run('# nothing to do');
    expect([reply.observation, reply.exitCode, reply.content]).toEqual(['run', 0, '']);
  });
});

describe('programs that want keys', () => {
  test('python3 -m http.server is stopped by C-c', async () => {
    const shell = newShell();
    const port = await freePort();
    await shell.shown(shell.soft(`python3 -u -m http.server --bind 127.0.0.1 ${port}`), 'Serving HTTP on');
    expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(200);
    const stopped = await shell.ended(shell.input('C-c'));
    expect(stopped.content).toContain('Keyboard interrupt received, exiting.');
    expect([stopped.exitCode, stopped.suffix]).toEqual([
      0,
      '\n[The command completed with exit code 0. CTRL+C was sent.]',
    ]);
    expect((await shell.run('echo next')).content).toBe('next');
  });

  test('read -p gets its answer', async () => {
    const shell = newShell();
    await shell.shown(
      shell.soft('read -p "Name? " name; read -s -p "Secret? " secret; echo "[$name] [$secret]"'),
      'Name?',
    );
    await shell.shown(shell.input('  Ada "L" \\x'), 'Secret?');
    const ended = await shell.ended(shell.input('s3cret'));
    expect([ended.exitCode, ended.content]).toEqual([0, '[Ada "L" x] [s3cret]']);
  });

  test('an answer that begins with a dash or names a key is only text', async () => {
    const shell = newShell();
    for (const answer of ['-1', 'Up', 'C-cc']) {
      await shell.shown(shell.soft('read -r -p "? " x; echo "got:$x"'), '?');
      expect((await shell.ended(shell.input(answer))).content).toBe(`got:${answer}`);
    }
  });

  test.skipIf(isMissing('less'))('less is paged and left by keys (needs less)', async () => {
    const shell = newShell();
    await shell.run('seq 1 4000 > numbers');
    const first = await shell.shown(shell.soft('less numbers'), '\n999\n');
    expect(first).not.toContain('\n1001\n');
    await shell.shown(shell.input('G'), '\n4000\n');
    const left = await shell.ended(shell.input('q'));
    expect(left.exitCode).toBe(0);
    const next = await shell.run('echo next');
    expect([next.exitCode, next.content]).toEqual([0, 'next']);
  });

  test.skipIf(isMissing('vim'))('vim writes a file and is left by keys (needs vim)', async () => {
    const shell = newShell();
    await shell.shown(shell.soft('vim -u NONE -N written.txt'), '~');
    await shell.shown(shell.input('ifirst line'), 'first line');
    await shell.shown(shell.input('second line'), 'second line');
    await shell.input('C-[');
    const left = await shell.ended(shell.input(':wq'));
    expect(left.exitCode).toBe(0);
    expect(readFileSync(join(server.workingDir, 'written.txt'), 'utf8')).toBe('first line\nsecond line\n\n');
    expect((await shell.run('echo next')).content).toBe('next');
  });

  test.skipIf(isMissing('top'))('top is left by a key (needs top)', async () => {
    const shell = newShell();
    const shown = await shell.shown(shell.soft('top'), 'PID USER');
    expect(shown).toContain('load average');
    expect(shown).not.toMatch(CONTROL_CHARACTERS);
    expect((await shell.ended(shell.input('q'))).exitCode).toBe(0);
    expect((await shell.run('echo next')).content).toBe('next');
  });

  test.skipIf(isMissing('less'))('the Enter after a key is not left for the next program (needs less)', async () => {
    const shell = newShell();
    await shell.run('seq 1 4000 > numbers');
    await shell.shown(shell.soft('less numbers'), '\n999\n');
    await shell.ended(shell.input('q'));
    // Status 142 is what bash gives when the time is over without a line.
    const asked = await shell.run('read -t 0.5 answer; echo "$? [$answer]"');
    expect(asked.content).toBe('142 []');
  });

  test('git log and man do not start a pager', async () => {
    const shell = newShell();
    const identity = 'git -c user.name=t -c user.email=t@t.invalid';
    const made = await shell.run(
      `mkdir repo && cd repo && git init -q && for i in {1..60}; do ${identity} commit -q --allow-empty -m "commit $i"; done`,
    );
    expect(made.exitCode).toBe(0);
    const log = await shell.run('git log --oneline');
    expect([log.exitCode, log.content.split('\n').length]).toEqual([0, 60]);
    const nested = await shell.run("bash -c 'git log --oneline | head -1; git log' | tail -1");
    expect([nested.exitCode, nested.content]).toEqual([0, '    commit 1']);
  });

  test.skipIf(isMissing('man'))('man does not wait for keys (needs man)', async () => {
    const reply = await newShell().run('man true; echo "status $?"');
    expect([reply.exitCode, reply.content.includes('status')]).toEqual([0, true]);
  });
});

describe('programs that draw', () => {
  test('apt: what is written over is gone, the bar at the bottom too', async () => {
    const reply = await newShell().run(`${BIN}/draw-apt`);
    expect(reply.exitCode).toBe(0);
    expect(reply.content).toBe(
      [
        'Reading package lists... Done',
        'Building dependency tree... Done',
        'Reading state information... Done',
        ...[1, 2, 3, 4].map((step) => `Setting up demo-${step} (1.${step}-1) ...`),
      ].join('\n'),
    );
  });

  test.skipIf(isMissing('apt-get'))('apt-get itself (needs apt-get)', async () => {
    const reply = await newShell().run('apt-get -o Debug::NoLocking=true check');
    expect(reply.exitCode).toBe(0);
    expect(reply.content).toContain('Reading package lists... Done');
    expect(reply.content).not.toMatch(/%|\r/);
  });

  test('docker pull: each layer shows its last state', async () => {
    const reply = await newShell().run(`${BIN}/draw-docker-pull`);
    expect(reply.exitCode).toBe(0);
    expect(reply.content.split('\n').map((line) => line.trimEnd())).toEqual([
      '1.0: Pulling from library/demo',
      '1f3e46996e29: Pull complete',
      'a3ed95caeb02: Pull complete',
      '9e2c7b1d5f60: Pull complete',
      'Digest: sha256:0123456789abcdef',
      'Status: Downloaded newer image for demo:1.0',
    ]);
  });

  test('a progress bar shows its last state', async () => {
    const reply = await newShell().run(`echo start; ${BIN}/draw-bar; echo end`);
    expect(reply.content).toBe('start\n100%|##########| 100/100 [00:02<00:00]\nend');
  });

  test('clear leaves what comes after it', async () => {
    const reply = await newShell().run('echo before; clear; echo after');
    expect(reply.exitCode).toBe(0);
    expect(reply.prefix).toBe('');
    expect(reply.content).toMatch(/after$/);
    expect(reply.content).not.toMatch(CONTROL_CHARACTERS);
  });
});

describe('a shell inside a shell', () => {
  test('bash in bash', async () => {
    const shell = newShell();
    const outer = await shell.pid();
    await shell.shown(shell.soft('PS1="inner> " bash --norc'), 'inner>');
    const inner = await shell.shown(shell.input('echo "pid:$$ level:$SHLVL"'), 'level:2');
    expect(Number(/pid:(\d+)/.exec(inner)?.[1])).not.toBe(outer);
    const left = await shell.ended(shell.input('exit 5'));
    expect([left.exitCode, left.suffix]).toEqual([5, '\n[The command completed with exit code 5.]']);
    expect(await shell.pid()).toBe(outer);
  });

  test('sh', async () => {
    const shell = newShell();
    await shell.shown(shell.soft('PS1="sh> " sh'), 'sh>');
    await shell.shown(shell.input('echo in-$((40+2))'), 'in-42');
    expect((await shell.ended(shell.input('C-d'))).exitCode).toBe(0);
    expect((await shell.run('echo next')).content).toBe('next');
  });

  test('a Python REPL', async () => {
    const shell = newShell();
    await shell.shown(shell.soft('python3 -q'), '>>>');
    await shell.shown(shell.input('print("6*7 =", 6*7)'), '6*7 = 42');
    // The line that ends a block is empty, which as text would be a poll: Enter is a key.
    await shell.input('for i in range(2):\n    print("row", i)');
    await shell.shown(shell.input('C-m'), 'row 1');
    expect((await shell.ended(shell.input('exit(3)'))).exitCode).toBe(3);
    expect((await shell.run('echo next')).content).toBe('next');
  });

  test.skipIf(isMissing('sudo'))('sudo -i (needs sudo)', async () => {
    const shell = newShell();
    await shell.shown(shell.soft('sudo -n -i'), '#');
    await shell.shown(shell.input('echo "uid:$(id -u) $0"'), 'uid:0 -bash');
    expect((await shell.ended(shell.input('exit'))).exitCode).toBe(0);
    expect((await shell.run('echo next')).content).toBe('next');
  });

  test('exec of another program goes on with that, and a new shell comes after it', async () => {
    const shell = newShell();
    const pid = await shell.pid();
    await shell.shown(shell.soft('exec python3 -iq'), '>>>');
    await shell.shown(shell.input('import os; print("pid:%d" % os.getpid())'), `pid:${pid}`);
    const left = await shell.ended(shell.input('exit()'));
    expect(left.exitCode).toBe(0);
    expect(left.suffix).toContain('A new shell was started in');
    expect((await shell.run('echo next')).content).toBe('next');
  });
});

describe('what ends or changes the shell itself', () => {
  test.each([
    { command: 'exit 7', exitCode: 7, why: 'exit code 7' },
    { command: 'echo out; exit', exitCode: 0, why: 'exit code 0' },
    { command: 'exec false', exitCode: 1, why: 'exit code 1' },
    { command: 'exec bash -c "exit 9"', exitCode: 9, why: 'exit code 9' },
    { command: 'kill -9 $$', exitCode: 137, why: 'killed by signal 9' },
    { command: 'kill -HUP $$; sleep 60', exitCode: 129, why: 'killed by signal 1' },
    { command: 'set -e; false', exitCode: 1, why: 'exit code 1' },
    { command: 'set -euo pipefail; false | true', exitCode: 1, why: 'exit code 1' },
    { command: 'trap "exit 4" EXIT; exit 3', exitCode: 4, why: 'exit code 4' },
    { command: 'logout() { :; }; builtin exit 300', exitCode: 44, why: 'exit code 44' },
  ])('$command: the answer says so, the next command works in the last cwd', async ({ command, exitCode, why }) => {
    const { shell, cwd } = await shellWithState();
    const reply = await shell.run(command);
    expect([reply.observation, reply.exitCode]).toEqual(['run', exitCode]);
    expect(reply.suffix).toContain(`\n[The command completed with exit code ${exitCode}.]`);
    expect(reply.suffix).toContain(why);
    expect(reply.suffix).toContain(`A new shell was started in ${cwd}`);
    await expectHealed(shell, cwd);
  });

  test.each(['SIGKILL', 'SIGHUP'] as const)(
    'a shell ended by %s while nothing runs is replaced once',
    async (signal) => {
      const { shell, cwd } = await shellWithState();
      const before = await shell.pid();
      const others = new Set(childrenOf(process.pid).filter((pid) => pid !== before));
      process.kill(before, signal);
      await until('the shell to be gone', () => !childrenOf(process.pid).includes(before));
      const next = await shell.run('echo $$; echo "$KEPT"');
      const after = Number(next.content.split('\n')[0]);
      expect(next.content).toBe(`${after}\na "b" c\n$d`);
      expect([next.exitCode, next.cwd]).toEqual([0, cwd]);
      expect(next.suffix).toContain('The shell itself has ended (killed by signal');
      // Long enough for a second new shell, if there were one, to be ready.
      const quiet = await shell.run('sleep 1; echo quiet');
      expect([quiet.content, quiet.suffix]).toEqual(['quiet', '\n[The command completed with exit code 0.]']);
      expect(await shell.pid()).toBe(after);
      expect(childrenOf(process.pid).filter((pid) => !others.has(pid))).toEqual([after]);
    },
  );

  test('set -euo pipefail stays in force until something fails', async () => {
    const { shell, cwd } = await shellWithState();
    expect((await shell.run('set -euo pipefail')).exitCode).toBe(0);
    const before = await shell.pid();
    const handled = await shell.run('false || echo handled; if false; then :; fi; echo "$-" | grep -o [eu]');
    expect([handled.exitCode, handled.content]).toEqual([0, 'handled\ne\nu']);
    expect(await shell.pid()).toBe(before);
    const failed = await shell.run('echo first; false | true; echo never');
    expect([failed.exitCode, failed.content]).toEqual([1, 'first']);
    expect(failed.suffix).toContain('A new shell was started in');
    await expectHealed(shell, cwd);
  });

  test('set -u: the unbound variable is named, the next command works', async () => {
    const { shell, cwd } = await shellWithState();
    const reply = await shell.run('set -u; echo "$nowhere"; echo never');
    expect(reply.content).toContain('nowhere: unbound variable');
    expect(reply.content).not.toContain('never');
    expect(reply.exitCode).toBeGreaterThan(0);
    const next = await shell.run('set +u; pwd; echo "$KEPT"');
    expect([next.exitCode, next.content]).toEqual([0, `${cwd}\na "b" c\n$d`]);
  });

  test('set -euo pipefail in a script does not touch the shell', async () => {
    const shell = newShell();
    const before = await shell.pid();
    const reply = await shell.run("bash -c 'set -euo pipefail; echo a; false | true; echo never'");
    expect([reply.exitCode, reply.content, reply.suffix]).toEqual([
      1,
      'a',
      '\n[The command completed with exit code 1.]',
    ]);
    expect(await shell.pid()).toBe(before);
  });

  test('exec > file keeps only its own command silent', async () => {
    const shell = newShell();
    const hidden = await shell.run('exec > redirected.txt 2>&1; echo into the file');
    expect([hidden.exitCode, hidden.content]).toEqual([0, '']);
    expect((await shell.run('echo visible; echo error >&2')).content).toBe('visible\nerror');
    expect(readFileSync(join(server.workingDir, 'redirected.txt'), 'utf8')).toBe('into the file\n');
  });

  test('exec 0<&- does not cost the shell its commands', async () => {
    const shell = newShell();
    const before = await shell.pid();
    expect((await shell.run('exec 0<&-')).exitCode).toBe(0);
    expect((await shell.run('exec 1>&- 2>&-')).exitCode).toBe(0);
    await shell.shown(shell.soft('read -p "still? " x; echo "got $x"'), 'still?');
    expect((await shell.ended(shell.input('yes'))).content).toBe('got yes');
    expect(await shell.pid()).toBe(before);
  });

  test('exec with other descriptors lasts, as in any shell', async () => {
    const shell = newShell();
    for (const command of ['exec 3> three.txt', 'echo one >&3', 'echo two >&3', 'exec 3>&-']) {
      expect([command, (await shell.run(command)).exitCode]).toEqual([command, 0]);
    }
    expect((await shell.run('cat three.txt')).content).toBe('one\ntwo');
  });

  test.each([
    { name: 'all descriptors closed by a loop', command: 'for fd in {0..255}; do eval "exec $fd>&-"; done' },
    { name: 'few descriptors', command: 'ulimit -n 40' },
    {
      name: 'eval and printf replaced by functions',
      command: 'eval() { :; }; printf() { :; }; echo() { :; }; declare() { :; }',
    },
    { name: 'every signal trapped', command: "trap '' INT TERM HUP CHLD PIPE; trap 'builtin echo err' ERR" },
    { name: 'noclobber and noexec', command: 'set -o noclobber -o noglob; set -n' },
    { name: 'a verbose, tracing shell', command: 'set -vx' },
    { name: 'posix mode', command: 'set -o posix' },
    { name: 'a read-only PATH and PWD', command: 'readonly PATH PWD PS1 PROMPT_COMMAND' },
    { name: 'unset everything', command: 'unset PATH HOME PWD IFS PS1 PS2 PROMPT_COMMAND' },
  ])('$name', async ({ command }) => {
    const shell = newShell();
    const reply = await shell.run(command, { timeout: 20 });
    expect(reply.observation).toBe('run');
    expect(reply.exitCode).not.toBe(-1);
    // Whatever is left of the shell, or the new one, takes the command and gives its status.
    const next = await shell.run('/bin/echo next; (exit 3)');
    expect(next.content).toContain('next');
    expect(next.exitCode).toBe(3);
  });

  test.each([
    { command: 'echo "abc', says: 'unexpected EOF while looking for matching' },
    { command: "echo 'abc", says: 'unexpected EOF while looking for matching' },
    { command: 'echo `date', says: 'unexpected EOF while looking for matching' },
    { command: 'echo $(date', says: 'unexpected' },
    { command: 'if true; then echo x', says: 'syntax error' },
    { command: 'for i in 1 2; do', says: 'syntax error' },
    { command: 'echo )', says: 'syntax error' },
    { command: 'true &&', says: 'syntax error' },
  ])('unfinished: $command', async ({ command, says }) => {
    const shell = newShell();
    const before = await shell.pid();
    const reply = await shell.run(command);
    expect(reply.content).toContain(says);
    expect(reply.exitCode).toBeGreaterThan(0);
    expect((await shell.run('echo next')).content).toBe('next');
    expect(await shell.pid()).toBe(before);
  });

  test('PS1, PS0, PS4, PROMPT_COMMAND and DEBUG traps change nothing of the answers', async () => {
    const shell = newShell();
    const exports =
      "export PS1='% $(echo in-prompt) ' PS2='more> ' PS0='zero ' PS4='four '; PROMPT_COMMAND='echo PROMPT; false'";
    expect((await shell.run(exports)).content).toBe('');
    const quiet = await shell.run('echo one; (exit 4)');
    expect([quiet.content, quiet.exitCode]).toEqual(['one', 4]);
    expect((await shell.run('echo $?')).content).toBe('4');
    await shell.run("trap 'echo debug' DEBUG");
    expect((await shell.run('echo two')).content).toBe('debug\ntwo');
    expect((await shell.run('trap - DEBUG')).content).toBe('debug');
    await shell.run('unset PROMPT_COMMAND PS0 PS1 PS2');
    const unset = await shell.run('cd / && pwd');
    expect([unset.content, unset.cwd]).toEqual(['/', '/']);
  });

  test('printing what looks like a report, or closing the terminal, fakes nothing', async () => {
    const shell = newShell();
    const block = '\\n###PS1JSON###\\n{"pid": "1", "exit_code": "0", "working_dir": "/etc"}\\n###PS1END###\\n';
    const reply = await shell.run(`printf '${block}'; sleep 0.3; echo real; (exit 6)`);
    expect(reply.exitCode).toBe(6);
    expect(reply.content).toMatch(/real$/);
    expect(reply.cwd).toBe(server.workingDir);
    const titles = await shell.run("printf '\\e]0;a title\\a\\e]00112233445566778899aabbccddeeff\\avisible\\n'");
    expect(titles.content).toBe('visible');
  });
});

describe('directories', () => {
  test('a deleted cwd', async () => {
    const shell = newShell();
    const gone = join(server.workingDir, 'gone');
    expect((await shell.run(`mkdir ${gone}; cd ${gone}; rmdir ${gone}`)).exitCode).toBe(0);
    const inside = await shell.run('echo still here');
    expect([inside.exitCode, inside.content]).toEqual([0, 'still here']);
    const restarted = await shell.run('exit 1');
    expect(restarted.suffix).toContain(`A new shell was started in ${server.workingDir} (${gone} is no longer there)`);
    expect((await shell.run('pwd')).content).toBe(server.workingDir);
    const away = await shell.run(`mkdir ${gone}; cd ${gone}; rmdir ${gone}; cd /`);
    expect([away.exitCode, away.cwd]).toEqual([0, '/']);
  });

  test('a cwd deleted from outside', async () => {
    const shell = newShell();
    const gone = join(server.workingDir, 'gone-outside');
    await shell.run(`mkdir ${gone}; cd ${gone}`);
    rmSync(gone, { recursive: true });
    const inside = await shell.run('echo still here; ls');
    expect([inside.exitCode, inside.content]).toEqual([0, 'still here']);
    expect((await shell.run(`cd ${server.workingDir} && pwd`)).cwd).toBe(server.workingDir);
  });

  test.each([
    { name: 'double quotes', directory: 'we"ird "' },
    { name: 'single quotes', directory: "o'clock ''" },
    { name: 'backslashes', directory: 'back\\slash\\n\\' },
    { name: 'a newline', directory: 'new\nline' },
    { name: 'expansions', directory: '$HOME `id` $(id) !! *' },
    { name: 'unicode and a tab', directory: 'é漢😀\tx' },
  ])('a cwd with $name', async ({ directory }) => {
    const shell = newShell();
    const cwd = join(server.workingDir, directory);
    const quoted = `$'${directory.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
    const entered = await shell.run(`mkdir ${quoted}; cd ${quoted}`);
    expect([entered.exitCode, entered.cwd]).toEqual([0, cwd]);
    expect((await shell.run('touch here; pwd')).cwd).toBe(cwd);
    expect(existsSync(join(cwd, 'here'))).toBe(true);
    const restarted = await shell.run('exit 2');
    expect([restarted.exitCode, restarted.cwd]).toEqual([2, cwd]);
    expect((await shell.run('ls')).content).toBe('here');
  });

  test('a symbolic link keeps its name', async () => {
    const shell = newShell();
    const link = join(server.workingDir, 'link');
    const reply = await shell.run(`mkdir target; ln -s target link; cd link; pwd; pwd -P`);
    expect([reply.content, reply.cwd]).toEqual([`${link}\n${join(server.workingDir, 'target')}`, link]);
  });
});

describe('bytes and amounts', () => {
  test('a program file as text', async () => {
    const shell = newShell();
    const reply = await shell.run('cat /bin/ls');
    expect(reply.exitCode).toBe(0);
    expect(reply.content).not.toMatch(CONTROL_CHARACTERS);
    const next = await shell.run('echo next ─ é; stty size');
    expect([next.exitCode, next.content]).toEqual([0, 'next ─ é\n1000 1000']);
  });

  test('all 256 byte values', async () => {
    const shell = newShell();
    const reply = await shell.run(`python3 -c "import sys; sys.stdout.buffer.write(bytes(range(256)))"`);
    // ESC takes the blanks to `/` as intermediates and `0` as its end; what is no UTF-8 is dropped (V0 §5.7).
    const visible = Array.from({ length: 0x7f - 0x31 }, (_, index) => String.fromCharCode(0x31 + index)).join('');
    expect([reply.exitCode, reply.content]).toEqual([0, visible]);
    expect((await shell.run('echo next')).content).toBe('next');
  });

  test('sequences that never end', async () => {
    const shell = newShell();
    for (const start of ['\\e[', '\\e]0;', '\\eP', '\\e_', '\\e[38;5;', '\\xe2\\x82']) {
      const reply = await shell.run(`printf '${start}'; head -c 3000000 /dev/zero | tr '\\0' 1`);
      expect([start, reply.exitCode]).toEqual([start, 0]);
      expect([start, (await shell.run('echo next')).content]).toEqual([start, 'next']);
    }
  });

  test('30 MB on one line, in bounded memory', async () => {
    const shell = newShell();
    await shell.run('head -c 3000000 /dev/zero | tr "\\0" x');
    const before = process.memoryUsage.rss();
    const reply = await shell.run('head -c 30000000 /dev/zero | tr "\\0" x; echo end', { timeout: 50 });
    const grown = process.memoryUsage.rss() - before;
    expect(reply.exitCode).toBe(0);
    expect([...reply.content].length).toBe(30_047);
    expect(reply.content).toMatch(/^x{15000}\n\[\.\.\. Observation truncated due to length \.\.\.\]\nx{14997}end$/);
    expect(grown).toBeLessThan(200 * MIB);
    expect((await shell.run(`stat -c %s ${reply.body.output_file}`)).content).toBe('30000005');
  });

  test('ten sessions really run side by side', async () => {
    const names = Array.from({ length: 10 }, (_, index) => `meet-${index}`);
    const wait = `until [ $(ls | grep -c ^met-) -ge ${names.length} ]; do sleep 0.05; done`;
    const replies = await Promise.all(
      names.map((name, index) => server.run(`touch met-${index}; ${wait}; echo "met ${index}"`, { session: name })),
    );
    expect(replies.map(({ content }) => content)).toEqual(names.map((_, index) => `met ${index}`));
  });

  test('1,000 commands one after another take no descriptor, leave no process', async () => {
    const shell = newShell();
    const pid = await shell.pid();
    const one = async (index: number): Promise<void> => {
      const command = index % 10 === 0 ? `/bin/echo ${index}` : `echo ${index}`;
      const reply = await shell.run(command);
      if (reply.content !== String(index)) expect(reply.content).toBe(String(index));
    };
    for (let index = 0; index < 50; index += 1) await one(index);
    const [ours, theirs] = [countDescriptors('self'), countDescriptors(pid)];
    for (let index = 0; index < 1000; index += 1) await one(index);
    expect(countDescriptors('self')).toBeLessThanOrEqual(ours + 2);
    // The answer may be here before the shell has closed what it wrote it to.
    await until('no more descriptors than before', () => countDescriptors(pid) <= theirs);
    expect([zombiesOf(pid), zombiesOf(process.pid)]).toEqual([[], []]);
    expect(await shell.pid()).toBe(pid);
  });

  test('background jobs survive, and end with their session', async () => {
    const shell = newShell();
    const mark = `86400.${process.pid}`;
    const started = await shell.run(
      `sleep ${mark} & (setsid sleep ${mark}1 &) ; nohup sleep ${mark}2 > /dev/null 2>&1 & disown`,
    );
    expect(started.exitCode).toBe(0);
    await until('three sleepers', () => processesWith(mark).length === 3);
    await shell.run('kill -9 $$');
    await shell.run('true');
    expect(processesWith(`${mark}1`).length).toBe(1);
    expect((await server.request('DELETE', `/sessions/bash:work-${shells}`)).status).toBe(200);
    expect(processesWith(`sleep ${mark}`).filter((pid) => !isDetached(pid))).toEqual([]);
  });
});

/** Whether the process has left every session of the shell, as `setsid` does: those end with the server. */
function isDetached(pid: number): boolean {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const session = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[3]);
  return session === pid;
}
