import { setTimeout as delay } from 'node:timers/promises';
import { residentBytes } from '../lib/proc.mjs';
import { runCommand, startBareServer, startDaemon } from '../lib/servers.mjs';
import { median } from '../lib/stats.mjs';

const REQUESTS = 5;
const IDLE_MS = 3000;
const MB = 1_000_000;

export default {
  name: 'idle-rss',
  title: 'memory of the daemon at rest, after five actions',
  unit: 'MB',
  target: { rss: { what: 'RSS', against: 'bare Fastify', ratio: { atMost: 2 } } },
  run,
};

async function run(context) {
  const rounds = [];
  for (let round = 0; round < (context.isQuick ? 1 : 5); round += 1) rounds.push(await measureOnce(context));
  return {
    rss: {
      subject: median(rounds.map(({ subject }) => subject)),
      baseline: median(rounds.map(({ baseline }) => baseline)),
      rounds,
    },
    notes: { rounds },
  };
}

async function measureOnce(context) {
  const daemon = await startDaemon(context);
  const bare = await startBareServer(context);
  for (let request = 0; request < REQUESTS; request += 1) {
    await runCommand(daemon.client, 'echo hi');
    await bare.client.postJson('/', {});
  }
  await delay(IDLE_MS);
  const round = { subject: residentBytes(daemon.pid) / MB, baseline: residentBytes(bare.pid) / MB };
  await Promise.all([daemon.stop(), bare.stop()]);
  return round;
}
