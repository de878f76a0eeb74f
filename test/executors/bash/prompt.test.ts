/** What stands between the server and its shell: a prompt that reads, a folder that is emptied, builtins that are switched off. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestServer } from '../../support/server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

test('a PROMPT_COMMAND that reads takes a command away: it is run in a new shell, once, and that is said', async () => {
  const session = 'reading-prompt';
  expect((await server.run('PROMPT_COMMAND="read -t 100 line"', { session })).exitCode).toBe(0);
  const reply = await server.run('echo ran >> ran.txt; echo output; (exit 5)', { session });
  expect([reply.content, reply.exitCode]).toEqual(['output', 5]);
  expect(reply.suffix).toContain('A new shell was started in');
  expect((await server.run('cat ran.txt', { session })).content).toBe('ran');
});

test('new shells start although /tmp was emptied', async () => {
  expect((await server.run(`rm -rf /tmp/actiond-${process.pid}-*`)).exitCode).toBe(0);
  expect((await server.run('echo same')).content).toBe('same');
  expect((await server.run('exit 4')).exitCode).toBe(4);
  expect((await server.run('echo healed')).content).toBe('healed');
  expect((await server.run('echo other', { session: 'after-emptying' })).content).toBe('other');
});

test.each(['enable -n printf eval declare', 'shopt -s extdebug; trap "false" DEBUG'])(
  'a shell that cannot answer is replaced: %s',
  async (command) => {
    const session = 'mute';
    const reply = await server.run(command, { session });
    expect(reply.exitCode).toBe(137);
    expect(reply.suffix).toContain('A new shell was started in');
    expect((await server.run('echo next', { session })).content).toBe('next');
  },
);
