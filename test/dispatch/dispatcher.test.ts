import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { Actions } from '../../src/dispatch/actions.ts';
import type { Call, IdempotencyKey } from '../../src/dispatch/call.ts';
import { type CallSummary, Dispatcher, type DispatcherOptions, type Refusal } from '../../src/dispatch/dispatcher.ts';
import type { Reply } from '../../src/dispatch/reply.ts';
import type { ActionContext, ActionResult, AnyExecutor, SubsystemHealth } from '../../src/dispatch/executor.ts';
import { History } from '../../src/dispatch/history.ts';
import { idempotencyOf } from '../../src/dispatch/idempotency.ts';
import { type EventWriter, Journal } from '../../src/dispatch/journal.ts';
import { EventLog } from '../../src/events/event-log.ts';
import type { LoggedEvent, NewEvent } from '../../src/events/types.ts';
import { type Action, parseAction } from '../../src/protocol/actions.ts';
import type { SessionInfo } from '../../src/protocol/http.ts';
import { DEFAULT_METADATA, runObservation } from '../../src/protocol/observations.ts';
import { Secrets } from '../../src/sandbox/secrets.ts';
import { until } from '../support/wait.ts';

type Ending = { readonly content: string } | { readonly fault: unknown };

/**
 * Serves `run`. `wait` ends when told to by `end`, or with its signal; `throw` throws at once, `reject` later, `emit` says something
 * first; anything else is answered with itself.
 */
class EchoExecutor implements AnyExecutor {
  readonly name = 'echo';
  readonly actionTypes = ['run'] as const;
  /** In the order in which they were begun. */
  readonly begun: string[] = [];
  readonly contexts: ActionContext[] = [];
  readonly #waiting = new Map<string, (ending: Ending) => void>();

  laneOf(action: Action): string | undefined {
    const { session, is_static: isStatic } = runArgs(action);
    return isStatic ? undefined : session;
  }

  execute(action: Action, context: ActionContext): Promise<ActionResult> {
    const { command } = runArgs(action);
    this.begun.push(command);
    this.contexts.push(context);
    if (command === 'throw') throw new Error('thrown at once');
    if (command === 'reject') return Promise.reject(new Error('rejected later'));
    // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- a third party's executor may do it
    if (command === 'nonsense') return Promise.reject('no error at all');
    if (command.startsWith('emit')) context.emit?.('live');
    if (!command.startsWith('wait')) return Promise.resolve(result(command));
    return new Promise((resolve, reject) => {
      const finish = (ending: Ending): void => {
        this.#waiting.delete(command);
        // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- a third party's executor may do it
        if ('fault' in ending) reject(ending.fault);
        else resolve(result(ending.content));
      };
      this.#waiting.set(command, finish);
      context.signal.addEventListener('abort', () => finish({ content: `aborted: ${String(context.signal.reason)}` }));
      if (context.signal.aborted) finish({ content: `aborted before: ${String(context.signal.reason)}` });
    });
  }

  end(command: string, ending: Ending = { content: command }): void {
    const finish = this.#waiting.get(command);
    if (!finish) throw new Error(`${command} does not wait`);
    finish(ending);
  }

  start(): Promise<void> {
    return Promise.resolve();
  }

  stop(): Promise<void> {
    return Promise.resolve();
  }

  health(): SubsystemHealth {
    return { status: 'ready' };
  }

  sessions(): SessionInfo[] {
    return [];
  }

  closeSession(): Promise<boolean> {
    return Promise.resolve(false);
  }
}

function runArgs(action: Action): Extract<Action, { action: 'run' }>['args'] {
  if (action.action !== 'run') throw new Error(`not a run: ${action.action}`);
  return action.args;
}

function result(content: string): ActionResult {
  return {
    observation: runObservation({
      command: '',
      content,
      metadata: { ...DEFAULT_METADATA, exit_code: 0 },
      hidden: false,
    }),
  };
}

function actionOf(input: object): Action {
  const parsed = parseAction(input);
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed.action;
}

function run(command: string, args: object = {}): Action {
  return actionOf({ action: 'run', args: { command, ...args } });
}

/** Stands before the log: holds back what is flushed until told, or fails. */
class Gate implements EventWriter {
  readonly #log: EventLog;
  readonly told: string[] = [];
  readonly held: (() => void)[] = [];
  isHolding = false;
  /** Kinds of events that cannot be written. */
  failing: readonly string[] = [];
  /** Kinds of events that are not taken at all. */
  refused: readonly string[] = [];
  readonly #failed = new Set<number>();

  constructor(log: EventLog) {
    this.#log = log;
  }

  append(event: NewEvent): number {
    this.told.push(event.kind === 'output' ? `output ${String(event['text'])}` : event.kind);
    if (this.refused.includes(event.kind)) return -1;
    const seq = this.#log.append(event);
    if (this.failing.includes(event.kind)) this.#failed.add(seq);
    return seq;
  }

  async flush(seq?: number): Promise<void> {
    if (seq !== undefined && this.#failed.has(seq)) throw Object.assign(new Error('disk full'), { code: 'ENOSPC' });
    await this.#log.flush(seq);
    if (this.isHolding) await new Promise<void>((resolve) => this.held.push(resolve));
  }
}

interface Setup {
  readonly executor: EchoExecutor;
  readonly dispatcher: Dispatcher;
  readonly summaries: CallSummary[];
  readonly log: EventLog;
  readonly gate: Gate;
  readonly history: History;
  readonly actions: Actions;
  readonly send: (command: string, args?: object) => Promise<Reply>;
}

interface SetupOptions {
  readonly executor?: EchoExecutor;
  readonly directory?: string;
  readonly maxInFlight?: number;
  readonly overload?: () => string | undefined;
  /** Values to mask. */
  readonly secret?: readonly string[];
  readonly onSummary?: NonNullable<DispatcherOptions['onSummary']>;
}

const opened: { log: EventLog; directory: string }[] = [];

afterEach(async () => {
  for (const { log, directory } of opened.splice(0)) {
    await log.close();
    rmSync(directory, { recursive: true, force: true });
  }
});

async function setUp(options: SetupOptions = {}): Promise<Setup> {
  const { executor = new EchoExecutor(), maxInFlight = 100, overload } = options;
  const directory = options.directory ?? mkdtempSync(join(tmpdir(), 'actiond-dispatch-'));
  const log = await EventLog.open({ directory, maxBytes: 2 ** 26, maxAgeMs: 1e12 });
  opened.push({ log, directory });
  const gate = new Gate(log);
  const history = new History(log);
  const secrets = new Secrets([]);
  for (const value of options.secret ?? []) secrets.add(value);
  const summaries: CallSummary[] = [];
  const dispatcher = new Dispatcher({
    executors: [executor],
    journal: new Journal({ writer: gate, secrets, maxOutputBytes: 1_000_000 }),
    history,
    maxInFlight,
    unavailable: (type) => `nobody serves ${type}`,
    onSummary: options.onSummary ?? ((summary) => summaries.push(summary)),
    ...(overload ? { overload } : {}),
  });
  const send = (command: string, args?: object): Promise<Reply> => replyTo(dispatcher, run(command, args));
  const actions = new Actions(dispatcher, history, secrets);
  return { executor, dispatcher, summaries, log, gate, history, actions, send };
}

function replyTo(dispatcher: Dispatcher, action: Action, idempotency?: IdempotencyKey): Promise<Reply> {
  const outcome = dispatcher.dispatch({ action, idempotency });
  if (outcome.kind === 'refused') throw new Error(outcome.why);
  return outcome.reply;
}

function refusalOf(dispatcher: Dispatcher, action: Action, idempotency?: IdempotencyKey): Refusal | undefined {
  const outcome = dispatcher.dispatch({ action, idempotency });
  return outcome.kind === 'refused' ? outcome.why : undefined;
}

const contentOf = async (reply: Promise<Reply>): Promise<string> => (await reply).observation.content;

/** So many actions have been begun by the executor, at least. */
const begun = (executor: EchoExecutor, count: number): Promise<void> =>
  until(`${count} begun`, () => executor.begun.length >= count);

/** All that can happen without a timer or a descriptor has happened. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function eventsOf(log: EventLog): Promise<LoggedEvent[]> {
  const events = await log.read(0, { maxEvents: 10_000, maxBytes: 2 ** 26 });
  return events.map(({ json }) => JSON.parse(json.toString()) as LoggedEvent);
}

describe('lanes', () => {
  test('one lane: in order, one at a time', async () => {
    const { executor, send } = await setUp();
    const replies = ['wait 1', 'wait 2', 'three'].map((command) => send(command));
    await begun(executor, 1);
    await settle();
    expect(executor.begun).toEqual(['wait 1']);
    executor.end('wait 1');
    await begun(executor, 2);
    expect(executor.begun).toEqual(['wait 1', 'wait 2']);
    executor.end('wait 2');
    expect(await Promise.all(replies.map(contentOf))).toEqual(['wait 1', 'wait 2', 'three']);
  });

  test('different lanes, and actions without one, run side by side', async () => {
    const { executor, dispatcher, send } = await setUp();
    const slow = send('wait a', { session: 'a' });
    expect(await contentOf(send('b', { session: 'b' }))).toBe('b');
    const free = [send('wait free 1', { is_static: true }), send('wait free 2', { is_static: true })];
    await begun(executor, 4);
    expect(executor.begun).toEqual(['wait a', 'b', 'wait free 1', 'wait free 2']);
    expect(dispatcher.running).toBe(3);
    for (const command of ['wait free 2', 'wait free 1', 'wait a']) executor.end(command);
    expect(await Promise.all([slow, ...free].map(contentOf))).toEqual(['wait a', 'wait free 1', 'wait free 2']);
  });

  test('a fault does not stop the lane', async () => {
    const { executor, send } = await setUp();
    const [first, second] = [send('wait'), send('after')];
    await begun(executor, 1);
    executor.end('wait', { fault: new Error('boom') });
    expect((await first).observation.observation).toBe('error');
    expect(await contentOf(second)).toBe('after');
  });

  test('1,000 actions on ten lanes keep the order of each', async () => {
    const { executor, send } = await setUp({ maxInFlight: 1000 });
    const sent = Array.from({ length: 1000 }, (_, index) => ({
      lane: `lane-${(index * 7) % 10}`,
      command: `${index}`,
    }));
    await Promise.all(sent.map(({ lane, command }) => send(command, { session: lane })));
    for (let lane = 0; lane < 10; lane += 1) {
      const expected = sent.filter((one) => one.lane === `lane-${lane}`).map(({ command }) => command);
      expect(executor.begun.filter((command) => expected.includes(command))).toEqual(expected);
    }
  });
});

describe('answers', () => {
  test('are the observation, with an id of their own and a duration', async () => {
    const { executor, send } = await setUp();
    const [a, b] = await Promise.all([send('a'), send('b')]);
    expect(a.observation.content).toBe('a');
    expect(a.action_id).not.toBe(b.action_id);
    expect(executor.contexts.map(({ actionId }) => actionId)).toEqual([a.action_id, b.action_id]);
    expect(a.duration_ms).toBeGreaterThanOrEqual(0);
  });

  test.each([
    ['throw', 'thrown at once'],
    ['reject', 'rejected later'],
    ['nonsense', 'no error at all'],
  ])('%s: an error that says what happened, never a rejection', async (command, text) => {
    const { send, summaries } = await setUp();
    const reply = await send(command);
    expect(reply.observation.observation).toBe('error');
    expect(reply.observation.content).toContain(text);
    expect(reply.observation.content).not.toMatch(/\n\s+at /);
    expect(summaries.map(({ outcome }) => outcome)).toEqual(['crashed']);
    expect(summaries[0]?.cause).toBeDefined();
    const hidden = await send(command, { hidden: true });
    expect(hidden.observation).toMatchObject({
      observation: 'run',
      extras: { hidden: true, metadata: { exit_code: -1 } },
    });
  });

  test('a type that nobody serves', async () => {
    const { dispatcher, summaries } = await setUp();
    const reply = await replyTo(dispatcher, actionOf({ action: 'think', args: {} }));
    expect(reply.observation).toMatchObject({ observation: 'error', content: 'nobody serves think' });
    expect(summaries.map(({ outcome }) => outcome)).toEqual(['error']);
  });

  test('times are told apart: in the queue, at work', async () => {
    const { executor, send, summaries } = await setUp();
    const [first, second] = [send('wait'), send('quick')];
    await begun(executor, 1);
    executor.end('wait');
    await Promise.all([first, second]);
    expect(summaries.map(({ call }) => call.action.action)).toEqual(['run', 'run']);
    expect(summaries[1]?.queuedMs).toBeGreaterThanOrEqual(summaries[0]?.durationMs ?? Infinity);
    expect(executor.contexts[1]?.arrivedAt).toBeLessThan(performance.now());
  });
});

describe('limits', () => {
  test('beyond maxInFlight actions are refused, those that wait count', async () => {
    const { executor, dispatcher, send } = await setUp({ maxInFlight: 3 });
    const replies = [
      send('wait a', { session: 'a' }),
      send('wait b', { session: 'b' }),
      send('queued', { session: 'b' }),
    ];
    expect(refusalOf(dispatcher, run('d', { session: 'd' }))).toBe('too-many');
    expect(refusalOf(dispatcher, run('e', { is_static: true }))).toBe('too-many');
    await begun(executor, 2);
    expect([dispatcher.inFlight, dispatcher.running]).toEqual([3, 2]);
    executor.end('wait a');
    await replies[0];
    expect(await contentOf(send('d', { session: 'd' }))).toBe('d');
    executor.end('wait b');
    await Promise.all(replies);
    expect(executor.begun).toEqual(['wait a', 'wait b', 'd', 'queued']);
  });

  test('without room in the sandbox nothing is begun, and the answer says why', async () => {
    let shortage: string | undefined = 'no memory is left';
    const { executor, dispatcher, send, log } = await setUp({ overload: () => shortage });
    const refused = dispatcher.dispatch({ action: run('a') });
    expect(refused).toEqual({ kind: 'refused', why: 'overloaded', detail: 'no memory is left' });
    await log.flush();
    expect(await eventsOf(log)).toEqual([]);
    shortage = undefined;
    expect(await contentOf(send('b'))).toBe('b');
    expect(executor.begun).toEqual(['b']);
  });

  test('idle only while nothing runs or waits', async () => {
    const { executor, dispatcher, send } = await setUp();
    const [first, second] = [send('wait'), send('wait too')];
    await begun(executor, 1);
    expect([dispatcher.idleSeconds, dispatcher.running]).toEqual([0, 1]);
    executor.end('wait');
    await first;
    expect(dispatcher.idleSeconds).toBe(0);
    await begun(executor, 2);
    executor.end('wait too');
    await second;
    await settle();
    expect(dispatcher.running).toBe(0);
    expect(dispatcher.idleSeconds).toBeGreaterThan(0);
  });
});

describe('stop', () => {
  test('aborts what runs and what waits, answers all, refuses new ones', async () => {
    const { executor, dispatcher, send } = await setUp();
    const replies = [send('wait 1'), send('wait 2'), send('wait free', { is_static: true })];
    await begun(executor, 2);
    const stopped = dispatcher.stop(10_000);
    expect(refusalOf(dispatcher, run('late'))).toBe('shutting-down');
    await stopped;
    expect(await Promise.all(replies.map(contentOf))).toEqual([
      'aborted: shutdown',
      'The server is shutting down; the action was not started.',
      'aborted: shutdown',
    ]);
    expect(executor.begun).toEqual(['wait 1', 'wait free']);
    expect(executor.contexts.every(({ signal }) => signal.aborted)).toBe(true);
    expect(dispatcher.running).toBe(0);
  });

  test('resolves at once when idle, and after the limit when an executor does not listen', async () => {
    await (await setUp()).dispatcher.stop(60_000);
    const deaf = new EchoExecutor();
    let isBegun = false;
    deaf.execute = () => {
      isBegun = true;
      return new Promise(() => undefined);
    };
    const { dispatcher } = await setUp({ executor: deaf });
    void dispatcher.dispatch({ action: run('never ends') });
    await until('the action is at work', () => isBegun);
    await dispatcher.stop(50);
    expect(dispatcher.running).toBe(1);
  });
});

describe('the record', () => {
  test('execution waits for the action to be on disk, the answer for the observation', async () => {
    const { executor, gate, log, send } = await setUp();
    gate.isHolding = true;
    let isAnswered = false;
    const reply = send('emit').finally(() => (isAnswered = true));
    await until('the action is held', () => gate.held.length === 1);
    expect([gate.told, executor.begun, log.extent.latest]).toEqual([['action'], [], 1]);
    gate.held.shift()?.();
    await until('the observation is held', () => gate.held.length === 1);
    expect(gate.told).toEqual(['action', 'output live', 'observation']);
    expect([isAnswered, log.extent.latest]).toEqual([false, 3]);
    gate.held.shift()?.();
    await reply;
  });

  test('events of an action have its id, its lane, its status and its times', async () => {
    const { log, send } = await setUp();
    const reply = await send('emit', { session: 'lane' });
    const events = await eventsOf(log);
    expect(events.map(({ seq, kind, action_id: id, lane }) => ({ seq, kind, id, lane }))).toEqual([
      { seq: 1, kind: 'action', id: reply.action_id, lane: 'lane' },
      { seq: 2, kind: 'output', id: reply.action_id, lane: 'lane' },
      { seq: 3, kind: 'observation', id: reply.action_id, lane: 'lane' },
    ]);
    expect(events[0]).toMatchObject({ source: 'agent', action: { action: 'run', args: { command: 'emit' } } });
    expect(events[2]).toMatchObject({
      status: 'finished',
      duration_ms: reply.duration_ms,
      observation: reply.observation,
    });
    expect(Date.parse(String(events[2]?.['started']))).toBeLessThanOrEqual(Date.parse(events[2]?.time ?? ''));
  });

  test('a hidden action has no live output, no command and no text', async () => {
    const { log, send } = await setUp();
    const reply = await send('emit 4711', { hidden: true });
    expect(reply.observation.content).toBe('emit 4711');
    const events = await eventsOf(log);
    expect(events.map(({ kind }) => kind)).toEqual(['action', 'observation']);
    expect(JSON.stringify(events)).not.toContain('4711');
    expect(events[0]?.['action']).toEqual({ action: 'run', args: { hidden: true } });
  });

  test('an action that cannot be recorded is not begun; the next one is when the disk works again', async () => {
    const { executor, dispatcher, gate, send, summaries } = await setUp({ maxInFlight: 1 });
    gate.failing = ['action'];
    const reply = await send('one');
    expect(reply.observation.observation).toBe('error');
    expect(reply.observation.content).toMatch(/not started.*could not be recorded.*free space.*disk full/);
    expect(executor.begun).toEqual([]);
    expect([dispatcher.running, dispatcher.inFlight]).toEqual([0, 0]);
    gate.failing = [];
    expect(await contentOf(send('two'))).toBe('two');
    expect(summaries.map(({ outcome }) => outcome)).toEqual(['error', 'ok']);
    await dispatcher.stop(60_000);
  });

  test('a hidden one that cannot be recorded gets the kind of observation that its client can take', async () => {
    const { gate, send } = await setUp();
    gate.failing = ['action'];
    const { observation } = await send('one', { hidden: true });
    expect(observation).toMatchObject({ observation: 'run', extras: { hidden: true } });
    expect(observation.content).toMatch(/^ERROR: .*could not be recorded/);
  });

  test('an observation that cannot be recorded is answered all the same', async () => {
    const { dispatcher, gate, send, summaries } = await setUp({ maxInFlight: 1 });
    gate.failing = ['observation'];
    expect(await contentOf(send('one'))).toBe('one');
    expect(summaries.map(({ outcome }) => outcome)).toEqual(['unrecorded']);
    expect([dispatcher.running, dispatcher.inFlight]).toEqual([0, 0]);
    gate.failing = [];
    expect(await contentOf(send('two'))).toBe('two');
    await dispatcher.stop(60_000);
  });

  test('an observation that cannot be recorded is answered without its secrets', async () => {
    const { gate, send } = await setUp({ secret: ['do-not-show-this'] });
    gate.failing = ['observation'];
    expect(await contentOf(send('it is do-not-show-this'))).toBe('it is <secret_hidden>');
  });

  test.each([
    ['observation', 'one', 'one'],
    ['action', 'could not be recorded', ''],
  ])('an action whose %s cannot be recorded is over all the same, with its answer', async (kind, text, recorded) => {
    const { actions, gate, send } = await setUp();
    gate.refused = [kind];
    const { action_id: id } = await send('one');
    expect(await actions.get(id, 0)).toMatchObject({
      status: 'finished',
      action: { args: { command: 'one' } },
      observation: { content: expect.stringContaining(text) },
    });
    const listed = await actions.list({ limit: 10 });
    expect(listed.map(({ status, action }) => [status, (action as Action).args])).toMatchObject(
      recorded === '' ? [] : [['finished', { command: recorded }]],
    );
  });

  test('a hidden action whose observation cannot be recorded is shown without text', async () => {
    const { actions, gate, send } = await setUp();
    gate.failing = ['observation'];
    const { action_id: id } = await send('echo 4711', { hidden: true });
    const shown = await actions.get(id, 0);
    expect(shown?.status).toBe('finished');
    expect(JSON.stringify(shown)).not.toContain('4711');
  });

  test('nothing is recorded of an action that the log does not take', async () => {
    const { gate, send, executor } = await setUp();
    gate.refused = ['action'];
    for (let n = 0; n < 3; n += 1) expect(await contentOf(send('one'))).toContain('could not be recorded');
    expect([gate.told, executor.begun]).toEqual([['action', 'action', 'action'], []]);
  });

  test('an observation that cannot be looked through is an error', async () => {
    const { dispatcher, executor, send } = await setUp({ secret: ['do-not-show-this'] });
    const endless: { self?: object } = {};
    endless.self = endless;
    executor.execute = () => Promise.resolve({ ...result('x'), outputs: [endless] });
    const { observation } = await send('x');
    expect([observation.observation, observation.content]).toEqual([
      'error',
      expect.stringContaining('cannot be shown'),
    ]);
    expect(dispatcher.inFlight).toBe(0);
  });
});

describe('repeats', () => {
  const key = (command: string, header = 'k', args: object = {}): IdempotencyKey =>
    idempotencyOf(run(command, args), header) as IdempotencyKey;

  test('join the one in flight: one execution, one answer', async () => {
    const { executor, dispatcher } = await setUp();
    const first = dispatcher.dispatch({ action: run('wait'), idempotency: key('wait') });
    const second = dispatcher.dispatch({ action: run('wait'), idempotency: key('wait') });
    await begun(executor, 1);
    const third = dispatcher.dispatch({ action: run('wait'), idempotency: key('wait') });
    expect([first, second, third]).toMatchObject([{ isReplay: false }, { isReplay: true }, { isReplay: true }]);
    executor.end('wait');
    const replies = await Promise.all(
      [first, second, third].flatMap((one) => (one.kind === 'accepted' ? [one.reply] : [])),
    );
    expect(replies[1]).toEqual(replies[0]);
    expect(replies[2]).toEqual(replies[0]);
    expect(executor.begun).toEqual(['wait']);
  });

  test('get the recorded answer, from memory and from the log', async () => {
    const { executor, dispatcher, send } = await setUp();
    const first = await replyTo(dispatcher, run('a'), key('a'));
    expect(await replyTo(dispatcher, run('a'), key('a'))).toEqual(first);
    // More than are kept in memory.
    for (let n = 0; n < 100; n += 1) await send(`filler ${n}`);
    expect(await replyTo(dispatcher, run('a'), key('a'))).toEqual(first);
    expect(executor.begun.filter((command) => command === 'a')).toHaveLength(1);
  });

  test('take no room: a full server answers them, and so does one that stops', async () => {
    const { executor, dispatcher } = await setUp({ maxInFlight: 1, overload: () => undefined });
    const first = replyTo(dispatcher, run('wait'), key('wait'));
    expect(refusalOf(dispatcher, run('other'))).toBe('too-many');
    const joined = replyTo(dispatcher, run('wait'), key('wait'));
    await begun(executor, 1);
    const stopped = dispatcher.stop(60_000);
    const late = replyTo(dispatcher, run('wait'), key('wait'));
    await stopped;
    expect(await joined).toEqual(await first);
    expect(await late).toEqual(await first);
  });

  test('with another body are refused, in flight and later', async () => {
    const { executor, dispatcher } = await setUp();
    const first = replyTo(dispatcher, run('wait'), key('wait'));
    expect(refusalOf(dispatcher, run('b'), key('b'))).toBe('key-reused');
    expect(refusalOf(dispatcher, run('wait', { session: 'x' }), key('wait', 'k', { session: 'x' }))).toBe('key-reused');
    await begun(executor, 1);
    executor.end('wait');
    await first;
    expect(refusalOf(dispatcher, run('b'), key('b'))).toBe('key-reused');
    expect(executor.begun).toEqual(['wait']);
  });

  test('get the answer that could not be recorded', async () => {
    const { executor, dispatcher, gate } = await setUp();
    gate.refused = ['observation'];
    const first = await replyTo(dispatcher, run('a'), key('a'));
    expect(await replyTo(dispatcher, run('a'), key('a'))).toEqual(first);
    expect(executor.begun).toEqual(['a']);
  });

  test('of an action that was not begun for want of a record may be begun', async () => {
    const { executor, dispatcher, gate, log } = await setUp();
    gate.failing = ['action', 'observation'];
    expect((await replyTo(dispatcher, run('a'), key('a'))).observation.observation).toBe('error');
    gate.failing = [];
    await log.flush();
    await replyTo(dispatcher, run('a'), key('a'));
    // At most once, whatever the log kept meanwhile.
    expect(executor.begun.length).toBeLessThanOrEqual(1);
  });

  test('are known after a reopening of the log', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'actiond-dispatch-'));
    const one = await setUp({ directory });
    const first = await replyTo(one.dispatcher, run('a'), key('a'));
    await one.log.close();
    const two = await setUp({ directory });
    const again = two.dispatcher.dispatch({ action: run('a'), idempotency: key('a') });
    expect(again).toMatchObject({ kind: 'accepted', isReplay: true, id: first.action_id });
    expect(again.kind === 'accepted' && (await again.reply)).toEqual(first);
    expect(refusalOf(two.dispatcher, run('b'), key('b'))).toBe('key-reused');
    expect(two.executor.begun).toEqual([]);
  });
});

describe('cancel', () => {
  const idsOf = (dispatcher: Dispatcher): string[] => dispatcher.calls().map(({ id }: Call) => id);

  test('one that waits is answered at once and never begun; the later ones run', async () => {
    const { executor, dispatcher, send, summaries, log } = await setUp();
    const [first, second, third] = ['wait 1', 'two', 'three'].map((command) => send(command));
    await begun(executor, 1);
    const [, id = ''] = idsOf(dispatcher);
    expect(await dispatcher.cancel(id)).toBe(true);
    expect((await second)?.observation).toMatchObject({
      observation: 'error',
      content: 'The action was cancelled before it started.',
    });
    expect(executor.begun).toEqual(['wait 1']);
    executor.end('wait 1');
    expect(await Promise.all([first, third].map((reply) => contentOf(reply as Promise<Reply>)))).toEqual([
      'wait 1',
      'three',
    ]);
    expect(executor.begun).toEqual(['wait 1', 'three']);
    expect(summaries.map(({ outcome }) => outcome)).toEqual(['cancelled', 'ok', 'ok']);
    expect([dispatcher.running, dispatcher.inFlight]).toEqual([0, 0]);
    const ends = (await eventsOf(log)).filter(({ kind, action_id: of }) => kind === 'observation' && of === id);
    expect(ends).toMatchObject([{ status: 'cancelled' }]);
  });

  test('one at work ends by its executor', async () => {
    const { executor, dispatcher, send, summaries, history } = await setUp();
    const reply = send('wait');
    await begun(executor, 1);
    const [id = ''] = idsOf(dispatcher);
    expect(await Promise.all([dispatcher.cancel(id), dispatcher.cancel(id)])).toEqual([true, true]);
    expect(await contentOf(reply)).toBe('aborted: cancel');
    expect(summaries.map(({ outcome }) => outcome)).toEqual(['cancelled']);
    expect(await history.record(id)).toMatchObject({ status: 'cancelled' });
    expect(await dispatcher.cancel(id)).toBe(false);
  });

  test('one that is being recorded is not begun', async () => {
    const { executor, dispatcher, gate, send } = await setUp();
    gate.isHolding = true;
    const reply = send('emit');
    await until('the action is held', () => gate.held.length === 1);
    const cancelled = dispatcher.cancel(idsOf(dispatcher)[0] ?? '');
    gate.isHolding = false;
    for (const release of gate.held.splice(0)) release();
    await cancelled;
    await reply;
    expect(executor.begun).toEqual([]);
  });

  test('unknown: false', async () => {
    const { dispatcher } = await setUp();
    expect(await dispatcher.cancel('nobody')).toBe(false);
  });

  test('twice while it waits: one observation', async () => {
    const { executor, dispatcher, send, log } = await setUp();
    const [first] = [send('wait'), send('two')];
    await begun(executor, 1);
    const [, id = ''] = idsOf(dispatcher);
    await Promise.all([dispatcher.cancel(id), dispatcher.cancel(id)]);
    executor.end('wait');
    await first;
    const ends = (await eventsOf(log)).filter(({ kind, action_id: of }) => kind === 'observation' && of === id);
    expect(ends).toHaveLength(1);
  });
});

describe('faults around the executor', () => {
  test('a lane that cannot be told', async () => {
    const executor = new EchoExecutor();
    executor.laneOf = () => {
      throw new Error('no lane');
    };
    const { dispatcher } = await setUp({ executor, maxInFlight: 1 });
    for (let round = 0; round < 2; round += 1) {
      expect((await replyTo(dispatcher, run('x'))).observation.observation).toBe('error');
    }
  });

  test('a summary that throws', async () => {
    const onSummary = (): never => {
      throw new Error('log is full');
    };
    const { dispatcher } = await setUp({ maxInFlight: 1, onSummary });
    expect(await contentOf(replyTo(dispatcher, run('x')))).toBe('x');
    expect(await contentOf(replyTo(dispatcher, run('y')))).toBe('y');
  });
});
