/**
 * `kill -9` of the daemon at random moments under a load of mixed actions. After every restart: what was acknowledged is in the log,
 * the log has no gap, nothing stays open, and an action that is sent again with its key has run at most once.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Build, Daemon } from '../support/built-server.ts';
import { DurableClient, type Sent } from '../support/durable-client.ts';
import type { ShownAction } from '../support/actions.ts';
import { randomOf, type Random } from '../support/random.ts';
import { until } from '../support/wait.ts';

const ROUNDS = 50;
/** From the first action to the kill. */
const MAX_LIFE_MS = 350;
const SESSIONS = ['default', 'second', 'third'] as const;
const INTERRUPTED = /it was interrupted(, and how far it came is not known| before it began)/;
const NOT_BEGUN = /interrupted before it began/;

let build: Build;
beforeAll(() => {
  build = new Build();
});
afterAll(() => build[Symbol.dispose]());

/** One state directory and the daemons that use it, one after another. */
class World {
  readonly random: Random;
  readonly state = build.directory('crash-state');
  readonly work = build.directory('crash-work');
  /** Without start-up files of a shell. */
  readonly home = build.directory('crash-home');
  readonly ledger = join(this.work, 'ledger');
  readonly sent: Sent[] = [];
  stream: string | undefined;
  counter = 0;

  constructor(seed: number) {
    this.random = randomOf(seed);
  }

  start(): Daemon {
    const args = ['0', '--state-dir', this.state, '--working-dir', this.work, '--log-level', 'info'];
    return new Daemon(build, args, { cwd: this.work, env: { HOME: this.home } });
  }

  /** How often each action has left its mark. */
  marks(): Map<string, number> {
    const marks = new Map<string, number>();
    const text = existsSync(this.ledger) ? readFileSync(this.ledger, 'utf8') : '';
    for (const line of text.split('\n').filter(Boolean)) marks.set(line, (marks.get(line) ?? 0) + 1);
    return marks;
  }

  /** Some action, of which `mark` is written to the ledger when it runs. */
  next(session: string): Sent {
    this.counter += 1;
    const mark = `mark-${this.counter}-${session}`;
    const key = `key-${this.counter}`;
    const leaveMark = `echo ${mark} >> ${this.ledger}; echo out-${mark}`;
    const pause = (this.random() * 0.06).toFixed(3);
    const run = (command: string, args: object = {}): object => ({
      action: 'run',
      args: { command, session, blocking: true, ...args },
      timeout: 30,
    });
    const kind = this.random();
    if (kind < 0.4) return { mark, key, action: run(leaveMark) };
    if (kind < 0.55) return { mark, key, action: run(`sleep ${pause}; ${leaveMark}`) };
    if (kind < 0.65) return { mark, key, action: run(`${leaveMark}; sleep ${pause}; echo end`) };
    if (kind < 0.75)
      return { mark, key, action: run(`: hidden-${mark}; ${leaveMark}`, { hidden: true }), isHidden: true };
    if (kind < 0.85) return { mark, key, action: run(`sleep ${pause}; ${leaveMark}`), isAsync: true };
    if (kind < 0.92)
      return {
        mark,
        key,
        action: {
          action: 'write',
          args: { path: join(this.work, `file-${this.counter % 7}`), content: `out-${mark}` },
        },
      };
    // As a client of V0 names it.
    const named = { ...run(leaveMark), id: this.counter, timestamp: `2026-01-01T00:00:00.${this.counter}` };
    return { mark, key: undefined, action: named };
  }
}

/** Sends one action after another until the daemon is gone. */
async function work(world: World, client: DurableClient, session: string): Promise<void> {
  for (;;) {
    const sent = world.next(session);
    world.sent.push(sent);
    const answer = await client.send(sent);
    if (!answer) return;
    sent.answer = answer;
    expect(answer.isReplay).toBe(false);
  }
}

/** All that the log must show whatever happened before. */
async function checkLog(world: World, client: DurableClient): Promise<Map<string, string>> {
  const { stream, oldest, latest, events } = await client.wholeLog();
  world.stream ??= stream;
  expect(stream).toBe(world.stream);
  expect(events.map(({ seq }) => seq)).toEqual(
    Array.from({ length: latest - oldest + 1 }, (_, index) => oldest + index),
  );
  const begun = new Set<string>();
  const ends = new Map<string, string>();
  for (const event of events) {
    const id = event.action_id ?? '';
    if (event.kind === 'action') begun.add(id);
    if (event.kind === 'output') expect([begun.has(id), ends.has(id)], `output ${event.seq}`).toEqual([true, false]);
    if (event.kind !== 'observation') continue;
    expect([begun.has(id), ends.has(id)], `observation ${event.seq}`).toEqual([true, false]);
    ends.set(id, String(event['status']));
  }
  expect(
    [...begun].filter((id) => !ends.has(id)),
    'left open',
  ).toEqual([]);
  expect(new Set(ends.values())).toSatisfy((states: Set<string>) =>
    [...states].every((state) => ['finished', 'interrupted'].includes(state)),
  );
  const observations = new Map(
    events.filter(({ kind }) => kind === 'observation').map((event) => [event.action_id, event]),
  );
  for (const { mark, answer, isHidden } of world.sent) {
    if (!answer) continue;
    expect(begun, mark).toContain(answer.actionId);
    if (answer.status === 202) continue;
    const recorded = observations.get(answer.actionId);
    if (!answer.wasResent) expect(recorded?.['status'], mark).toBe('finished');
    if (!isHidden)
      expect((recorded?.['observation'] as { content: string } | undefined)?.content, mark).toBe(answer.content);
  }
  expect(JSON.stringify(events)).not.toContain('hidden-mark');
  return ends;
}

/** Sends what has no answer again, and some of what has one. */
async function resend(world: World, client: DurableClient, ends: ReadonlyMap<string, string>): Promise<void> {
  const unanswered = world.sent.filter(({ answer }) => answer === undefined);
  for (const sent of unanswered) {
    const before = world.marks().get(sent.mark) ?? 0;
    const answer = await client.send({ ...sent, isAsync: false });
    if (!answer) throw new Error(`no answer to ${sent.mark}`);
    sent.answer = { ...answer, wasResent: true };
    const status = ends.get(answer.actionId);
    const isInterrupted = INTERRUPTED.test(answer.text);
    // Known already, and then recorded with an end; or never begun, and then it has run now.
    expect(answer.isReplay, sent.mark).toBe(status !== undefined);
    expect(isInterrupted, sent.mark).toBe(status === 'interrupted');
    if (NOT_BEGUN.test(answer.text)) expect(before, `${sent.mark} had begun`).toBe(0);
    if (!answer.isReplay) expect(before, `${sent.mark} had run without a record`).toBe(0);
  }
  const answered = world.sent.filter(({ answer }) => answer !== undefined);
  for (let n = 0; n < Math.min(5, answered.length); n += 1) {
    const sent = answered[Math.floor(world.random() * answered.length)] as Sent;
    const again = await client.send({ ...sent, isAsync: false });
    expect(again, sent.mark).toMatchObject({ isReplay: true, actionId: sent.answer?.actionId });
    // What a hidden action said is kept nowhere.
    if (sent.answer?.status === 200 && !sent.isHidden) expect(again?.content, sent.mark).toBe(sent.answer.content);
  }
}

function checkMarks(world: World): void {
  const marks = world.marks();
  expect(
    [...marks].filter(([, times]) => times > 1),
    'run twice',
  ).toEqual([]);
  for (const { mark, action, answer } of world.sent) {
    const isRun = (action as { action: string }).action === 'run';
    if (isRun && answer?.status === 200 && !INTERRUPTED.test(answer.text)) expect(marks.get(mark), mark).toBe(1);
  }
}

test('of a session the action at work and those that wait are told apart', async () => {
  const world = new World(1);
  const ids: string[] = [];
  {
    using daemon = world.start();
    const client = new DurableClient(await daemon.url());
    await client.alive();
    const mark = (name: string): string => `echo ${name} >> ${world.ledger}`;
    for (const command of [`sleep 0.2; ${mark('short')}`, `${mark('long')}; sleep 60`, mark('waits')]) {
      const action = { action: 'run', args: { command, blocking: true }, timeout: 100 };
      ids.push((await client.send({ mark: command, key: undefined, action, isAsync: true }))?.actionId ?? '');
    }
    await until('the second one runs', () => world.marks().has('long'));
    daemon.signal('SIGKILL');
    await daemon.exited;
  }
  using daemon = world.start();
  const url = await daemon.url();
  await new DurableClient(url).alive();
  const [short, long, waits] = await Promise.all(
    ids.map(async (id) => (await (await fetch(`${url}/actions/${id}`)).json()) as ShownAction),
  );
  expect([short?.status, long?.status, waits?.status]).toEqual(['finished', 'interrupted', 'interrupted']);
  expect(JSON.stringify(long?.observation)).toContain('how far it came is not known');
  expect(long?.started).toBe(short?.finished);
  expect(JSON.stringify(waits?.observation)).toMatch(NOT_BEGUN);
  expect(waits?.started).toBeNull();
  expect(world.marks().has('waits')).toBe(false);
});

test(`kill -9 at random moments, ${ROUNDS} times`, { timeout: 180_000 }, async () => {
  const seed = Number(process.env['CRASH_SEED'] ?? Date.now() % 1_000_000);
  process.stdout.write(`crash test of the daemon: CRASH_SEED=${seed}\n`);
  const world = new World(seed);
  let [interrupted, replayed] = [0, 0];
  for (let round = 0; round <= ROUNDS; round += 1) {
    using daemon = world.start();
    const client = new DurableClient(await daemon.url());
    await client.alive();
    const ends = await checkLog(world, client);
    interrupted = [...ends.values()].filter((status) => status === 'interrupted').length;
    expect(await client.open()).toEqual([]);
    await resend(world, client, ends);
    replayed = world.sent.filter(({ answer }) => answer?.wasResent && answer.isReplay).length;
    checkMarks(world);
    if (round === ROUNDS) break;
    const load = SESSIONS.map((session) => work(world, client, session));
    const kill = setTimeout(() => daemon.signal('SIGKILL'), world.random() * MAX_LIFE_MS);
    await Promise.all(load).finally(() => clearTimeout(kill));
    expect((await daemon.exited).signal).toBe('SIGKILL');
  }
  process.stdout.write(
    `crash test of the daemon: ${world.sent.length} actions, ${interrupted} interrupted, ${replayed} replayed\n`,
  );
  expect(world.sent.length).toBeGreaterThan(ROUNDS);
  // The moments were such that they tell something.
  expect(interrupted).toBeGreaterThan(0);
});
