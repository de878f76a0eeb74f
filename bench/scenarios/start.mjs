import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { homedir } from 'node:os';
import { startDaemon } from '../lib/servers.mjs';
import { median } from '../lib/stats.mjs';

export default {
  name: 'start',
  title: 'from the start of the process to /alive 200',
  unit: 'ms',
  target: {
    ready: { what: 'HOME empty', against: 'node -e 0', ratio: { atMost: 4 } },
    readyAtHome: { what: 'real HOME', against: 'node -e 0' },
  },
  run,
};

async function run(context) {
  const rounds = [];
  for (let round = 0; round < (context.isQuick ? 5 : 20); round += 1) {
    rounds.push({
      node: await emptyNode(),
      ready: await daemonStart(context, {}),
      readyAtHome: await daemonStart(context, { HOME: homedir() }),
    });
  }
  return { ready: against(rounds, 'ready'), readyAtHome: against(rounds, 'readyAtHome'), notes: { rounds } };
}

function against(rounds, kind) {
  return {
    subject: median(rounds.map((round) => round[kind])),
    baseline: median(rounds.map(({ node }) => node)),
    rounds: rounds.map((round) => ({ subject: round[kind], baseline: round.node })),
  };
}

async function emptyNode() {
  const startedAt = performance.now();
  await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit');
  return performance.now() - startedAt;
}

async function daemonStart(context, env) {
  const daemon = await startDaemon(context, { env });
  await daemon.stop();
  return daemon.readyMs;
}
