import { writeSync } from 'node:fs';
import { EventLog } from '../../src/events/event-log.ts';

// Run by crash.test.ts as a process of its own: appends until it is killed, and says on stdout which seqs are on disk.

const [directory = '', seed = '1'] = process.argv.slice(2);
const log = await EventLog.open({ directory, maxBytes: 2 ** 30, maxAgeMs: 1e12, segmentBytes: 40_000 });
writeSync(1, `open ${log.extent.oldest} ${log.extent.latest} ${log.recovered.cutBytes}\n`);

let state = Number(seed);
function random(limit: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state % limit;
}

async function appendOne(): Promise<void> {
  const size = random(50) === 0 ? 70_000 : random(600);
  const n = random(1e9);
  const kind = (['action', 'output', 'observation', 'server'] as const)[random(4)] ?? 'output';
  const seq = log.append({ kind, action_id: `a${n}`, n, text: String(n % 10).repeat(size), size });
  await log.flush(seq);
  // Synchronous: what was acknowledged before the kill has been said.
  writeSync(1, `${seq} ${n}\n`);
}

async function appendForever(): Promise<never> {
  for (;;) await appendOne();
}

await Promise.all(Array.from({ length: 8 }, appendForever));
