/** What no kernel does on demand: messages of a real one that are lost on the way, or that nobody can read. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { Kernel } from '../../../executors/jupyter/kernel.ts';
import { needsJupyter } from '../../support/jupyter.ts';
import { type Meddle, MeddlingProxy, type PassingMessage } from '../../support/meddling-proxy.ts';
import { isJupyterUp, startPlainJupyter } from '../../support/plain-jupyter.ts';
import { freePort } from '../../support/port.ts';
import { until } from '../../support/wait.ts';

const token = 'secret-of-the-test';
const problems: string[] = [];
let directory: string;
let port: number;
let jupyter: ChildProcess | undefined;

beforeEach(needsJupyter);

afterEach(() => {
  vi.useRealTimers();
});

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'actiond-kernel-'));
  port = await freePort();
  jupyter = startPlainJupyter(port, token, directory);
  jupyter.once('error', () => (jupyter = undefined));
  await until('the Jupyter server', async () => !jupyter || (await isJupyterUp(port)));
});

afterAll(async () => {
  const exited = jupyter && once(jupyter, 'exit');
  jupyter?.kill('SIGTERM');
  await exited;
  rmSync(directory, { recursive: true, force: true });
});

const startProxy = (meddle: Meddle): Promise<MeddlingProxy> => MeddlingProxy.start(`http://127.0.0.1:${port}`, meddle);

async function startKernel({ url }: MeddlingProxy): Promise<Kernel> {
  const kernel = await Kernel.start({
    endpoint: { url, token },
    name: 'python3',
    directory: undefined,
    isLocal: false,
    onProblem: (text) => problems.push(text),
  });
  problems.length = 0;
  return kernel;
}

const cell = { code: 'print("x", end="")', silent: false };

const isCell = ({ type }: PassingMessage): boolean => type === 'execute_request';
const isIdle = ({ type, content }: PassingMessage): boolean =>
  type === 'status' && content['execution_state'] === 'idle';
const isReply = ({ isRequest, type }: PassingMessage): boolean => !isRequest && type.endsWith('_reply');

/** The first cell and what was asked behind it. */
const sinceCell = ({ requests }: MeddlingProxy): PassingMessage[] =>
  requests.some(isCell) ? requests.slice(requests.findIndex(isCell)) : [];

const belongsToCell = ({ parent }: PassingMessage, proxy: MeddlingProxy): boolean => sinceCell(proxy)[0]?.id === parent;

test('a cell of which the end is lost has ended when a later question is answered', async () => {
  await using proxy = await startProxy((message) => {
    if (!isIdle(message) || !belongsToCell(message, proxy)) message.pass();
  });
  const kernel = await startKernel(proxy);
  expect(await kernel.execute(cell, () => {}).ended).toEqual({ kind: 'unknown' });
  expect(sinceCell(proxy)[1]?.type).toBe('kernel_info_request');
  await kernel.close();
});

test('where every end is lost, the questions for it do not multiply', async () => {
  let held: PassingMessage[] | undefined;
  await using proxy = await startProxy((message) => {
    if (held && isIdle(message)) held.push(message);
    else message.pass();
    // The cell hears of each reply that has come.
    const [first, ...questions] = sinceCell(proxy);
    if (!held || !first || !isReply(message)) return;
    if ([first, ...questions].some(({ id }) => id === message.parent))
      proxy.add(JSON.stringify({ header: { msg_type: 'mark' }, parent_header: { msg_id: first.id }, content: {} }));
  });
  const kernel = await startKernel(proxy);
  held = [];
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  let replies = 0;
  const { ended } = kernel.execute(cell, ({ type }) => (replies += type === 'mark' ? 1 : 0));
  const asked: number[] = [];
  for (let round = 0; round < 8; round += 1) {
    await until('the reply to what was asked last', () => replies > round);
    vi.advanceTimersByTime(2000);
    await until('another question', () => sinceCell(proxy).length - 1 > round);
    asked.push(sinceCell(proxy).length - 1);
  }
  expect(asked).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  await until('the reply to the last question', () => replies > 8);
  for (let round = 8; round < 12; round += 1) vi.advanceTimersByTime(2000);
  // Requests come in order: behind this one there is none that was sent before.
  const next = kernel.execute(cell, () => {});
  await until('the next cell', () => sinceCell(proxy).filter(isCell).length === 2);
  expect(sinceCell(proxy).findLastIndex(isCell)).toBe(9);
  for (const idle of held) idle.pass();
  held = undefined;
  expect((await ended).kind).toBe('replied');
  expect((await next.ended).kind).toBe('replied');
  vi.useRealTimers();
  await kernel.close();
});

test.each<[string, Meddle, () => void]>([
  ['is no message', (_, proxy) => proxy.add('nonsense'), () => {}],
  [
    'breaks who gets it',
    () => {},
    () => {
      throw new RangeError('too deep');
    },
  ],
])('a cell whose output %s is told apart from one that is whole', async (_, meddle, take) => {
  await using proxy = await startProxy((message) => {
    if (message.type === 'execute_reply' && belongsToCell(message, proxy)) meddle(message, proxy);
    message.pass();
  });
  const kernel = await startKernel(proxy);
  const spoiled = kernel.execute(cell, ({ type }) => {
    if (type === 'stream') take();
  });
  expect(await spoiled.ended).toMatchObject({ kind: 'replied', isIncomplete: true });
  expect(problems).toHaveLength(1);
  expect(await kernel.execute(cell, () => {}).ended).toMatchObject({ kind: 'replied', isIncomplete: false });
  await kernel.close();
});

test('a cell during which the connection broke may have lost output', async () => {
  let lost: PassingMessage[] | undefined = [];
  await using proxy = await startProxy((message) => {
    if (lost && belongsToCell(message, proxy) && (isReply(message) || isIdle(message))) {
      lost.push(message);
      if (lost.length === 2) proxy.disconnect();
      return;
    }
    // Its end comes on the next connection.
    if (lost?.length === 2 && message.isRequest) {
      for (const end of lost) end.pass();
      lost = undefined;
    }
    message.pass();
  });
  const kernel = await startKernel(proxy);
  expect(await kernel.execute(cell, () => {}).ended).toMatchObject({ kind: 'replied', isIncomplete: true });
  expect(problems).toEqual([]);
  await kernel.close();
});
