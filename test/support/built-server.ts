import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const REPOSITORY = join(import.meta.dirname, '../..');
const START_LIMIT_MS = 60_000;

/** The daemon as it is shipped, built from the sources as they are now into a directory of its own. */
export class Build implements Disposable {
  readonly #root = mkdtempSync(join(tmpdir(), 'actiond-build-'));
  readonly main = join(this.#root, 'dist/main.js');

  constructor() {
    // What stays outside the bundle is looked for from the bundle on upwards.
    symlinkSync(join(REPOSITORY, 'node_modules'), join(this.#root, 'node_modules'));
    execFileSync(process.execPath, ['scripts/build.mjs', '--outdir', join(this.#root, 'dist')], {
      cwd: REPOSITORY,
      stdio: 'pipe',
    });
  }

  /** A new empty directory that goes with the build. */
  directory(name: string): string {
    const path = join(this.#root, name);
    mkdirSync(path, { recursive: true });
    return path;
  }

  [Symbol.dispose](): void {
    rmSync(this.#root, { recursive: true, force: true });
  }
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** One process of the daemon; disposing kills it. */
export class Daemon implements Disposable {
  readonly #child: ChildProcess;
  readonly exited: Promise<Exit>;
  stdout = '';
  stderr = '';

  constructor(
    build: Build,
    args: readonly string[],
    options: {
      readonly env?: Readonly<Record<string, string>>;
      readonly cwd?: string;
      /** What it is started by, such as `tini -s --`. */
      readonly init?: readonly string[];
    } = {},
  ) {
    const [program = '', ...rest] = [...(options.init ?? []), process.execPath, build.main, ...args];
    this.#child = spawn(program, rest, {
      cwd: options.cwd ?? build.directory('cwd'),
      env: {
        PATH: process.env['PATH'] ?? '',
        HOME: process.env['HOME'] ?? '/',
        USER: process.env['USER'] ?? '',
        ...options.env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.exited = new Promise((resolve) => this.#child.once('close', (code, signal) => resolve({ code, signal })));
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** The address it serves on, once it says so. */
  async url(): Promise<string> {
    const end = performance.now() + START_LIMIT_MS;
    let isOver = false;
    void this.exited.then(() => (isOver = true));
    while (performance.now() < end && !isOver) {
      const line = this.stdout.split('\n').find((candidate) => candidate.includes('"serving"'));
      if (line !== undefined) return `http://127.0.0.1:${(JSON.parse(line) as { port: number }).port}`;
      await new Promise((resolve) => this.#child.stdout?.once('data', resolve).once('close', resolve));
    }
    throw new Error(`the daemon does not serve: ${this.stdout}${this.stderr}`);
  }

  [Symbol.dispose](): void {
    this.#child.kill('SIGKILL');
  }
}

export interface RunAnswer {
  readonly status: number;
  readonly content: string;
  readonly exitCode: number;
  readonly suffix: string;
  readonly username: string | null;
}

/** A blocking `run` of 30 s, unless said otherwise. */
export async function run(
  url: string,
  command: string,
  {
    timeout = 30,
    key,
    ...args
  }: { timeout?: number; key?: string; is_input?: boolean; blocking?: boolean; session?: string } = {},
): Promise<RunAnswer> {
  const reply = await fetch(`${url}/execute_action`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { 'x-session-api-key': key }) },
    body: JSON.stringify({ action: { action: 'run', args: { command, blocking: true, ...args }, timeout } }),
  });
  const body = (await reply.json()) as {
    content?: string;
    extras?: { metadata?: { exit_code: number; suffix: string; username: string | null } };
  };
  const metadata = body.extras?.metadata;
  return {
    status: reply.status,
    content: body.content ?? '',
    exitCode: metadata?.exit_code ?? -2,
    suffix: metadata?.suffix ?? '',
    username: metadata?.username ?? null,
  };
}
