import { describe, expect, test } from 'vitest';
import { describeShortage, MemoryGuard, memoryState } from '../../src/sandbox/memory-guard.ts';

const MIB = 2 ** 20;
const GIB = 2 ** 30;

describe('describeShortage', () => {
  test.each([
    // 4 % of the limit must be free …
    { limit: 8 * GIB, available: 0.05 * 8 * GIB, isShort: false },
    { limit: 8 * GIB, available: 0.041 * 8 * GIB, isShort: false },
    { limit: 8 * GIB, available: 0.039 * 8 * GIB, isShort: true },
    { limit: 64 * GIB, available: 2.5 * GIB, isShort: true },
    // … at least 48 MiB …
    { limit: 512 * MIB, available: 49 * MIB, isShort: false },
    { limit: 512 * MIB, available: 48 * MIB, isShort: false },
    { limit: 512 * MIB, available: 47 * MIB, isShort: true },
    // … but never more than a quarter: a small sandbox can work too.
    { limit: 100 * MIB, available: 26 * MIB, isShort: false },
    { limit: 100 * MIB, available: 24 * MIB, isShort: true },
    { limit: 8 * GIB, available: 0, isShort: true },
    { limit: 8 * GIB, available: 8 * GIB, isShort: false },
    { limit: Infinity, available: Infinity, isShort: false },
  ])('$available of $limit: $isShort', ({ limit, available, isShort }) => {
    expect(describeShortage({ limit, available }) !== undefined).toBe(isShort);
  });

  test('says how much is left and what to do', () => {
    expect(describeShortage({ limit: 2 * GIB, available: 17 * MIB })).toBe(
      'The sandbox is out of memory: 17 MiB of 2048 MiB are left. End what uses it, then try again.',
    );
  });
});

test('this machine: a limit, and not more available than that', () => {
  const { limit, available } = memoryState();
  expect(limit).toBeGreaterThan(0);
  expect(available).toBeGreaterThan(0);
  expect(available).toBeLessThanOrEqual(limit);
});

test('the guard says what the state of the memory says', () => {
  const guard = new MemoryGuard();
  expect(guard.shortage()).toBe(guard.shortage());
  expect(guard.shortage()).toBeUndefined();
});
