import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import http from 'node:http';
import { createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { HttpClient } from './http-client.mjs';

const POLL_MS = 1;
const START_LIMIT_MS = 30_000;

/**
 * The daemon as built, with directories of its own and an empty HOME: start-up files of the shell are the machine's, not ours.
 * `readyMs` is the time from the spawn to `/alive` 200. `executable` takes the place of Node with `dist/main.js`.
 */
export async function startDaemon(context, { env = {}, executable } = {}) {
  const directory = context.makeDirectory('daemon');
  const [home, temporary, state, work] = ['home', 'tmp', 'state', 'work'].map((name) => path.join(directory, name));
  for (const each of [home, temporary, state, work]) mkdirSync(each);
  const port = await freePort();
  const args = [String(port), '--working-dir', work, '--state-dir', state, '--log-level', 'silent'];
  const server = await start(context, {
    file: executable,
    args: executable ? args : [...context.nodeOptions, path.join(context.root, 'dist/main.js'), ...args],
    env: { HOME: home, TMPDIR: temporary, ...env },
    port,
    readyPath: '/alive',
  });
  return { ...server, temporary, state };
}

/** What every Node daemon pays for: Fastify with one route. */
export async function startBareServer(context) {
  const port = await freePort();
  const args = [path.join(context.root, 'bench/bare-server.mjs'), String(port)];
  return start(context, { args, env: {}, port, readyPath: '/' });
}

/** Runs a command as an action; anything but success rejects, so that no failure is taken for speed. */
export async function runCommand(client, command, timeoutSeconds) {
  const action = { action: 'run', args: { command }, timeout: timeoutSeconds };
  const observation = await client.postJson('/execute_action', { action });
  if (observation.extras?.metadata?.exit_code !== 0) throw new Error(`${command}: ${JSON.stringify(observation)}`);
  return observation.content;
}

async function start(context, { file = process.execPath, args, env, port, readyPath }) {
  const startedAt = performance.now();
  const child = spawn(file, args, {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const exited = once(child, 'exit');
  const client = new HttpClient(port);
  const stop = async () => {
    client.close();
    child.kill();
    await exited;
  };
  context.defer(stop);
  await untilAnswered(child, port, readyPath);
  return { pid: child.pid, port, client, stop, readyMs: performance.now() - startedAt };
}

async function untilAnswered(child, port, readyPath) {
  const deadline = performance.now() + START_LIMIT_MS;
  while ((await statusOf(port, readyPath)) !== 200) {
    if (child.exitCode !== null || performance.now() > deadline)
      throw new Error(`${child.spawnargs.join(' ')}: did not start`);
    await delay(POLL_MS);
  }
}

function statusOf(port, readyPath) {
  return new Promise((resolve) => {
    const request = http.get({ host: '127.0.0.1', port, path: readyPath, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    request.on('error', () => resolve(undefined));
  });
}

async function freePort() {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}
