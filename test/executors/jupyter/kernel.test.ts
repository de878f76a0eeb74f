/** What no kernel does on demand: messages that are lost, or that nobody can read. */
import { setImmediate } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { Kernel } from '../../../executors/jupyter/kernel.ts';
import { type Answer, answerInfo, type KernelRequest, ScriptedKernel } from '../../support/scripted-kernel.ts';

const problems: string[] = [];

const start = (server: ScriptedKernel): Promise<Kernel> =>
  Kernel.start({
    endpoint: { url: server.url, token: '' },
    name: 'scripted',
    directory: undefined,
    isLocal: false,
    onProblem: (text) => problems.push(text),
  });

const cell = { code: '', silent: false };

test('a cell of which the end is lost has ended when a later question is answered', async () => {
  await using server = await ScriptedKernel.start((request, answer) => {
    if (request.type === 'kernel_info_request') answerInfo(request, answer);
    else answer(request, 'execute_reply', { status: 'ok' });
  });
  const kernel = await start(server);
  expect(await kernel.execute(cell, () => {}).ended).toEqual({ kind: 'unknown' });
  await kernel.close();
});

test('where every end is lost, the questions for it do not multiply', async () => {
  const ends: (() => void)[] = [];
  let cellRequest: KernelRequest | undefined;
  let isReady = false;
  await using server = await ScriptedKernel.start((request, answer) => {
    if (!isReady) return answerInfo(request, answer);
    cellRequest ??= request;
    answer(request, request.type.replace('_request', '_reply'), { status: 'ok' });
    answer(cellRequest, 'stream', {});
    ends.push(() => answer(request, 'status', { execution_state: 'idle' }));
  });
  const kernel = await start(server);
  isReady = true;
  const before = server.requests.length;
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    let heard = 0;
    const { ended } = kernel.execute(cell, () => (heard += 1));
    const asked: number[] = [];
    for (let round = 0; round < 12; round += 1) {
      // With each request that was answered the cell has got a message.
      while (heard < server.requests.length - before || heard === 0) await setImmediate();
      vi.advanceTimersByTime(2000);
      const isAsked = round < 8;
      const known = server.requests.length;
      while (isAsked && server.requests.length === known) await setImmediate();
      for (let turn = 0; turn < 20; turn += 1) await setImmediate();
      asked.push(server.requests.length - before - 1);
    }
    expect(asked).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 8]);
    for (const end of ends) end();
    expect((await ended).kind).toBe('replied');
  } finally {
    vi.useRealTimers();
  }
  await kernel.close();
});

const complete = (request: KernelRequest, answer: Answer): void => {
  answer(request, 'execute_reply', { status: 'ok' });
  answer(request, 'status', { execution_state: 'idle' });
};

test.each([
  ['is no message', (server: ScriptedKernel) => server.socket?.send('nonsense')],
  ['breaks who gets it', (_: ScriptedKernel, request: KernelRequest, answer: Answer) => answer(request, 'stream', {})],
])('a cell whose output %s is told apart from one that is whole', async (_, spoil) => {
  let isSpoiled = true;
  await using server = await ScriptedKernel.start((request, answer) => {
    if (request.type === 'kernel_info_request') return answerInfo(request, answer);
    if (isSpoiled) spoil(server, request, answer);
    complete(request, answer);
  });
  const kernel = await start(server);
  problems.length = 0;
  const onMessage = ({ type }: { type: string }): void => {
    if (type === 'stream') throw new RangeError('too deep');
  };
  expect(await kernel.execute(cell, onMessage).ended).toMatchObject({ kind: 'replied', isIncomplete: true });
  expect(problems).toHaveLength(1);
  isSpoiled = false;
  expect(await kernel.execute(cell, onMessage).ended).toMatchObject({ kind: 'replied', isIncomplete: false });
  await kernel.close();
});

test('a cell during which the connection broke may have lost output', async () => {
  let lost: KernelRequest | undefined;
  await using server = await ScriptedKernel.start((request, answer) => {
    if (request.type === 'kernel_info_request') {
      // Its end comes on the next connection.
      if (lost !== undefined) complete(lost, answer);
      return answerInfo(request, answer);
    }
    lost = request;
    server.socket?.terminate();
  });
  const kernel = await start(server);
  expect(await kernel.execute(cell, () => {}).ended).toMatchObject({ kind: 'replied', isIncomplete: true });
  await kernel.close();
});
