/** Places that are waited for. */
import { expect, test } from 'vitest';
import { Slots } from '../../src/util/slots.ts';

const { signal } = new AbortController();

test('a place goes to whoever waits longest, and a wait that ended takes none', async () => {
  const slots = new Slots(1);
  const giveBack = await slots.take(signal);
  const waiting = new AbortController();
  const cancelled = slots.take(waiting.signal);
  const limited = slots.take(signal, 1);
  const [second, third] = [slots.take(signal), slots.take(signal)];
  waiting.abort();
  expect([await cancelled, await limited]).toEqual([undefined, undefined]);
  giveBack?.();
  const order: number[] = [];
  void third.then(() => order.push(3));
  const giveBackAgain = await second;
  order.push(2);
  giveBackAgain?.();
  await third;
  expect(order).toEqual([2, 3]);
});
