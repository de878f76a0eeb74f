import { once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { hasKernelPython, kernelPython } from '../lib/kernel-socket.mjs';
import { drainCommand } from '../lib/raw-terminal.mjs';
import { runCommand, startDaemon } from '../lib/servers.mjs';
import { median } from '../lib/stats.mjs';

const LIMIT_SECONDS = 2;
const STUBBORN = "trap '' INT TERM HUP";

/** How late the daemon is with what it promises in seconds. */
export default {
  name: 'limits',
  title: 'what is promised to come in time',
  unit: 'ms',
  target: {
    firstByte: {
      what: 'a first line to its `output` event, p50',
      against: 'raw node-pty',
      value: { atMost: 50 },
    },
    hardLimit: { what: 'a flood that ignores signals, beyond its limit, worst', value: { atMost: 1000 } },
    kernelDeath: { what: '`os._exit` in a cell to its answer, worst', value: { atMost: 1000 } },
    stop: { what: 'SIGTERM with such a flood to the end, worst', against: 'the same, idle', value: { atMost: 5000 } },
  },
  run,
};

async function run(context) {
  const rounds = { firstByte: [], hardLimit: [], kernelDeath: [], stop: [] };
  const { client, port } = await startDaemon(context, { env: kernelEnvironment(context) });
  for (let round = 0; round < (context.isQuick ? 5 : 30); round += 1)
    rounds.firstByte.push({ subject: await firstByte(client, port), baseline: await rawFirstByte() });
  for (let round = 0; round < (context.isQuick ? 1 : 5); round += 1) {
    rounds.hardLimit.push(await beyondLimit(client));
    if (hasKernelPython(context.root)) rounds.kernelDeath.push(await kernelDeath(client));
    rounds.stop.push({ subject: await stop(context, true), baseline: await stop(context, false) });
  }
  return {
    firstByte: { subject: middle(rounds.firstByte, 'subject'), baseline: middle(rounds.firstByte, 'baseline') },
    hardLimit: { subject: Math.max(...rounds.hardLimit) },
    kernelDeath: rounds.kernelDeath.length === 0 ? undefined : { subject: Math.max(...rounds.kernelDeath) },
    stop: {
      subject: Math.max(...rounds.stop.map(({ subject }) => subject)),
      baseline: middle(rounds.stop, 'baseline'),
    },
    notes: { rounds },
  };
}

/** Milliseconds since 1970, finer than those of Date. */
const now = () => performance.timeOrigin + performance.now();

const middle = (rounds, side) => median(rounds.map((round) => round[side]));

const kernelEnvironment = ({ root }) => (hasKernelPython(root) ? { ACTIOND_JUPYTER_PYTHON: kernelPython(root) } : {});

/** From what the command itself says of the time when it prints. */
async function firstByte(client, port) {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/events/stream`);
  const seen = new Promise((resolve) => {
    socket.on('message', (data) => {
      const arrivedAt = now();
      const { kind, text } = JSON.parse(data);
      const printedAt = kind === 'output' ? timeIn(text) : undefined;
      if (printedAt !== undefined) resolve(arrivedAt - printedAt);
    });
  });
  await once(socket, 'open');
  await runCommand(client, 'echo "at $EPOCHREALTIME"; sleep 0.2', 30);
  const late = await seen;
  socket.terminate();
  return late;
}

async function rawFirstByte() {
  let late;
  await drainCommand('bash -c \'echo "at $EPOCHREALTIME"; sleep 0.2\'', (chunk) => {
    const printedAt = timeIn(chunk.toString());
    if (printedAt !== undefined) late ??= now() - printedAt;
  });
  return late;
}

function timeIn(text = '') {
  const seconds = /at (\d+\.\d+)/.exec(text)?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

async function beyondLimit(client) {
  const args = { command: `${STUBBORN}; yes`, session: `flood-${performance.now()}` };
  const startedAt = performance.now();
  await client.postJson('/execute_action', { action: { action: 'run', args, timeout: LIMIT_SECONDS } });
  const late = performance.now() - startedAt - LIMIT_SECONDS * 1000;
  await client.delete(`/sessions/bash:${args.session}`);
  return late;
}

async function kernelDeath(client) {
  const cell = (code) =>
    client.postJson('/execute_action', { action: { action: 'run_ipython', args: { code }, timeout: 60 } });
  await cell('1');
  const startedAt = performance.now();
  const { content } = await cell('import os; os._exit(1)');
  if (!content.includes('The kernel died')) throw new Error(content);
  return performance.now() - startedAt;
}

async function stop(context, isBusy) {
  const daemon = await startDaemon(context);
  if (isBusy) {
    const marker = path.join(daemon.temporary, 'floods');
    const args = { command: `${STUBBORN}; touch ${marker}; yes` };
    daemon.client.postJson('/execute_action', { action: { action: 'run', args } }).catch(() => {});
    while (!existsSync(marker)) await delay(1);
  }
  const startedAt = performance.now();
  await daemon.stop();
  return performance.now() - startedAt;
}
