import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import {
  descriptorTarget,
  endProcesses,
  findProcesses,
  listProcesses,
  readProcess,
  signalProcess,
  workingDirectory,
} from '../../src/sandbox/processes.ts';
import { processesWith } from '../support/processes.ts';
import { until } from '../support/wait.ts';

const FAMILY = join(import.meta.dirname, '../fixtures/bin/family');
/** As many kinds as the fixture starts. */
const MEMBERS = [1, 2, 3, 4, 5, 6, 7, 8];

let families = 0;
const started: ChildProcess[] = [];
const argumentsUsed: string[] = [];

afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL');
  for (const argument of argumentsUsed.splice(0))
    for (const pid of processesWith(argument)) signalProcess(pid, 'SIGKILL');
});

/** A tree of processes that carries `mark`; resolves when all of it is there. */
async function startFamily(mark: string): Promise<{ child: ChildProcess; argument: string }> {
  families += 1;
  const argument = `8639${process.pid}${String(families).padStart(2, '0')}`;
  const child = spawn(FAMILY, [argument], {
    env: { PATH: process.env['PATH'], ACTIOND_TEST_MARK: mark },
    stdio: 'ignore',
    detached: true,
  });
  started.push(child);
  argumentsUsed.push(argument);
  await until('the family', () => MEMBERS.every((member) => processesWith(`sleep ${argument}.${member}`).length > 0));
  return { child, argument };
}

function isOwnSession(pid: number): boolean {
  return readProcess(pid)?.session === pid;
}

describe('endProcesses', () => {
  test('by mark: detached, double-forked, stopped and stubborn ones, too', async () => {
    const value = randomUUID();
    const { argument } = await startFamily(value);
    expect(findProcesses({ mark: `ACTIOND_TEST_MARK=${value}` }).length).toBeGreaterThanOrEqual(MEMBERS.length - 1);
    const left = await endProcesses({ mark: `ACTIOND_TEST_MARK=${value}` }, 300);
    expect(left).toBe(0);
    // One left with an empty environment and a session of its own when its parent had gone: nothing tells whose it is.
    expect(processesWith(argument).filter((pid) => !isWithoutTrace(pid))).toEqual([]);
  });

  test('by root: all that still has its parents', async () => {
    const { child, argument } = await startFamily('root');
    expect(await endProcesses({ root: child.pid ?? 0, sessions: new Set([child.pid ?? 0]) }, 300)).toBe(0);
    expect(processesWith(argument).filter((pid) => !isOwnSession(pid))).toEqual([]);
  });

  test('a mark is a whole entry: neither a part of a value nor another name', async () => {
    const value = randomUUID();
    const { argument } = await startFamily(`${value}-longer`);
    const count = processesWith(argument).length;
    for (const mark of [`ACTIOND_TEST_MARK=${value}`, `TEST_MARK=${value}-longer`, `${value}-longer`]) {
      expect(findProcesses({ mark })).toEqual([]);
      expect(await endProcesses({ mark }, 0)).toBe(0);
    }
    expect(processesWith(argument).length).toBe(count);
    await endProcesses({ mark: `ACTIOND_TEST_MARK=${value}-longer` }, 0);
  });

  test('those that can tidy up are given the time', async () => {
    const mark = `ACTIOND_TEST_MARK=${randomUUID()}`;
    const script = 'trap "echo tidied; exit 0" TERM; trap "" HUP; echo ready; while :; do sleep 0.05; done';
    const child = spawn('bash', ['-c', script], {
      env: { PATH: process.env['PATH'], ACTIOND_TEST_MARK: mark.split('=')[1] },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    started.push(child);
    let said = '';
    child.stdout?.on('data', (chunk: Buffer) => (said += chunk.toString()));
    await until('the trap to be set', () => said.includes('ready'));
    const closed = new Promise((resolve) => child.once('close', resolve));
    expect(await endProcesses({ mark }, 10_000)).toBe(0);
    await closed;
    expect(said).toContain('tidied');
  });

  test('new ones that appear meanwhile are ended, too', async () => {
    const mark = `ACTIOND_TEST_MARK=${randomUUID()}`;
    families += 1;
    const argument = `8638${process.pid}${families}`;
    const script = `trap 'sleep ${argument} & sleep ${argument} & wait' TERM HUP; echo; while :; do sleep ${argument}; done`;
    const child = spawn('bash', ['-c', script], {
      env: { PATH: process.env['PATH'], ACTIOND_TEST_MARK: mark.split('=')[1] },
      stdio: 'ignore',
    });
    started.push(child);
    await until('the loop', () => processesWith(`sleep ${argument}`).length > 0);
    expect(await endProcesses({ mark }, 200)).toBe(0);
    expect(processesWith(argument)).toEqual([]);
  });

  test('nothing to do is done at once; this process is never found', async () => {
    expect(await endProcesses({ mark: `NOBODY=${randomUUID()}` }, 10_000)).toBe(0);
    expect(await endProcesses({}, 10_000)).toBe(0);
    const everything = findProcesses({ root: process.ppid });
    expect(everything.map(({ pid }) => pid)).not.toContain(process.pid);
  });
});

describe('what /proc says', () => {
  test('one row', () => {
    const own = readProcess(process.pid);
    expect(own).toMatchObject({ pid: process.pid, parent: process.ppid });
    expect(own?.startTime).toMatch(/^\d+$/);
    expect(listProcesses().find(({ pid }) => pid === process.pid)?.startTime).toBe(own?.startTime);
  });

  test('a name with blanks and parentheses', async () => {
    const child = spawn('bash', ['-c', 'printf "%s" "a) R 1 (b" > /proc/self/comm; echo ready; read x'], {
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    started.push(child);
    await new Promise((resolve) => child.stdout?.once('data', resolve));
    expect(readProcess(child.pid ?? 0)).toMatchObject({ pid: child.pid, parent: process.pid });
  });

  test('what is gone', async () => {
    const child = spawn('true');
    await new Promise((resolve) => child.once('close', resolve));
    const pid = child.pid ?? 0;
    expect([readProcess(pid), descriptorTarget(pid, 0), workingDirectory(pid)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    expect(() => signalProcess(pid, 'SIGTERM')).not.toThrow();
  });

  test('descriptors and directories', () => {
    const child = spawn('sleep', ['60'], { cwd: tmpdir(), stdio: ['ignore', 'ignore', 'ignore'] });
    started.push(child);
    expect(descriptorTarget(child.pid ?? 0, 0)).toBe('/dev/null');
    expect(descriptorTarget(child.pid ?? 0, 77)).toBeUndefined();
    expect(workingDirectory(child.pid ?? 0)).toBe(realpathSync(tmpdir()));
  });
});

/** Without the mark and without a parent of the tree. */
function isWithoutTrace(pid: number): boolean {
  const info = readProcess(pid);
  return info === undefined || (info.session === pid && info.parent === 1);
}
