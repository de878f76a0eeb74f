import { expect, test } from 'vitest';
import { Lanes } from '../../src/dispatch/lane.ts';

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('a lane is forgotten when its last task has ended, well or not', async () => {
  const lanes = new Lanes();
  const good = lanes.run('a', () => Promise.resolve(1));
  const bad = lanes.run('a', () => Promise.reject(new Error('x')));
  expect(lanes.isBusy('a')).toBe(true);
  expect(await good).toBe(1);
  await expect(bad).rejects.toThrow('x');
  await settle();
  expect(lanes.isBusy('a')).toBe(false);
});

test('a free lane begins at once, in the same turn', () => {
  const lanes = new Lanes();
  const begun: string[] = [];
  const task = (name: string) => () => {
    begun.push(name);
    return Promise.resolve();
  };
  void lanes.run('a', task('a'));
  void lanes.run('b', task('b'));
  void lanes.run(undefined, task('free'));
  void lanes.run('a', task('a2'));
  expect(begun).toEqual(['a', 'b', 'free']);
});

test('tasks added by a task of the lane come after those that wait', async () => {
  const lanes = new Lanes();
  const order: string[] = [];
  let added: Promise<void> | undefined;
  const first = lanes.run('a', () => {
    order.push('first');
    added = lanes.run('a', async () => void order.push('added'));
    return Promise.resolve();
  });
  const second = lanes.run('a', async () => void order.push('second'));
  await Promise.all([first, second, added]);
  await settle();
  expect(order).toHaveLength(3);
  expect(lanes.isBusy('a')).toBe(false);
});
