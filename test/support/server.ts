import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../src/config.ts';
import { Server } from '../../src/server.ts';
import { createLogger } from '../../src/telemetry/logger.ts';

export interface TestReply {
  readonly status: number;
  readonly headers: Headers;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of every shape
  readonly json: any;
}

export interface RunOptions {
  readonly timeout?: number;
  readonly is_input?: boolean;
  readonly blocking?: boolean;
  readonly is_static?: boolean;
  readonly cwd?: string;
  readonly hidden?: boolean;
  readonly session?: string;
}

/** What most assertions look at. */
export interface RunReply {
  readonly observation: string;
  readonly content: string;
  readonly exitCode: number;
  readonly prefix: string;
  readonly suffix: string;
  readonly cwd: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- the whole answer, for the rare rest
  readonly body: any;
}

/** A real server in this process, on a free loopback port, with directories of its own; `await using` ends it. */
export class TestServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #root: string;
  readonly workingDir: string;
  readonly url: string;

  private constructor(server: Server, root: string, workingDir: string) {
    this.#server = server;
    this.#root = root;
    this.workingDir = workingDir;
    this.url = `http://127.0.0.1:${server.port}`;
  }

  static async start(flags: readonly string[] = [], env: Readonly<Record<string, string>> = {}): Promise<TestServer> {
    const root = mkdtempSync(join(tmpdir(), 'actiond-test-'));
    const workingDir = join(root, 'work');
    const argv = [
      '0',
      '--working-dir',
      workingDir,
      '--state-dir',
      join(root, 'state'),
      '--log-level',
      'silent',
      ...flags,
    ];
    const loaded = loadConfig(argv, { ...process.env, ...env }, root, '0.0.0');
    if (loaded.kind !== 'run') throw new Error(loaded.kind === 'error' ? loaded.message : loaded.text);
    return new TestServer(await Server.start(loaded.config, createLogger('silent')), root, workingDir);
  }

  async request(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<TestReply> {
    const hasBody = body !== undefined;
    const reply = await fetch(this.url + path, {
      method,
      headers: { ...(hasBody ? { 'content-type': 'application/json' } : {}), ...headers },
      ...(hasBody ? { body: typeof body === 'string' ? body : JSON.stringify(body) } : {}),
    });
    const text = await reply.text();
    return { status: reply.status, headers: reply.headers, json: parse(text) };
  }

  /** A `run` as V0's client sends it with an explicit timeout: blocking, 30 s unless said. */
  run(command: string, options: RunOptions = {}): Promise<RunReply> {
    const { timeout = 30, blocking = true, ...args } = options;
    return this.action({ action: 'run', args: { command, blocking, ...args }, timeout });
  }

  /** A `run` without an explicit timeout: ends with the silence limit. */
  soft(command: string, options: RunOptions = {}): Promise<RunReply> {
    const { timeout, ...args } = options;
    return this.action({
      action: 'run',
      args: { command, blocking: false, ...args },
      ...(timeout === undefined ? {} : { timeout }),
    });
  }

  input(command: string, options: RunOptions = {}): Promise<RunReply> {
    return this.soft(command, { is_input: true, ...options });
  }

  async action(action: object): Promise<RunReply> {
    const { status, json } = await this.request('POST', '/execute_action', { action });
    if (status !== 200) throw new Error(`HTTP ${status}: ${JSON.stringify(json)}`);
    const metadata = json.extras?.metadata ?? {};
    return {
      observation: json.observation,
      content: json.content,
      exitCode: metadata.exit_code,
      prefix: metadata.prefix,
      suffix: metadata.suffix,
      cwd: metadata.working_dir,
      body: json,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop();
    rmSync(this.#root, { recursive: true, force: true });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
