/** Output that nobody has seen yet when something else happens: it is whole, within the limits, and as hidden as its command. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { begin, ended, eventsOf, outputOf } from '../../support/actions.ts';
import { TestServer } from '../../support/server.ts';
import { TestShell } from '../../support/shell.ts';
import { until } from '../../support/wait.ts';

/** The longest content: 30,000 code points and the notice between its halves. */
const MAX_CONTENT = 30_047;

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start(['--max-sessions', '100']);
});
afterAll(() => server[Symbol.asyncDispose]());

let sessions = 0;

/** A session with a command that was answered before it printed. */
class Scene {
  readonly session: string;
  readonly shell: TestShell;
  readonly #go: string;
  readonly #done: string;

  constructor() {
    sessions += 1;
    this.session = `unseen-${sessions}`;
    this.shell = new TestShell(server, this.session);
    this.#go = join(server.workingDir, `${this.session}.go`);
    this.#done = join(server.workingDir, `${this.session}.done`);
  }

  /** Shell text that waits, then prints. */
  text(prints: string): string {
    return `until [ -e ${this.#go} ]; do sleep 0.02; done; ${prints}; touch ${this.#done}`;
  }

  async print(): Promise<void> {
    writeFileSync(this.#go, '');
    await until('it has printed', () => existsSync(this.#done));
  }

  /** Lets the command end, and the server notice that. */
  async finish(): Promise<void> {
    await this.print();
    await until('the session is idle', async () => {
      const { json } = await server.request('GET', '/sessions');
      const list = json.sessions as { name: string; state: string }[];
      return list.find(({ name }) => name === this.session)?.state === 'idle';
    });
  }
}

test('the rest of a command and the output of the next one are cut as one, and one file has both', async () => {
  const scene = new Scene();
  await scene.shell.run(scene.text('seq 1 4000'), { timeout: 0.2 });
  await scene.finish();
  const next = await scene.shell.run('seq 4001 8000');
  expect(next.content).toHaveLength(MAX_CONTENT);
  expect([next.content.slice(0, 4), next.content.slice(-5)]).toEqual(['1\n2\n', '\n8000']);
  expect(next.suffix).toContain(`[Full output: ${next.body.output_file}]`);
  const numbers = Array.from({ length: 8000 }, (_, index) => `${index + 1}\r\n`).join('');
  expect(readFileSync(next.body.output_file, 'utf8')).toBe(numbers);
  const after = await scene.shell.run('seq 1 9000');
  expect(after.body.output_file).not.toBe(next.body.output_file);
  expect(readFileSync(after.body.output_file, 'utf8')).toMatch(/^1\r\n2\r\n/);
});

test('what comes with a refusal is cut, too', async () => {
  const scene = new Scene();
  await scene.shell.run(`${scene.text('seq 1 9000')}; cat`, { timeout: 0.2 });
  await scene.print();
  const refused = await scene.shell.run('ls');
  expect(refused.suffix).toContain('is NOT executed');
  expect([refused.content.length, refused.body.truncated]).toEqual([MAX_CONTENT, true]);
  expect(readFileSync(refused.body.output_file, 'utf8')).toMatch(/\r\n9000\r\n$/);
  await scene.shell.ended(scene.shell.input('C-d'));
});

test('lines that are lost for an answer about a running command are in the file it names', async () => {
  const scene = new Scene();
  await scene.shell.run(`${scene.text('yes | head -n 30000')}; cat`, { timeout: 0.2 });
  await scene.print();
  const { content, truncated, output_file: file } = (await scene.shell.run('', { timeout: 0.2 })).body;
  expect([content.length < MAX_CONTENT, truncated, typeof file]).toEqual([true, true, 'string']);
  await scene.shell.ended(scene.shell.input('C-d'));
  expect(readFileSync(file, 'utf8')).toBe('y\r\n'.repeat(30_000));
});

test.each([
  ['the next command', ''],
  ['a refusal', '; cat'],
])('what a hidden command printed is not recorded with %s', async (_, rest) => {
  const scene = new Scene();
  await scene.shell.run(scene.text('echo whispered') + rest, { timeout: 0.2, hidden: true });
  await (rest === '' ? scene.finish() : scene.print());
  const next = await scene.shell.run('echo own');
  expect(next.content).toMatch(rest === '' ? /^whispered\nown$/ : /^whispered$/);
  expect(JSON.stringify(await eventsOf(server, next.body.action_id))).not.toContain('whispered');
});

test('the output of a command that ends its shell is whole, and in a file when it is cut', async () => {
  const { shell } = new Scene();
  for (let round = 0; round < 5; round += 1) {
    const reply = await shell.run('seq 1 9000; exit 3');
    expect([reply.exitCode, reply.body.truncated]).toEqual([3, true]);
    expect(reply.content).toMatch(/\n9000\nexit$/);
    expect(readFileSync(reply.body.output_file, 'utf8')).toMatch(/\r\n9000\r\nexit\r\n$/);
  }
});

test('a command that is given to a new shell has live output and a file, without what that shell says first', async () => {
  const { shell, session } = new Scene();
  await shell.run('PROMPT_COMMAND="read -t 100 line"');
  const id = await begin(server, 'seq 1 9000', { session });
  const { observation } = await ended(server, id);
  expect(observation?.extras.metadata?.suffix).toMatch(/A new shell was started in .*\n\[Full output: /);
  const numbers = Array.from({ length: 9000 }, (_, index) => `${index + 1}\r\n`).join('');
  expect(outputOf(await eventsOf(server, id))).toBe(numbers);
});

test('what a background job printed before its shell was killed comes with the next answer', async () => {
  const scene = new Scene();
  const pid = await scene.shell.pid();
  await scene.shell.run(`(${scene.text('echo late')}) &`);
  await scene.print();
  process.kill(pid, 'SIGKILL');
  const next = await scene.shell.run('echo own');
  expect(next.content).toBe('late\nown');
  expect(next.suffix).toContain('A new shell was started in');
});
