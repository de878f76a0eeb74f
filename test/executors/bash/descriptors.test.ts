/** Descriptors belong to the commands: what a script opens is there in the next action, and the shell's own are out of its way. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestServer } from '../../support/server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

test.each([3, 9, 10, 11, 12, 13, 27, 28, 29, 63, 99, 200, 239, 250, 254])(
  'descriptor %i can be opened, used and closed in three actions',
  async (fd) => {
    const session = 'numbered';
    const file = `fd-${fd}.txt`;
    const pid = (await server.run(`exec ${fd}>${file}; echo $$`, { session })).content;
    expect((await server.run(`echo line >&${fd}; cat ${file}`, { session })).content).toBe('line');
    expect((await server.run(`exec ${fd}>&-`, { session })).exitCode).toBe(0);
    const closed = await server.run(`echo lost >&${fd}`, { session });
    expect([closed.content, closed.exitCode]).toEqual([`bash: ${fd}: Bad file descriptor`, 1]);
    expect((await server.run(`echo $$; cat ${file}`, { session })).content).toBe(`${pid}\nline`);
  },
);

test('a descriptor that bash chooses lasts', async () => {
  const session = 'chosen';
  await server.run('exec {log}>chosen.txt', { session });
  await server.run('echo first >&$log', { session });
  await server.run('echo second >&$log', { session });
  expect((await server.run('exec {log}>&-; cat chosen.txt', { session })).content).toBe('first\nsecond');
});

test('descriptors read across actions: a file line by line', async () => {
  const session = 'reading';
  await server.run("printf 'one\\ntwo\\n' >lines.txt; exec 10<lines.txt", { session });
  expect((await server.run('read -u 10 line; echo $line', { session })).content).toBe('one');
  expect((await server.run('read -u 10 line; echo $line', { session })).content).toBe('two');
});

test('a program inherits 0, 1 and 2 alone', async () => {
  // 3 is the folder that `ls` has open.
  const listed = '0\n1\n2\n3';
  expect((await server.run('ls -1 /proc/self/fd', { session: 'inherited' })).content).toBe(listed);
  const background = await server.run('ls -1 /proc/self/fd >fds.txt & wait $!; cat fds.txt', { session: 'inherited' });
  expect(background.content.slice(-listed.length)).toBe(listed);
});

test.each([8, 20])('commands still run under a limit of %i descriptors', async (limit) => {
  const session = `limit-${limit}`;
  expect((await server.run(`ulimit -n ${limit}; echo limited`, { session })).content).toBe('limited');
  expect((await server.run('echo again; (exit 3)', { session })).exitCode).toBe(3);
});

test('a script that closes all descriptors costs the shell at most', async () => {
  const session = 'closed';
  await server.run('for fd in /proc/$$/fd/*; do eval "exec ${fd##*/}>&-"; done', { session });
  expect((await server.run('echo next', { session })).content).toBe('next');
});

test.each(['kill -STOP $$', 'suspend -f'])('a shell that stops itself goes on: %s', async (command) => {
  const reply = await server.run(`echo before; ${command}; echo after`, { session: 'stopped' });
  expect([reply.content, reply.exitCode]).toEqual(['before\nafter', 0]);
});
