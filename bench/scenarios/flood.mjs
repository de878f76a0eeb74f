import { setTimeout as delay } from 'node:timers/promises';
import { HttpClient } from '../lib/http-client.mjs';
import { processorMs, residentBytes, resetPeak } from '../lib/proc.mjs';
import { drainCommand } from '../lib/raw-terminal.mjs';
import { runCommand, startDaemon } from '../lib/servers.mjs';
import { median } from '../lib/stats.mjs';

const BYTES = 100_000_000;
const LINE = 'The quick brown fox jumps over the lazy dog, and then some more text, 0123456789.';
const COMMAND = `yes '${LINE}' | head -c ${BYTES}`;
const LIMIT_SECONDS = 300;
const POLL_MS = 20;
const MB = 1_000_000;

export default {
  name: 'flood',
  title: '100 MB of terminal output in one action',
  unit: 'MB/s',
  target: {
    speed: { what: 'speed', against: 'raw node-pty', ratio: { atLeast: 0.5 } },
    cpu: { what: 'processor time of the reading process', unit: 's', against: 'raw node-pty' },
    growth: { what: 'RSS growth, worst round', unit: 'MB', value: { atMost: 64 } },
    alive: { what: '/alive meanwhile, slowest', unit: 'ms', value: { atMost: 100 } },
  },
  run,
};

async function run(context) {
  const daemon = await startDaemon(context);
  await runCommand(daemon.client, 'echo hi');
  const rounds = [];
  for (let round = 0; round < (context.isQuick ? 2 : 5); round += 1) {
    rounds.push({ raw: await measureRaw(), action: await measureAction(daemon) });
  }
  const worst = (kind) => ({ subject: Math.max(...rounds.map(({ action }) => action[kind])) });
  return {
    speed: compare(rounds, 'speed'),
    cpu: compare(rounds, 'cpuSeconds'),
    growth: worst('growth'),
    alive: worst('slowestAlive'),
    notes: { rounds },
  };
}

function compare(rounds, kind) {
  return {
    subject: median(rounds.map(({ action }) => action[kind])),
    baseline: median(rounds.map(({ raw }) => raw[kind])),
    rounds: rounds.map(({ action, raw }) => ({ subject: action[kind], baseline: raw[kind] })),
  };
}

async function measureRaw() {
  const before = processorMs(process.pid);
  const speed = await speedOf(() => drainCommand(COMMAND));
  return { speed, cpuSeconds: (processorMs(process.pid) - before) / 1000 };
}

async function measureAction({ pid, port, client }) {
  const before = residentBytes(pid);
  resetPeak(pid);
  const cpuBefore = processorMs(pid);
  const watch = watchAlive(port);
  const speed = await speedOf(() => runCommand(client, COMMAND, LIMIT_SECONDS));
  const growth = (residentBytes(pid, 'VmHWM') - before) / MB;
  const cpuSeconds = (processorMs(pid) - cpuBefore) / 1000;
  return { speed, growth, cpuSeconds, slowestAlive: await watch.stop() };
}

/** MB per second. */
async function speedOf(flood) {
  const startedAt = performance.now();
  await flood();
  return BYTES / MB / ((performance.now() - startedAt) / 1000);
}

/** Asks on a connection of its own until stopped; `stop` resolves with the milliseconds of the slowest answer. */
function watchAlive(port) {
  const client = new HttpClient(port);
  let isStopped = false;
  let slowest = 0;
  const watching = (async () => {
    while (!isStopped) {
      const startedAt = performance.now();
      await client.getStatus('/alive');
      slowest = Math.max(slowest, performance.now() - startedAt);
      await delay(POLL_MS);
    }
    client.close();
    return slowest;
  })();
  return {
    stop() {
      isStopped = true;
      return watching;
    },
  };
}
