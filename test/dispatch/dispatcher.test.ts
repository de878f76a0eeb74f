import { describe, expect, test } from 'vitest';
import { type Call, type CallRecorder, type CallSummary, Dispatcher, type Reply } from '../../src/dispatch/dispatcher.ts';
import type { ActionContext, ActionResult, AnyExecutor, SubsystemHealth } from '../../src/dispatch/executor.ts';
import { type Action, parseAction } from '../../src/protocol/actions.ts';
import type { SessionInfo } from '../../src/protocol/http.ts';
import { DEFAULT_METADATA, runObservation } from '../../src/protocol/observations.ts';

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
    if (command === 'nonsense') return Promise.reject('no error at all' as unknown as Error);
    if (command.startsWith('emit')) context.emit?.('live');
    if (!command.startsWith('wait')) return Promise.resolve(result(command));
    return new Promise((resolve, reject) => {
      const finish = (ending: Ending): void => {
        this.#waiting.delete(command);
        if ('fault' in ending) reject(ending.fault as Error);
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
  return { observation: runObservation({ command: '', content, metadata: { ...DEFAULT_METADATA, exit_code: 0 }, hidden: false }) };
}

function actionOf(input: object): Action {
  const parsed = parseAction(input);
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed.action;
}

function run(command: string, args: object = {}): Action {
  return actionOf({ action: 'run', args: { command, ...args } });
}

interface Setup {
  readonly executor: EchoExecutor;
  readonly dispatcher: Dispatcher;
  readonly summaries: CallSummary[];
  readonly send: (command: string, args?: object) => Promise<Reply>;
}

function setUp(options: { maxInFlight?: number; recorder?: CallRecorder } = {}): Setup {
  const executor = new EchoExecutor();
  const summaries: CallSummary[] = [];
  const dispatcher = new Dispatcher({
    executors: [executor],
    maxInFlight: options.maxInFlight ?? 100,
    unavailable: (type) => `nobody serves ${type}`,
    onSummary: (summary) => summaries.push(summary),
    ...(options.recorder ? { recorder: options.recorder } : {}),
  });
  const send = (command: string, args?: object): Promise<Reply> => {
    const answer = dispatcher.dispatch(run(command, args));
    if (typeof answer === 'string') throw new Error(answer);
    return answer;
  };
  return { executor, dispatcher, summaries, send };
}

const contentOf = async (reply: Promise<Reply>): Promise<string> => (await reply).observation.content;

/** All that can happen without a timer or a descriptor has happened. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('lanes', () => {
  test('one lane: in order, one at a time', async () => {
    const { executor, send } = setUp();
    const replies = ['wait 1', 'wait 2', 'three'].map((command) => send(command));
    await settle();
    expect(executor.begun).toEqual(['wait 1']);
    executor.end('wait 1');
    await settle();
    expect(executor.begun).toEqual(['wait 1', 'wait 2']);
    executor.end('wait 2');
    expect(await Promise.all(replies.map(contentOf))).toEqual(['wait 1', 'wait 2', 'three']);
  });

  test('different lanes, and actions without one, run side by side', async () => {
    const { executor, dispatcher, send } = setUp();
    const slow = send('wait a', { session: 'a' });
    expect(await contentOf(send('b', { session: 'b' }))).toBe('b');
    const free = [send('wait free 1', { is_static: true }), send('wait free 2', { is_static: true })];
    await settle();
    expect(executor.begun).toEqual(['wait a', 'b', 'wait free 1', 'wait free 2']);
    expect(dispatcher.running).toBe(3);
    for (const command of ['wait free 2', 'wait free 1', 'wait a']) executor.end(command);
    expect(await Promise.all([slow, ...free].map(contentOf))).toEqual(['wait a', 'wait free 1', 'wait free 2']);
  });

  test('a fault does not stop the lane', async () => {
    const { executor, send } = setUp();
    const [first, second] = [send('wait'), send('after')];
    await settle();
    executor.end('wait', { fault: new Error('boom') });
    expect((await first).observation.observation).toBe('error');
    expect(await contentOf(second)).toBe('after');
  });

  test('1,000 actions on ten lanes keep the order of each', async () => {
    const { executor, send } = setUp({ maxInFlight: 1000 });
    const sent = Array.from({ length: 1000 }, (_, index) => ({ lane: `lane-${(index * 7) % 10}`, command: `${index}` }));
    await Promise.all(sent.map(({ lane, command }) => send(command, { session: lane })));
    for (let lane = 0; lane < 10; lane += 1) {
      const expected = sent.filter((one) => one.lane === `lane-${lane}`).map(({ command }) => command);
      expect(executor.begun.filter((command) => expected.includes(command))).toEqual(expected);
    }
  });
});

describe('answers', () => {
  test('are the observation, with an id of their own and a duration', async () => {
    const { executor, send } = setUp();
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
    const { send, summaries } = setUp();
    const reply = await send(command);
    expect(reply.observation.observation).toBe('error');
    expect(reply.observation.content).toContain(text);
    expect(reply.observation.content).not.toMatch(/\n\s+at /);
    expect(summaries.map(({ outcome }) => outcome)).toEqual(['crashed']);
    expect(summaries[0]?.cause).toBeDefined();
    const hidden = await send(command, { hidden: true });
    expect(hidden.observation).toMatchObject({ observation: 'run', extras: { hidden: true, metadata: { exit_code: -1 } } });
  });

  test('a type that nobody serves', async () => {
    const { dispatcher, summaries } = setUp();
    const reply = await (dispatcher.dispatch(actionOf({ action: 'think', args: {} })) as Promise<Reply>);
    expect(reply.observation).toMatchObject({ observation: 'error', content: 'nobody serves think' });
    expect(summaries.map(({ outcome }) => outcome)).toEqual(['error']);
  });

  test('times are told apart: in the queue, at work', async () => {
    const { executor, send, summaries } = setUp();
    const [first, second] = [send('wait'), send('quick')];
    await settle();
    executor.end('wait');
    await Promise.all([first, second]);
    expect(summaries.map(({ call }) => call.action.action)).toEqual(['run', 'run']);
    expect(summaries[1]?.queuedMs).toBeGreaterThanOrEqual(summaries[0]?.durationMs ?? Infinity);
    expect(executor.contexts[1]?.arrivedAt).toBeLessThan(performance.now());
  });
});

describe('limits', () => {
  test('beyond maxInFlight actions are refused, those that wait count', async () => {
    const { executor, dispatcher, send } = setUp({ maxInFlight: 3 });
    const replies = [send('wait a', { session: 'a' }), send('wait b', { session: 'b' }), send('queued', { session: 'b' })];
    expect(dispatcher.dispatch(run('d', { session: 'd' }))).toBe('too-many');
    expect(dispatcher.dispatch(run('e', { is_static: true }))).toBe('too-many');
    await settle();
    executor.end('wait a');
    await replies[0];
    expect(await contentOf(send('d', { session: 'd' }))).toBe('d');
    executor.end('wait b');
    await Promise.all(replies);
    expect(executor.begun).toEqual(['wait a', 'wait b', 'd', 'queued']);
  });

  test('idle only while nothing runs or waits', async () => {
    const { executor, dispatcher, send } = setUp();
    const [first, second] = [send('wait'), send('wait too')];
    await settle();
    expect([dispatcher.idleSeconds, dispatcher.running]).toEqual([0, 1]);
    executor.end('wait');
    await first;
    expect(dispatcher.idleSeconds).toBe(0);
    await settle();
    executor.end('wait too');
    await second;
    await settle();
    expect(dispatcher.running).toBe(0);
    expect(dispatcher.idleSeconds).toBeGreaterThan(0);
  });
});

describe('stop', () => {
  test('aborts what runs and what waits, answers all, refuses new ones', async () => {
    const { executor, dispatcher, send } = setUp();
    const replies = [send('wait 1'), send('wait 2'), send('wait free', { is_static: true })];
    await settle();
    const stopped = dispatcher.stop(10_000);
    expect(dispatcher.dispatch(run('late'))).toBe('shutting-down');
    await stopped;
    expect(await Promise.all(replies.map(contentOf))).toEqual(['aborted: shutdown', 'aborted before: shutdown', 'aborted: shutdown']);
    expect(executor.contexts.every(({ signal }) => signal.aborted)).toBe(true);
    expect(dispatcher.running).toBe(0);
  });

  test('resolves at once when idle, and after the limit when an executor does not listen', async () => {
    await setUp().dispatcher.stop(60_000);
    const deaf = new EchoExecutor();
    deaf.execute = () => new Promise(() => undefined);
    const dispatcher = new Dispatcher({ executors: [deaf], maxInFlight: 10, unavailable: String });
    void dispatcher.dispatch(run('never ends'));
    await dispatcher.stop(50);
    expect(dispatcher.running).toBe(1);
  });
});

describe('the recorder', () => {
  class Recorder implements CallRecorder {
    readonly told: string[] = [];
    readonly gates: (() => void)[] = [];

    started(call: Call): Promise<void> {
      this.told.push(`started ${commandOf(call)}`);
      return new Promise((resolve) => this.gates.push(resolve));
    }

    output(call: Call, text: string): void {
      this.told.push(`output ${commandOf(call)}: ${text}`);
    }

    finished(call: Call): Promise<void> {
      this.told.push(`finished ${commandOf(call)}`);
      return new Promise((resolve) => this.gates.push(resolve));
    }
  }

  const commandOf = (call: Call): string => runArgs(call.action).command;

  test('execution waits for `started`, the answer for `finished`', async () => {
    const recorder = new Recorder();
    const { executor, send } = setUp({ recorder });
    let isAnswered = false;
    const reply = send('emit').finally(() => (isAnswered = true));
    await settle();
    expect([recorder.told, executor.begun]).toEqual([['started emit'], []]);
    recorder.gates.shift()?.();
    await settle();
    expect(recorder.told).toEqual(['started emit', 'output emit: live', 'finished emit']);
    expect(isAnswered).toBe(false);
    recorder.gates.shift()?.();
    await reply;
  });

  test('a hidden action has no live output', async () => {
    const recorder = new Recorder();
    const { send } = setUp({ recorder });
    const reply = send('emit', { hidden: true });
    await settle();
    recorder.gates.shift()?.();
    await settle();
    recorder.gates.shift()?.();
    await reply;
    expect(recorder.told).toEqual(['started emit', 'finished emit']);
  });

  test.each(['started', 'finished'] as const)('a recorder that fails in `%s` costs no answer and no room', async (step) => {
    const recorder: CallRecorder = {
      started: () => undefined,
      output: () => undefined,
      finished: () => undefined,
      [step]: () => Promise.reject(new Error('disk full')),
    };
    const { dispatcher, send } = setUp({ recorder, maxInFlight: 1 });
    const reply = await send('one');
    expect(reply.observation.content).toBeDefined();
    expect(dispatcher.running).toBe(0);
    await send('two');
    await dispatcher.stop(60_000);
  });
});

describe('faults around the executor', () => {
  test('a lane that cannot be told', async () => {
    const executor = new EchoExecutor();
    executor.laneOf = () => {
      throw new Error('no lane');
    };
    const dispatcher = new Dispatcher({ executors: [executor], maxInFlight: 1, unavailable: String });
    for (let round = 0; round < 2; round += 1) {
      const answer = dispatcher.dispatch(run('x'));
      expect((await (answer as Promise<Reply>)).observation.observation).toBe('error');
    }
  });

  test('a summary that throws', async () => {
    const executor = new EchoExecutor();
    const dispatcher = new Dispatcher({
      executors: [executor],
      maxInFlight: 1,
      unavailable: String,
      onSummary: () => {
        throw new Error('log is full');
      },
    });
    expect(await contentOf(dispatcher.dispatch(run('x')) as Promise<Reply>)).toBe('x');
  });
});
