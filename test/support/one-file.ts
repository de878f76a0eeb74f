import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { freePort } from './port.ts';
import { until } from './wait.ts';

const REPOSITORY = join(import.meta.dirname, '../..');
const IN_CHROOT = join(REPOSITORY, 'scripts/one-file/in-chroot.sh');
/** A Debian 11, which has glibc 2.31, without anything that is not essential; made once for a checkout. */
const ROOT = join(REPOSITORY, '.cache/bullseye');

/** Why there can be no such test on this machine; undefined: there can. */
export function obstacle(): string | undefined {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'the executable is for x86-64 Linux';
  if (process.getuid?.() !== 0) return 'making and entering another system needs root';
  const missing = ['/usr/sbin/debootstrap', '/usr/bin/tini-static', '/usr/bin/g++', '/usr/bin/objdump'].filter(
    (file) => !existsSync(file),
  );
  return missing.length > 0 ? `${missing.join(', ')} missing` : undefined;
}

/** The executable in a bare system. */
export function buildIntoBareSystem(): void {
  if (!existsSync(join(ROOT, 'etc/debian_version'))) {
    const fresh = `${ROOT}.${process.pid}`;
    mkdirSync(fresh, { recursive: true });
    execFileSync('debootstrap', ['--variant=minbase', 'bullseye', fresh], { stdio: 'pipe' });
    rmSync(ROOT, { recursive: true, force: true });
    renameSync(fresh, ROOT);
  }
  const executable = join(ROOT, 'usr/local/bin/actiond');
  execFileSync(process.execPath, ['scripts/bundle.mjs', '--outfile', executable], { cwd: REPOSITORY, stdio: 'pipe' });
  // What a container engine would put there.
  writeFileSync(join(ROOT, 'etc/hosts'), '127.0.0.1 localhost\n');
}

export interface BareDaemonOptions {
  readonly flags?: readonly string[];
  readonly isPid1?: boolean;
  /** Copied to its /tmp. */
  readonly files?: readonly string[];
}

/** The executable at work in the bare system; `directory` is what it knows as /tmp. */
export class BareDaemon implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #isPid1: boolean;
  readonly exited: Promise<number | null>;
  readonly directory: string;
  readonly url: string;
  log = '';

  private constructor(port: number, { flags = [], isPid1 = false, files = [] }: BareDaemonOptions) {
    this.directory = mkdtempSync(join(tmpdir(), 'one-file-'));
    this.url = `http://127.0.0.1:${port}`;
    this.#isPid1 = isPid1;
    mkdirSync(join(this.directory, 'work'));
    for (const file of files) copyFileSync(file, join(this.directory, basename(file)));
    const daemon = [
      '/usr/local/bin/actiond',
      `${port}`,
      '--working-dir',
      '/tmp/work',
      '--state-dir',
      '/tmp/state',
      ...flags,
    ];
    this.#child = spawn('sh', [IN_CHROOT, ...(isPid1 ? ['--pid1'] : []), '--tmp', this.directory, ROOT, ...daemon], {
      env: { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => (this.log += text));
    this.exited = new Promise((resolve) => this.#child.once('close', resolve));
  }

  static async start(options: BareDaemonOptions = {}): Promise<BareDaemon> {
    const daemon = new BareDaemon(await freePort(), options);
    let exitCode: number | null | undefined;
    void daemon.exited.then((code) => (exitCode = code));
    await until('the executable to serve', async () => {
      if (exitCode !== undefined) throw new Error(`it ended with ${exitCode}: ${daemon.log}`);
      return (await fetch(`${daemon.url}/alive`).catch(() => undefined))?.ok ?? false;
    });
    return daemon;
  }

  async action(action: string, args: object): Promise<{ observation: string; content: string; exitCode: number }> {
    const reply = await fetch(`${this.url}/execute_action`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ action: { action, args, timeout: 60 } }),
    });
    const body = (await reply.json()) as {
      observation: string;
      content: string;
      extras?: { metadata?: { exit_code: number } };
    };
    return { observation: body.observation, content: body.content, exitCode: body.extras?.metadata?.exit_code ?? -2 };
  }

  async json(path: string): Promise<Record<string, unknown>> {
    return (await (await fetch(this.url + path)).json()) as Record<string, unknown>;
  }

  /** SIGTERM to the daemon, or to its PID 1. @returns the exit code */
  async stop(): Promise<number | null> {
    const { pid = 0 } = this.#child;
    const children = this.#isPid1 ? readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim() : '';
    process.kill(this.#isPid1 ? Number(children) : pid, 'SIGTERM');
    return this.exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.exited;
    rmSync(this.directory, { recursive: true, force: true });
  }
}
