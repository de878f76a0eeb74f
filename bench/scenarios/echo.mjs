import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import path from 'node:path';
import { processorMs, processTree } from '../lib/proc.mjs';
import { RawShell } from '../lib/raw-terminal.mjs';
import { runCommand, startBareServer, startDaemon } from '../lib/servers.mjs';
import { median, quantile } from '../lib/stats.mjs';

/** What the log writes for an action, about. */
const EVENT_BYTES = 300;
/** Samples of one kind in a row: few, so that noise meets all kinds. */
const BLOCK = 25;
const WARM_UP_BLOCKS = 8;

const SUM = 'terminal + POST + fdatasync';

export default {
  name: 'echo',
  title: '`echo hi` through POST /execute_action',
  unit: 'ms',
  target: {
    p50: { what: 'p50', against: SUM, ratio: { atMost: 4 } },
    p99: { what: 'p99', against: 'its own p50', ratio: { atMost: 5 } },
    noise: { what: 'p99 of the baseline: what the machine adds', against: 'its own p50' },
    terminal: { what: 'part of the baseline: raw terminal, p50' },
    post: { what: 'part of the baseline: empty POST, p50' },
    fdatasync: { what: 'part of the baseline: fdatasync, p50' },
    daemonCpu: { what: 'processor time per action, daemon' },
    shellCpu: { what: 'processor time per action, its shell' },
  },
  run,
};

async function run(context) {
  const daemon = await startDaemon(context);
  const kinds = {
    action: () => echoAction(daemon.client),
    terminal: await terminalEcho(context),
    post: await emptyPost(context),
    fdatasync: durableAppend(context),
  };
  const shell = processTree(daemon.pid)[1].pid;
  for (let block = 0; block < WARM_UP_BLOCKS; block += 1) await sampleRound(kinds);
  const cpu = { daemonCpu: processorMs(daemon.pid), shellCpu: processorMs(shell) };
  const rounds = [];
  for (let round = 0; round < (context.isQuick ? 20 : 120); round += 1) rounds.push(await sampleRound(kinds));

  const all = (kind) => rounds.flatMap((round) => round[kind]);
  const action = all('action');
  const perAction = (before, pid) => ({ subject: (processorMs(pid) - before) / action.length });
  const sums = all('terminal').map((time, sample) => time + all('post')[sample] + all('fdatasync')[sample]);
  return {
    p50: {
      subject: median(action),
      baseline: baselineOf((kind) => median(all(kind))),
      rounds: rounds.map((round) => ({
        subject: median(round.action),
        baseline: baselineOf((kind) => median(round[kind])),
      })),
    },
    p99: { subject: quantile(action, 0.99), baseline: median(action) },
    noise: { subject: quantile(sums, 0.99), baseline: median(sums) },
    terminal: { subject: median(all('terminal')) },
    post: { subject: median(all('post')) },
    fdatasync: { subject: median(all('fdatasync')) },
    daemonCpu: perAction(cpu.daemonCpu, daemon.pid),
    shellCpu: perAction(cpu.shellCpu, shell),
    notes: {
      samples: action.length,
      quantiles: Object.fromEntries(Object.keys(kinds).map((kind) => [kind, quantilesOf(all(kind))])),
    },
  };
}

async function echoAction(client) {
  const content = await runCommand(client, 'echo hi');
  if (content !== 'hi') throw new Error(`echo hi answered ${JSON.stringify(content)}`);
}

async function terminalEcho(context) {
  const shell = await RawShell.start(context);
  let count = 0;
  return () => {
    count += 1;
    return shell.echo(`token-${count}`);
  };
}

async function emptyPost(context) {
  const { client } = await startBareServer(context);
  return () => client.postJson('/', {});
}

function durableAppend(context) {
  const file = openSync(path.join(context.makeDirectory('log'), 'log'), 'a');
  context.defer(() => closeSync(file));
  const event = Buffer.alloc(EVENT_BYTES, 'x');
  return () => {
    writeSync(file, event);
    fdatasyncSync(file);
  };
}

/** Milliseconds of each sample by kind. */
async function sampleRound(kinds) {
  const round = {};
  for (const [kind, once] of Object.entries(kinds)) {
    round[kind] = [];
    for (let sample = 0; sample < BLOCK; sample += 1) {
      const startedAt = performance.now();
      await once();
      round[kind].push(performance.now() - startedAt);
    }
  }
  return round;
}

function baselineOf(timeOf) {
  return timeOf('terminal') + timeOf('post') + timeOf('fdatasync');
}

function quantilesOf(values) {
  return Object.fromEntries([0.5, 0.9, 0.99, 1].map((q) => [q, quantile(values, q)]));
}
