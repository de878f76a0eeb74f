import { execFileSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { startDaemon } from '../lib/servers.mjs';
import { median } from '../lib/stats.mjs';

export default {
  name: 'one-file',
  title: 'the one-file executable: from the start of the process to /alive 200',
  unit: 'ms',
  target: { ready: { what: 'start', against: 'the same from dist/', ratio: { atMost: 2 } } },
  run,
};

async function run(context) {
  const executable = path.join(context.root, 'dist/one-file/actiond');
  if (!existsSync(executable)) execFileSync(process.execPath, ['scripts/bundle.mjs'], { cwd: context.root });
  const rounds = [];
  for (let round = 0; round < (context.isQuick ? 5 : 20); round += 1) {
    rounds.push({ subject: await startMs(context, executable), baseline: await startMs(context) });
  }
  const [subject, baseline] = ['subject', 'baseline'].map((kind) => median(rounds.map((each) => each[kind])));
  return { ready: { subject, baseline, rounds }, notes: { bytes: statSync(executable).size } };
}

async function startMs(context, executable) {
  const daemon = await startDaemon(context, { executable });
  await daemon.stop();
  return daemon.readyMs;
}
