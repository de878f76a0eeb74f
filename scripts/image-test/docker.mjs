// Containers of the test, on the host's network.

import { execFile } from 'node:child_process';
import { createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** @returns what it wrote to standard output, trimmed */
export async function docker(...args) {
  const { stdout } = await run('docker', args, { maxBuffer: 64 * 2 ** 20 });
  return stdout.trim();
}

export async function imageExists(tag) {
  return (await docker('images', '-q', `actiond-test/${tag}`)) !== '';
}

export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export async function until(what, check, limitMs = 60_000) {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await check().catch(() => undefined);
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited ${limitMs / 1000} s for ${what}`);
    await delay(20);
  }
}

/** One running container with the daemon in it. */
class Container {
  constructor(id, port, startMs) {
    this.id = id;
    this.port = port;
    this.startMs = startMs;
    this.headers = { 'content-type': 'application/json' };
  }

  /**
   * @param options `options`: of `docker run`; `command`: behind the image, as a function of the port
   * @returns once `/alive` answers 200
   */
  static async start(tag, { options = [], command = () => [], environment = {}, path = '/alive' } = {}) {
    const port = await freePort();
    const variables = { ACTIOND_PORT: port, ...environment };
    const started = performance.now();
    const id = await docker(
      'run',
      '-d',
      '--label=actiond-test',
      '--network=host',
      ...Object.entries(variables).flatMap(([name, value]) => ['-e', `${name}=${value}`]),
      ...options,
      `actiond-test/${tag}`,
      ...command(port),
    );
    const container = new Container(id, port, 0);
    try {
      await until(`${path} of ${tag}`, async () => (await fetch(`http://127.0.0.1:${port}${path}`)).ok);
    } catch (error) {
      const { stdout, stderr } = await run('docker', ['logs', '--tail', '10', id]);
      await container.remove();
      throw new Error(`${error.message}; log:\n${stdout}${stderr}`, { cause: error });
    }
    container.startMs = performance.now() - started;
    return container;
  }

  async request(path, body) {
    const response = await fetch(`http://127.0.0.1:${this.port}${path}`, {
      headers: this.headers,
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });
    return response.json();
  }

  action(action, args, timeout = 60) {
    return this.request('/execute_action', { action: { action, args, timeout } });
  }

  bash(command, timeout = 60) {
    return this.action('run', { command, blocking: true }, timeout);
  }

  /** @returns seconds and exit code */
  async stop() {
    const started = performance.now();
    await docker('stop', '-t', '10', this.id);
    const seconds = (performance.now() - started) / 1000;
    return { seconds, code: Number(await docker('inspect', '-f', '{{.State.ExitCode}}', this.id)) };
  }

  async remove() {
    await docker('rm', '-f', '-v', this.id);
  }
}

/** Runs `use` with a container that is removed afterwards. */
export async function withContainer(tag, options, use) {
  const container = await Container.start(tag, options);
  try {
    return await use(container);
  } finally {
    await container.remove();
  }
}
