/** `POST /actions/{id}/cancel` of a command at work: it ends, its shell and all that the shell has stay. */
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { begin, cancel, ended, eventsOf, outputOf, type ShownAction } from '../../support/actions.ts';
import { processesWith } from '../../support/processes.ts';
import { TestServer } from '../../support/server.ts';
import { TestShell } from '../../support/shell.ts';
import { until } from '../../support/wait.ts';

const FIXTURES = join(import.meta.dirname, '../../fixtures/bin');

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server[Symbol.asyncDispose]());

let sessions = 0;

/** A shell with something in it that must survive. */
class Victim {
  readonly session: string;
  readonly shell: TestShell;
  readonly #mark: string;
  pid = 0;

  constructor() {
    sessions += 1;
    this.session = `cancel-${sessions}`;
    this.shell = new TestShell(server, this.session);
    this.#mark = join(server.workingDir, `${this.session}.on`);
  }

  async prepare(): Promise<this> {
    await this.shell.run(
      `mkdir -p ${server.workingDir}/sub; cd ${server.workingDir}/sub; plain=one; export shown=two; list=(a "b c"); say() { echo "said $1"; }; alias short="echo aliased"`,
    );
    this.pid = await this.shell.pid();
    return this;
  }

  /** Runs a command and cancels it when it is at work, which `$ON` tells. */
  async cancelled(command: string, hidden = false): Promise<ShownAction> {
    rmSync(this.#mark, { force: true });
    const id = await begin(server, `ON=${this.#mark}; ${command}`, { session: this.session, hidden });
    await until(`${command} is at work`, () => existsSync(this.#mark));
    return cancel(server, id);
  }
}

/** The same shell, with all that was in it. */
async function expectIntact({ shell, pid }: Victim): Promise<void> {
  const { content } = await shell.run('echo $$ $PWD $plain $(printenv shown) "${list[1]}"; say it; short');
  expect(content).toBe(`${pid} ${server.workingDir}/sub one two b c\nsaid it\naliased`);
}

async function expectReplaced({ shell, pid }: Victim): Promise<void> {
  const { content, exitCode, cwd } = await shell.run('echo $$');
  expect([exitCode, cwd]).toEqual([0, `${server.workingDir}/sub`]);
  expect(Number(content)).not.toBe(pid);
}

function metadataOf({ observation }: ShownAction): { exit_code: number; suffix: string } {
  return observation?.extras.metadata ?? { exit_code: NaN, suffix: '' };
}

/** An argument that only this test's processes have. */
let marks = 0;
function newMark(): string {
  marks += 1;
  return `86397.${process.pid}${String(marks).padStart(3, '0')}`;
}

describe('the shell survives', () => {
  test('sleep: interrupted', async () => {
    const victim = await new Victim().prepare();
    const mark = newMark();
    const over = await victim.cancelled(`echo so far; touch $ON; sleep ${mark}`);
    expect(over).toMatchObject({
      status: 'cancelled',
      observation: { observation: 'run', content: expect.stringContaining('so far') },
    });
    expect(metadataOf(over)).toMatchObject({
      exit_code: 130,
      suffix: expect.stringContaining('The command was cancelled.'),
    });
    expect(processesWith(mark)).toEqual([]);
    await expectIntact(victim);
  });

  test('a list: what comes after does not run', async () => {
    const victim = await new Victim().prepare();
    const mark = newMark();
    const over = await victim.cancelled(`touch $ON; sleep ${mark}; touch $ON.after`);
    expect(over.status).toBe('cancelled');
    await expectIntact(victim);
    expect(existsSync(join(server.workingDir, `${victim.session}.on.after`))).toBe(false);
  });

  test('a pipeline and a subshell', async () => {
    const victim = await new Victim().prepare();
    const mark = newMark();
    const over = await victim.cancelled(`touch $ON; (sleep ${mark}1; :) | sleep ${mark}2 | (sleep ${mark}3; :)`);
    expect(over.status).toBe('cancelled');
    await until('all are gone', () => processesWith(mark).length === 0);
    await expectIntact(victim);
  });

  test('a program that reads its input', async () => {
    const victim = await new Victim().prepare();
    expect((await victim.cancelled('touch $ON; cat')).status).toBe('cancelled');
    await expectIntact(victim);
  });

  test('a program that ignores INT, but not TERM', async () => {
    const victim = await new Victim().prepare();
    const mark = newMark();
    const over = await victim.cancelled(
      `bash -c 'trap "" INT; touch "$1"; trap "exit 7" TERM; while :; do sleep ${mark}; done' - $ON`,
    );
    expect(over.status).toBe('cancelled');
    await until('it is gone', () => processesWith(mark).length === 0);
    await expectIntact(victim);
  });

  test('a program that ignores INT and TERM: killed', async () => {
    const victim = await new Victim().prepare();
    const mark = newMark();
    const id = await begin(server, `${join(FIXTURES, 'ignore-interrupts.py')} ${mark}`, { session: victim.session });
    await until('it says that it is deaf', async () => {
      const { json } = await server.request('GET', `/events?action_id=${id}&kind=output`);
      return JSON.stringify(json.events).includes('deaf');
    });
    const over = await cancel(server, id);
    expect(over).toMatchObject({ status: 'cancelled', observation: { content: expect.stringContaining('deaf') } });
    expect(metadataOf(over).exit_code).toBe(137);
    expect(processesWith(mark)).toEqual([]);
    await expectIntact(victim);
  });

  test('a program in raw mode, to which C-c is a byte', async () => {
    const victim = await new Victim().prepare();
    const mark = newMark();
    const script = `import sys,tty,os; tty.setraw(0); open(sys.argv[1],"w"); [os.read(0,1) for _ in iter(int,1)]`;
    const over = await victim.cancelled(`python3 -c '${script}' $ON ${mark}`);
    expect(over.status).toBe('cancelled');
    expect(processesWith(mark)).toEqual([]);
    await expectIntact(victim);
    // The terminal is in order again: lines, echo and signals.
    expect((await victim.shell.run('stty -a | grep -oE "[-]?(icanon|isig)\\b" | sort')).content).toBe('icanon\nisig');
  });

  test.each([
    ['an empty one', 'touch $ON; while :; do :; done'],
    ['one of programs', 'while :; do touch $ON; sleep 0.01; done'],
    ['for', 'for ((;;)); do touch $ON; true; done'],
    ['read', 'touch $ON; while :; do read -r line; done'],
    ['wait', 'sleep 1000 & touch $ON; wait; kill %1'],
  ])('a loop of the shell itself: %s', async (_, loop) => {
    const victim = await new Victim().prepare();
    expect((await victim.cancelled(loop)).status).toBe('cancelled');
    await expectIntact(victim);
  });

  test.each([
    ['a loop', 'while :; do touch $ON; done'],
    ['a loop in a function', 'turn() { while :; do touch $ON; done; }; turn'],
  ])('%s of programs so short that C-c may fall between two of them', async (_, loop) => {
    const victim = await new Victim().prepare();
    // On a machine that is busy all interrupts may fall so: then the shell goes, and the answer says it.
    for (let round = 0; round < 12; round += 1) {
      const over = await victim.cancelled(loop);
      expect(over.status).toBe('cancelled');
      if (metadataOf(over).suffix.includes('The shell itself has ended')) {
        await expectReplaced(victim);
        await victim.prepare();
      } else {
        await expectIntact(victim);
      }
    }
  });

  test('background jobs go on', async () => {
    const victim = await new Victim().prepare();
    const mark = newMark();
    await victim.shell.run(`sleep ${mark} & disown -h`);
    expect((await victim.cancelled('touch $ON; sleep 100')).status).toBe('cancelled');
    await expectIntact(victim);
    expect(processesWith(mark)).toHaveLength(1);
    await victim.shell.run(`kill %1`);
  });

  test('a flood of output', async () => {
    const victim = await new Victim().prepare();
    const id = await begin(server, 'yes flooding', { session: victim.session });
    await until('it floods', async () => outputOf(await eventsOf(server, id)).includes('flooding'));
    const over = await cancel(server, id);
    expect(over).toMatchObject({ status: 'cancelled', observation: { content: expect.stringContaining('flooding') } });
    await expectIntact(victim);
  });

  test('one after another, also the moment after they are sent', async () => {
    const victim = await new Victim().prepare();
    const mark = newMark();
    for (let round = 0; round < 20; round += 1) {
      const id = await begin(server, `sleep ${mark}`, { session: victim.session });
      expect((await cancel(server, id)).status).toBe('cancelled');
    }
    expect(processesWith(mark)).toEqual([]);
    await expectIntact(victim);
  });

  test('several interrupts leave nothing in the next answer, nor in its live output', async () => {
    const victim = await new Victim().prepare();
    const stubborn = `python3 -c 'import signal,sys,time
signal.signal(signal.SIGINT, lambda *_: counts.append(1))
counts = []
open(sys.argv[1], "w").close()
while len(counts) < 3: time.sleep(0.01)' $ON`;
    for (let round = 0; round < 3; round += 1) {
      expect((await victim.cancelled(stubborn)).status).toBe('cancelled');
      const next = await begin(server, 'echo next', { session: victim.session });
      expect((await ended(server, next)).observation?.content).toBe('next');
      expect(outputOf(await eventsOf(server, next)).trim()).toBe('next');
    }
  });

  test('an interrupt that comes when the command has ended does not show in the next answer', async () => {
    const victim = await new Victim().prepare();
    // It ends between two interrupts, by itself.
    const script = `trap "" INT; touch "$1"; sleep 0.3`;
    for (let round = 0; round < 4; round += 1) {
      await victim.cancelled(`bash -c '${script}' - $ON`);
      expect((await victim.shell.run('echo next')).content).toBe('next');
    }
  });

  test('the lane goes on with what waited', async () => {
    const victim = await new Victim().prepare();
    const id = await begin(server, 'sleep 100', { session: victim.session });
    const next = await begin(server, 'echo $plain', { session: victim.session });
    await cancel(server, id);
    expect(await ended(server, next)).toMatchObject({ status: 'finished', observation: { content: 'one' } });
  });
});

describe('the shell goes too, and the next command has a new one', () => {
  test.each([
    ['a loop that ignores INT', 'trap "" INT; touch $ON; while :; do :; done'],
    ['a loop of deaf programs', `trap "" INT TERM; while :; do touch $ON; sleep 0.01; done`],
    ['exec', `exec bash -c 'trap "" INT TERM; touch "$1"; while :; do :; done' - $ON`],
  ])('%s', async (_, command) => {
    const victim = await new Victim().prepare();
    const over = await victim.cancelled(command);
    expect(over.status).toBe('cancelled');
    expect(metadataOf(over).suffix).toContain('The command was cancelled.');
    await expectReplaced(victim);
  });
});

describe('other kinds of commands', () => {
  test('a static one', async () => {
    const mark = newMark();
    const id = await begin(server, `sleep ${mark}`, { is_static: true });
    await until('it runs', () => processesWith(`sleep ${mark}`).length > 0);
    expect((await cancel(server, id)).status).toBe('cancelled');
    expect(processesWith(mark)).toEqual([]);
  });

  test('a hidden one: nothing of it is recorded', async () => {
    const victim = await new Victim().prepare();
    const over = await victim.cancelled('echo whispered; touch $ON; sleep 100', true);
    expect(over).toMatchObject({ status: 'cancelled', observation: { observation: 'run', content: '' } });
    await expectIntact(victim);
    const { json } = await server.request('GET', `/events?limit=1000&action_id=${over.action_id}`);
    expect(JSON.stringify(json)).not.toContain('whispered');
  });

  test('a poll of a program that runs on: the program ends', async () => {
    const victim = await new Victim().prepare();
    const mark = newMark();
    const first = await victim.shell.run(`echo begun; sleep ${mark}`, { timeout: 1 });
    expect(first).toMatchObject({ exitCode: -1, content: 'begun' });
    const poll = await begin(server, '', { session: victim.session });
    await until('the poll runs', async () => {
      const { json } = await server.request('GET', '/actions?status=running');
      return (json.actions as { action_id: string }[]).some(({ action_id: id }) => id === poll);
    });
    expect((await cancel(server, poll)).status).toBe('cancelled');
    expect(processesWith(mark)).toEqual([]);
    await expectIntact(victim);
  });

  test('one that was answered while its program runs on is over: nothing happens to the program', async () => {
    const victim = await new Victim().prepare();
    const mark = newMark();
    const first = await victim.shell.run(`sleep ${mark}`, { timeout: 1 });
    expect(first.exitCode).toBe(-1);
    expect((await cancel(server, first.body.action_id as string)).status).toBe('finished');
    expect(processesWith(`sleep ${mark}`).length).toBeGreaterThan(0);
    await victim.shell.input('C-c');
    await expectIntact(victim);
  });
});
