import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { expect, test } from 'vitest';
import { openLog, range, readAll, seqsOf, temporaryDirectory } from './support.ts';

const ROUNDS = 20;

async function bundle(directory: string): Promise<string> {
  const outfile = path.join(directory, 'appender.mjs');
  const entry = fileURLToPath(new URL('appender.ts', import.meta.url));
  await build({ entryPoints: [entry], outfile, bundle: true, platform: 'node', format: 'esm', target: 'node20' });
  return outfile;
}

/** Lets it append, kills it so many ms after it has opened the log, and returns what it said. */
async function runAndKill(script: string, directory: string, seed: number, ms: number): Promise<string[]> {
  const child = spawn(process.execPath, [script, directory, String(seed)], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    if (text === '') setTimeout(() => child.kill('SIGKILL'), ms);
    text += chunk;
  });
  await once(child, 'close');
  expect(child.signalCode).toBe('SIGKILL');
  return text.split('\n').filter(Boolean);
}

test(`kill -9 at random moments, ${ROUNDS} times: what was acknowledged is there`, async () => {
  const seed = Number(process.env['CRASH_SEED'] ?? Date.now() % 1_000_000);
  process.stdout.write(`crash test of the event log: CRASH_SEED=${seed}\n`);
  await using scripts = await temporaryDirectory();
  await using directory = await temporaryDirectory();
  const script = await bundle(scripts.path);
  const acknowledged = new Map<number, number>();
  let stream: string | undefined;
  for (let round = 0; round < ROUNDS; round += 1) {
    const said = await runAndKill(script, directory.path, seed + round, (seed * (round + 7) * 31) % 150);
    for (const line of said.slice(1)) {
      const [seq, n] = line.split(' ').map(Number);
      expect(acknowledged.has(seq!), `seq ${seq} was given twice`).toBe(false);
      acknowledged.set(seq!, n!);
    }
    await using opened = await openLog(directory.path, { segmentBytes: 40_000 });
    const { log } = opened;
    stream ??= log.extent.stream;
    expect(log.extent.stream).toBe(stream);
    const events = await readAll(log);
    expect(seqsOf(events)).toEqual(range(1, log.extent.latest));
    for (const [seq, n] of acknowledged)
      expect(events[seq - 1], `seq ${seq} in round ${round}`).toMatchObject({ seq, n });
    const large = events.findLast((event) => 'payload_ref' in event);
    if (large) {
      const { text, size } = (await log.load(large.seq)) as unknown as { text: string; size: number };
      expect(text).toHaveLength(size);
    }
  }
  expect(acknowledged.size).toBeGreaterThan(ROUNDS);
});
