import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chownSync, rmSync, writeFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { SubsystemHealth } from '../../src/dispatch/executor.ts';
import { makeExpendable } from '../../src/sandbox/out-of-memory.ts';
import { isExecutable } from '../../src/util/access.ts';
import { canConnect, isFree } from './port.ts';
import type { VscodeOptions } from './options.ts';

/** Where images of OpenHands have it; else it is looked up on the PATH. */
const PLACES = ['/openhands/.openvscode-server/bin/openvscode-server', '/opt/openvscode-server/bin/openvscode-server'];
const NAMES = ['openvscode-server'];

const SETTINGS = {
  'workbench.colorTheme': 'Default Dark Modern',
  'workbench.startupEditor': 'none',
  'chat.commandCenter.enabled': false,
};

const POLL_MS = 50;
/** Somebody asks once and keeps the answer, within ten seconds (V0 §9.3). */
const TOKEN_WAIT_MS = 8000;
const STOP_GRACE_MS = 700;
/** After so many deaths it stays down. */
const MAX_RESTARTS = 5;
const RESTART_DELAY_MS = 1000;

/** openvscode-server as a child: started beside everything else, watched, started again when it dies. */
export class VscodeService {
  readonly #options: VscodeOptions;
  readonly #token = randomUUID();
  readonly #stopping = new AbortController();
  #health: SubsystemHealth = { status: 'starting' };
  #settled: Promise<void> = Promise.resolve();
  #child: ChildProcess | undefined;

  constructor(options: VscodeOptions) {
    this.#options = options;
  }

  /** Does not wait. */
  start(): void {
    this.#settled = this.#begin(0);
  }

  health(): SubsystemHealth {
    return this.#health;
  }

  /** The token of the server that runs; null when there is none. Waits a while for one that starts. */
  async token(): Promise<string | null> {
    await Promise.race([this.#settled, delay(TOKEN_WAIT_MS, undefined, { ref: false })]);
    return this.#health.status === 'ready' ? this.#token : null;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    const child = this.#child;
    if (child?.exitCode === null && child.signalCode === null) {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await Promise.race([ended, delay(STOP_GRACE_MS, undefined, { ref: false })]);
      child.kill('SIGKILL');
    }
    rmSync(this.#tokenFile, { force: true });
  }

  get #tokenFile(): string {
    return join(this.#options.runtimeDir, 'vscode-token');
  }

  async #begin(restarts: number): Promise<void> {
    const { port, refusal } = this.#options;
    if (refusal !== undefined) return this.#be('off', refusal);
    if (port === undefined) return this.#be('off', 'VSCODE_PORT is not set');
    const program = this.#find();
    if (program === undefined) {
      return this.#be('off', `openvscode-server is not in this image: neither on the PATH nor at ${PLACES.join(', ')}`);
    }
    this.#be('starting');
    try {
      if (!(await isFree(port))) throw new Error(`port ${port} is in use: set VSCODE_PORT to a free one`);
      await this.#writeSettings();
      await this.#launch(program, port, restarts);
      this.#be('ready');
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#be('failed', `openvscode-server: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  #be(status: SubsystemHealth['status'], reason?: string): void {
    this.#health = reason === undefined ? { status } : { status, reason };
    if (reason !== undefined) this.#options.onLog(reason);
  }

  #find(): string | undefined {
    const path = this.#options.env['PATH'] ?? '';
    const onPath = path.split(delimiter).flatMap((directory) => NAMES.map((name) => join(directory, name)));
    return [...PLACES, ...onPath].find(isExecutable);
  }

  /** As V0 does, but a file that somebody has written stays. */
  async #writeSettings(): Promise<void> {
    const directory = join(this.#options.settingsDirectory, '.vscode');
    const file = join(directory, 'settings.json');
    const { account } = this.#options;
    try {
      await mkdir(directory);
      if (account) chownSync(directory, account.uid, account.gid);
    } catch {
      // It is there, or what it should be in is not: then the next line says so.
    }
    try {
      await writeFile(file, `${JSON.stringify(SETTINGS, null, 4)}\n`, { flag: 'wx', mode: 0o666 });
      if (account) chownSync(file, account.uid, account.gid);
    } catch (error) {
      const isThere = error instanceof Error && 'code' in error && error.code === 'EEXIST';
      if (!isThere) this.#options.onLog(`${file} could not be written: ${String(error)}`);
    }
  }

  /** Resolves when the port answers. @throws why it does not */
  async #launch(program: string, port: number, restarts: number): Promise<void> {
    const { account, env, directory, basePath, startLimitMs, onLog } = this.#options;
    // In a file: arguments can be read by every user of the machine.
    writeFileSync(this.#tokenFile, this.#token, { mode: 0o600 });
    if (account) chownSync(this.#tokenFile, account.uid, account.gid);
    const command = [program, '--host', '0.0.0.0', '--port', `${port}`, '--connection-token-file', this.#tokenFile];
    command.push('--disable-workspace-trust', '--default-folder', directory);
    if (basePath !== undefined) command.push('--server-base-path', basePath);
    const [file = '', ...args] = account
      ? ['setpriv', `--reuid=${account.uid}`, `--regid=${account.gid}`, '--init-groups', '--', ...command]
      : command;
    const child = spawn(file, args, { cwd: directory, env: { ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    makeExpendable(child.pid);
    this.#child = child;
    let cause: string | undefined;
    let isReady = false;
    const onEnd = (text: string): void => {
      if (cause !== undefined) return;
      cause = text;
      if (isReady && !this.#stopping.signal.aborted) this.#restart(text, restarts);
    };
    child.once('error', (error) => onEnd(error.message));
    child.once('exit', (code, signal) => onEnd(signal ? `killed by ${signal}` : `it ended with exit code ${code}`));
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) =>
        onLog(line.slice(0, 1000).replaceAll(this.#token, '<token>')),
      );
    }
    const end = performance.now() + startLimitMs;
    while (cause === undefined && !(await canConnect(port))) {
      if (performance.now() > end) {
        child.kill('SIGKILL');
        throw new Error(`it did not listen on port ${port} within ${startLimitMs / 1000} s`);
      }
      await delay(POLL_MS, undefined, { signal: this.#stopping.signal });
    }
    if (cause !== undefined) throw new Error(cause);
    isReady = true;
  }

  #restart(cause: string, restarts: number): void {
    if (restarts >= MAX_RESTARTS)
      return this.#be('failed', `openvscode-server: ${cause}; it has been started ${restarts + 1} times`);
    this.#be('starting', `openvscode-server: ${cause}; it is started again`);
    this.#settled = delay(RESTART_DELAY_MS * 2 ** restarts, undefined, { signal: this.#stopping.signal })
      .then(() => this.#begin(restarts + 1))
      .catch(ignore);
  }
}

function ignore(): void {
  // The server stops.
}
