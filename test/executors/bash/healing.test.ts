/** A shell that was replaced, cut off, or is slow at its prompt; keys that the terminal cannot take; what shows of the machinery. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TestServer } from '../../support/server.ts';
import { TestShell } from '../../support/shell.ts';

let server: TestServer;
let sessions = 0;

function newSession(): string {
  sessions += 1;
  return `heal-${sessions}`;
}

beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

describe('a shell that would wait for a user for ever is replaced', () => {
  test.each(['exec bash', 'exec sh', 'exec env -i bash --norc', 'exec bash --login'])('%s', async (command) => {
    const session = newSession();
    await server.run('export KEPT=kept; mkdir -p below; cd below', { session });
    const reply = await server.run(command, { session });
    expect([reply.observation, reply.exitCode]).toEqual(['run', 0]);
    expect(reply.suffix).toContain('The shell was replaced by another one (exec)');
    const next = await server.run('echo $KEPT $PWD', { session });
    expect(next.content).toBe(`kept ${server.workingDir}/below`);
  });

  test('one that closed all its descriptors by number', async () => {
    const session = newSession();
    const reply = await server.run('for i in $(seq 3 255); do eval "exec $i>&-"; done 2>/dev/null', { session });
    expect(reply.exitCode).toBe(0);
    expect((await server.run('echo next', { session })).content).toBe('next');
  });

  test('but not a script that was put in its place and reads', async () => {
    const session = newSession();
    const asked = await server.soft('exec bash -c \'read -p "name? " name; echo hello $name\'', {
      session,
      timeout: 1,
    });
    expect([asked.content, asked.exitCode]).toEqual(['name?', -1]);
    expect((await server.input('you', { session, timeout: 10 })).content).toContain('hello you');
  });
});

describe('a slow prompt', () => {
  test('costs each command one prompt, and no more from one to the next', async () => {
    const session = newSession();
    await server.run("PROMPT_COMMAND='sleep 0.2; echo prompt >> prompts.txt'", { session });
    const count = 6;
    for (let index = 0; index < count; index += 1) {
      expect((await server.run(`echo ${index}`, { session })).content).toBe(String(index));
    }
    const prompts = (await server.run('wc -l < prompts.txt', { session: newSession() })).content;
    expect(Number(prompts)).toBeLessThanOrEqual(count + 1);
  });

  test('that never ends is replaced, and the command is run once', async () => {
    const session = newSession();
    await server.run("PROMPT_COMMAND='sleep 1000'", { session });
    const reply = await server.run('echo ran >> endless.txt; echo output', { session, timeout: 60 });
    expect([reply.content, reply.exitCode]).toEqual(['output', 0]);
    expect(reply.suffix).toContain('A new shell was started');
    expect((await server.run('cat endless.txt', { session })).content).toBe('ran');
  });
});

describe('input that the program does not read', () => {
  test.each([
    ['C-c', 130],
    ['C-z', 148],
    ['C-\\', 131],
  ])('%s reaches it all the same, and nothing of the input is left for the next command', async (key, exitCode) => {
    const session = newSession();
    await server.soft('sleep 1000', { session, timeout: 0.2 });
    await server.input(`${'0123456789'.repeat(8)}\n`.repeat(80), { session, timeout: 0.2 });
    const reply = await server.input(key, { session, timeout: 20 });
    expect(reply.exitCode).toBe(exitCode);
    const next = await server.run('echo alive', { session });
    expect([next.content, next.exitCode]).toEqual(['alive', 0]);
  });
});

test('a program in raw mode gets C-c as a byte, however much was typed before', async () => {
  const session = newSession();
  const program = `import os, tty
tty.setraw(0)
print("raw", flush=True)
while b"\\x03" not in os.read(0, 1000): pass
print("got it", flush=True)`;
  const shell = new TestShell(server, session);
  await shell.shown(shell.run(`python3 -c '${program}'`, { timeout: 1 }), 'raw');
  for (let round = 0; round < 5; round += 1) await shell.input('x'.repeat(900), { timeout: 0.1 });
  const { content, exitCode } = await shell.ended(shell.input('C-c', { timeout: 10 }));
  expect([content.trim(), exitCode]).toEqual(['got it', 0]);
});

describe('nothing of the machinery shows', () => {
  test('in the history of a new shell', async () => {
    await server.run('mkdir -p home');
    await using own = await TestServer.start([], { HOME: `${server.workingDir}/home` });
    await own.run('true');
    expect((await own.run('history')).content).toBe('    1  true\n    2  history');
    expect((await own.run('echo "[${HISTIGNORE-unset}]"')).content).toBe('[unset]');
  });

  test('in the history file that a shell leaves', async () => {
    const session = newSession();
    await server.run('HISTFILE=$PWD/left-history; history -c; echo remembered; exit', { session });
    expect((await server.run('cat left-history', { session })).content).not.toMatch(/HISTIGNORE|set \+o|builtin/);
  });

  test.each(['-1', '--', '-- echo hi'])('in what is said of a command such as %s', async (command) => {
    const { content, exitCode } = await server.run(command, { session: newSession() });
    expect([content, exitCode]).toEqual([`bash: ${command.split(' ')[0]}: command not found`, 127]);
  });

  test('by HISTIGNORE of the sandbox, which is kept', async () => {
    await using own = await TestServer.start([], { HISTIGNORE: "it's *" });
    expect((await own.run('echo "$HISTIGNORE"')).content).toBe("it's *");
    expect((await own.run('env | grep HISTIGNORE')).content).toBe("HISTIGNORE=it's *");
  });
});

test('eval, switched off, comes back for the next command', async () => {
  const session = newSession();
  await server.run('enable -n eval', { session });
  expect((await server.run('echo works', { session })).content).toBe('works');
});

test('a full-screen program shows its text, not the blanks up to the edge', async () => {
  const script = String.raw`printf '\e[?1049h\e[2J\e[H%-900s\e[2;1Hsecond%300s' first ''; read -r`;
  const { content } = await server.soft(script, { session: newSession(), timeout: 1 });
  expect(content).toBe('first\nsecond');
});

test('a command that kills its shell at once is run once', async () => {
  const rounds = 20;
  const session = newSession();
  for (let round = 0; round < rounds; round += 1) {
    const reply = await server.run('echo ran >> once.txt; kill -9 $$', { session });
    expect(reply.exitCode).toBe(137);
  }
  expect((await server.run('wc -l < once.txt', { session })).content).toBe(String(rounds));
});
