/** Locks and histories: what is bounded stays so. */
import { EventEmitter, once } from 'node:events';
import { expect, test } from 'vitest';
import { EditHistory } from '../../../executors/files/history.ts';
import { KeyedLocks } from '../../../executors/files/locks.ts';

test('locks run in order, beside those of other keys, and are forgotten', async () => {
  const locks = new KeyedLocks();
  const order: string[] = [];
  const gate = new EventEmitter();
  const opened = once(gate, 'open');
  const first = locks.run('a', async () => {
    await opened;
    order.push('a1');
    throw new Error('no reason to stop the next');
  });
  const second = locks.run('a', async () => order.push('a2'));
  await locks.run('b', async () => order.push('b1'));
  expect(locks.size).toBe(1);
  gate.emit('open');
  await expect(first).rejects.toThrow('no reason');
  await second;
  expect(order).toEqual(['b1', 'a1', 'a2']);
  expect(locks.size).toBe(0);
});

test('a history keeps the last steps of a file', () => {
  const history = new EditHistory({ steps: 3, fileBytes: 10_000, totalBytes: 10_000 });
  for (let step = 1; step <= 5; step += 1) history.push('a', Buffer.from(`${step}`));
  const seen: (string | undefined)[] = [];
  for (let step = 0; step < 4; step += 1) {
    seen.push(history.last('a')?.toString());
    history.pop('a');
  }
  expect(seen).toEqual(['5', '4', '3', undefined]);
  expect(history.bytes).toBe(0);
});

test('a history is bounded in bytes, for a file and in all, and the oldest goes', () => {
  const history = new EditHistory({ steps: 100, fileBytes: 3000, totalBytes: 5000 });
  for (let step = 0; step < 10; step += 1) history.push('a', Buffer.alloc(900));
  expect(history.bytes).toBeLessThanOrEqual(3000);
  for (const key of ['b', 'c']) history.push(key, Buffer.alloc(2000));
  expect(history.bytes).toBeLessThanOrEqual(5000);
  expect(history.last('a')).toBeUndefined();
  expect(history.last('c')).toHaveLength(2000);
  history.push('d', Buffer.alloc(4000));
  expect(history.last('d')).toBeUndefined();
  for (let file = 0; file < 10_000; file += 1) history.push(`empty-${file}`, Buffer.alloc(0));
  expect(history.bytes).toBeLessThanOrEqual(5000);
});
