import { expect, test } from 'vitest';
import { expendableScore, memoryProblem, oomKills } from '../../src/sandbox/out-of-memory.ts';
import { canLimitMemory, MemoryGroup } from '../support/memory-group.ts';
import { TestServer } from '../support/server.ts';

const MiB = 2 ** 20;

test('kills are counted where the control group tells them', () => {
  const kills = oomKills();
  expect(kills === undefined || (Number.isInteger(kills) && kills >= 0)).toBe(true);
});

test('too little memory is told with the limit and the remedy', () => {
  expect(memoryProblem(64 * MiB)).toMatch(/64 MiB.* 128 .*docker run --memory/);
  expect(memoryProblem(128 * MiB)).toBeUndefined();
  expect(memoryProblem(Infinity)).toBeUndefined();
});

test('the smaller the limit, the more expendable is what the daemon starts, and always more than itself', () => {
  expect([128, 384, 640, 1280, 65_536].map((limit) => expendableScore(0, limit * MiB))).toEqual([
    1000, 1000, 600, 300, 300,
  ]);
  expect(expendableScore(0, Infinity)).toBe(300);
  expect(expendableScore(500, Infinity)).toBe(800);
  expect(expendableScore(968, 4096 * MiB)).toBe(1000);
});

test.runIf(canLimitMemory)(
  'a command that the kernel kills for its memory is told why, and the next one works',
  async () => {
    await using group = new MemoryGroup(1024 * MiB);
    const leave = group.enter();
    try {
      await using server = await TestServer.start();
      const hog = await server.run(`python3 -c 'x = bytearray(2 ** 31)'; (exit $?)`);
      expect(hog.exitCode).toBe(137);
      expect(hog.suffix).toContain('ran out of memory');
      expect((await server.run('echo lives')).content).toBe('lives');
      expect((await server.run('(exit 3)')).suffix).not.toContain('memory');
    } finally {
      leave();
    }
  },
);
