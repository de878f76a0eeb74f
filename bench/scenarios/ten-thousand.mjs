import { readdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { descriptors, processTree, residentBytes } from '../lib/proc.mjs';
import { runCommand, startDaemon } from '../lib/servers.mjs';
import { median } from '../lib/stats.mjs';

const BATCH = 1000;
/** What is cleaned up after an answer is gone by then; helpers that the daemon runs now and then take longer. */
const SETTLE_MS = 500;
const SETTLE_LIMIT_MS = 15_000;
/** The daemon and its shell. */
const RESTING_PROCESSES = 2;
const MB = 1_000_000;

export default {
  name: 'ten-thousand',
  title: 'what 10,000 actions leave behind, after the first 1,000',
  unit: '',
  target: {
    rss: { what: 'RSS growth', unit: 'MB', against: 'first 1,000', value: { atMost: 30 } },
    descriptors: { what: 'more descriptors, daemon and children', value: { atMost: 0 } },
    processes: { what: 'more processes, zombies too', value: { atMost: 0 } },
    temporary: { what: 'more entries in the temporary directory', value: { atMost: 0 } },
    state: { what: 'more entries in the state directory', value: { atMost: 0 } },
    p50: { what: 'p50 of the last 1,000', unit: 'ms', against: 'first 1,000' },
  },
  run,
};

async function run(context) {
  const daemon = await startDaemon(context);
  await runCommand(daemon.client, 'echo 0');
  const fresh = await takeStock(daemon);
  const batches = [await runBatch(daemon)];
  for (let batch = 0; batch < (context.isQuick ? 2 : 10); batch += 1) batches.push(await runBatch(daemon));

  const [first, last] = [batches[0], batches.at(-1)];
  const growth = (kind) => ({ subject: last[kind] - first[kind], baseline: first[kind] - fresh[kind] });
  return {
    rss: growth('rss'),
    descriptors: growth('descriptors'),
    processes: growth('processes'),
    temporary: growth('temporary'),
    state: growth('state'),
    p50: { subject: last.p50, baseline: first.p50 },
    notes: { fresh, batches },
  };
}

async function runBatch(daemon) {
  const times = [];
  for (let action = 0; action < BATCH; action += 1) {
    const startedAt = performance.now();
    await runCommand(daemon.client, `echo ${action}`);
    times.push(performance.now() - startedAt);
  }
  return { p50: median(times), ...(await takeStock(daemon)) };
}

async function takeStock({ pid, temporary, state }) {
  const tree = await settledTree(pid);
  const living = tree.filter((process) => process.state !== 'Z');
  return {
    rss: residentBytes(pid) / MB,
    descriptors: living.reduce((sum, process) => sum + descriptors(process.pid), 0),
    processes: tree.length,
    temporary: readdirSync(temporary, { recursive: true }).length,
    state: readdirSync(state, { recursive: true }).length,
  };
}

async function settledTree(pid) {
  const deadline = performance.now() + SETTLE_LIMIT_MS;
  let tree;
  do {
    await delay(SETTLE_MS);
    tree = processTree(pid);
  } while (tree.length > RESTING_PROCESSES && performance.now() < deadline);
  return tree;
}
