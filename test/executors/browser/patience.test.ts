/** On a machine that is busy with other things, a browser that does not answer is not one that cannot. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpus } from 'node:os';
import { expect, test } from 'vitest';
import { patiently } from '../../../executors/browser/patience.ts';
import { watchStarvation } from '../../../executors/browser/starvation.ts';
import { LimitError } from '../../../executors/browser/within.ts';
import { until } from '../../support/wait.ts';

const { signal } = new AbortController();

test('who was kept from working gets the time back, again and again', async () => {
  let answer: (text: string) => void = () => {};
  const asked = new Promise<string>((resolve) => (answer = resolve));
  let looks = 0;
  const watch = () => () => {
    looks += 1;
    if (looks === 3) answer('there');
    return looks * 100;
  };
  expect(await patiently(asked, { limitMs: 10, maxMs: 60_000, signal, watch })).toBe('there');
  expect(looks).toBe(3);
});

test('who had its time, or has none left at all, does not', async () => {
  const never = new Promise<never>(() => {});
  const idle = patiently(never, { limitMs: 10, maxMs: 60_000, signal, watch: () => () => 0 });
  await expect(idle).rejects.toThrow(LimitError);
  const starving = patiently(never, { limitMs: 10, maxMs: 20, signal, watch: () => () => performance.now() });
  await expect(starving).rejects.toThrow(LimitError);
});

test('an error is passed on, and a signal ends the waiting', async () => {
  const watch = () => () => performance.now();
  const failing = Promise.reject(new Error('its own'));
  await expect(patiently(failing, { limitMs: 10, maxMs: 60_000, signal, watch })).rejects.toThrow('its own');
  const aborting = new AbortController();
  const waiting = patiently(new Promise<never>(() => {}), { limitMs: 1e6, maxMs: 1e6, signal: aborting.signal, watch });
  aborting.abort();
  await expect(waiting).rejects.toThrow(LimitError);
});

test('processes that have to share a processor are seen to wait', async () => {
  const busy = Array.from({ length: cpus().length + 1 }, () => 'while :; do :; done &').join('\n');
  const parent = spawn('sh', ['-c', `${busy}\nwait`], { detached: true, stdio: 'ignore' });
  try {
    await once(parent, 'spawn');
    const starvedMs = watchStarvation(parent.pid ?? 0);
    await until('a process that waits', () => starvedMs() > 50);
  } finally {
    process.kill(-(parent.pid ?? 0), 'SIGKILL');
  }
});
