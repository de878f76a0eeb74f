import { type ChildProcess, spawn } from 'node:child_process';
import { chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type * as Driver from 'playwright-core';
import { makeExpendable } from '../../src/sandbox/out-of-memory.ts';
import { findProcesses, signalProcess } from '../../src/sandbox/processes.ts';
import { browserArguments, PREFERENCES } from './arguments.ts';
import { CdpConnection } from './cdp.ts';
import { isExecutable } from '../../src/util/access.ts';
import { findExecutable } from './executable.ts';
import {
  CLOSE_LIMIT_MS,
  LAUNCH_LIMIT_MS,
  MAX_STDERR_CHARS,
  MAX_TEMPORARY_DIR_BYTES,
  PROBE_LIMIT_MS,
} from './limits.ts';
import { ifWithin, within } from './within.ts';

export interface LaunchOptions {
  /** The browser's file; undefined: looked for. */
  readonly path: string | undefined;
  readonly env: Readonly<Record<string, string>>;
  /** Account to run as; undefined: the server's own. */
  readonly account: { readonly uid: number; readonly gid: number } | undefined;
  /** Where the profile is made; it goes with the browser. */
  readonly runtimeDir: string;
  readonly hasPort: boolean;
  readonly extraArguments: readonly string[];
  readonly warn: (text: string) => void;
}

/** Why there is no browser, in words that say what to do. */
export class LaunchError extends Error {
  override name = 'LaunchError';
}

const MISSING =
  'Chromium was not found. Install it (on Debian and Ubuntu: apt-get install chromium), or name its file with --browser-path.';

/** One running browser with a profile of its own. It ends with `close`, by itself, or when this process ends: its pipes break. */
export class BrowserProcess {
  readonly startedAt = performance.now();
  readonly pid: number;
  readonly cdp: CdpConnection;
  readonly browser: Driver.Browser;
  readonly #child: ChildProcess;
  readonly #profileDir: string;
  readonly #exited: Promise<void>;
  #isEnded = false;

  private constructor(started: Started, browser: Driver.Browser) {
    this.#child = started.child;
    this.#profileDir = started.profileDir;
    this.#exited = started.exited;
    this.pid = started.child.pid ?? 0;
    this.cdp = started.cdp;
    this.browser = browser;
    this.cdp.onClose(() => void this.close());
    void this.#exited.then(() => this.#clean());
  }

  /** @throws LaunchError */
  static async launch(options: LaunchOptions): Promise<BrowserProcess> {
    const loading = import('playwright-core');
    loading.catch(() => {});
    const isRoot = (options.account?.uid ?? process.getuid?.()) === 0;
    const found = findExecutable(options.path, options.env['PATH'] ?? '') ?? (await driversOwn(options.path, loading));
    if (found === undefined) throw new LaunchError(missingText(options.path));
    const started = await startSandboxed(found, options, !isRoot);
    try {
      const { cdp, profileDir } = started;
      await within(LAUNCH_LIMIT_MS, cdp.start());
      const { chromium } = await loading;
      const connecting = chromium.connectOverCDP(cdp.transport, {
        isLocal: true,
        noDefaults: true,
        artifactsDir: profileDir,
        timeout: LAUNCH_LIMIT_MS,
      });
      return new BrowserProcess(started, await within(LAUNCH_LIMIT_MS, connecting));
    } catch (error) {
      await started.kill();
      throw new LaunchError(`Chromium did not answer: ${error instanceof Error ? error.message : String(error)}`, {
        cause: error,
      });
    }
  }

  get isEnded(): boolean {
    return this.#isEnded || this.cdp.isClosed;
  }

  get ageMs(): number {
    return performance.now() - this.startedAt;
  }

  /** @returns what ends the listening */
  onEnd(listener: () => void): () => void {
    return this.cdp.onClose(listener);
  }

  /** Memory of its own, of all its processes, in bytes. */
  memoryBytes(): number {
    const pids = [this.pid, ...findProcesses({ root: this.pid }).map(({ pid }) => pid)];
    return pids.reduce((sum, pid) => sum + privateBytes(pid), 0);
  }

  /** Where other clients of the DevTools protocol can attach, on loopback; undefined without a port. */
  endpoint(): { readonly port: number; readonly path: string } | undefined {
    try {
      const [port = '', path = ''] = readFileSync(join(this.#profileDir, 'DevToolsActivePort'), 'utf8').split('\n');
      return { port: Number(port), path };
    } catch {
      return undefined;
    }
  }

  /** Ends it if it has stopped to answer; one that was killed a moment ago is known to have ended afterwards. */
  async check(): Promise<void> {
    const answer = await ifWithin(PROBE_LIMIT_MS, this.cdp.send('Browser.getVersion', {}));
    if (answer !== undefined) return;
    this.#isEnded = true;
    await this.close();
  }

  /** Resolves when nothing of it is left. */
  async close(): Promise<void> {
    if (!this.#isEnded) {
      this.#isEnded = true;
      if (!this.cdp.isClosed) void this.cdp.send('Browser.close', {}).catch(() => {});
      await ifWithin(CLOSE_LIMIT_MS, this.#exited);
    }
    killGroup(this.#child);
    await this.#exited;
  }

  #clean(): void {
    this.#isEnded = true;
    // Helpers may outlive the process that they helped.
    killGroup(this.#child);
    void this.browser.close().catch(() => {});
    removeProfile(this.#profileDir);
  }
}

/** @returns what is missing for a launch, in words that say what to do; undefined when there is a browser */
export async function missingForLaunch({ path, env }: LaunchOptions): Promise<string | undefined> {
  if (findExecutable(path, env['PATH'] ?? '') !== undefined) return undefined;
  const own = await driversOwn(path, import('playwright-core'));
  return own === undefined ? missingText(path) : undefined;
}

function missingText(wanted: string | undefined): string {
  return wanted === undefined ? MISSING : `--browser-path ${wanted} is no program that can be run.`;
}

/** The browser that the driver was made for, if somebody let it download one. */
async function driversOwn(wanted: string | undefined, loading: Promise<typeof Driver>): Promise<string | undefined> {
  if (wanted !== undefined) return undefined;
  try {
    const path = (await loading).chromium.executablePath();
    return isExecutable(path) ? path : undefined;
  } catch {
    return undefined;
  }
}

interface Started {
  readonly child: ChildProcess;
  readonly cdp: CdpConnection;
  readonly profileDir: string;
  readonly exited: Promise<void>;
  kill(): Promise<void>;
}

/** Where the kernel does not let Chromium build its sandbox, it runs without: the sandbox of the whole machine is around it. */
async function startSandboxed(path: string, options: LaunchOptions, isSandboxed: boolean): Promise<Started> {
  try {
    return await start(path, options, isSandboxed);
  } catch (error) {
    if (!isSandboxed || !(error instanceof LaunchError) || !/sandbox|namespace|zygote/i.test(error.message))
      throw error;
    options.warn('Chromium cannot use its own sandbox here: it is started with --no-sandbox');
    return start(path, options, false);
  }
}

async function start(path: string, options: LaunchOptions, isSandboxed: boolean): Promise<Started> {
  const profileDir = makeProfile(options);
  const { account, hasPort, extraArguments: extra } = options;
  const child = spawn(path, browserArguments({ profileDir, isSandboxed, hasPort, extra }), {
    stdio: ['ignore', 'ignore', 'pipe', 'pipe', 'pipe'],
    // A process group of its own, to be ended as a whole.
    detached: true,
    cwd: profileDir,
    env: environment(options.env, profileDir),
    ...(account === undefined ? {} : { uid: account.uid, gid: account.gid }),
  });
  makeExpendable(child.pid);
  const [, , errors, output, input] = child.stdio;
  const said = collect(errors as Readable);
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', () => resolve());
  });
  const failure = new Promise<never>((_resolve, reject) => {
    child.once('error', (error) =>
      reject(new LaunchError(`Chromium (${path}) could not be started: ${error.message}`)),
    );
    child.once('exit', (code, signal) =>
      reject(
        new LaunchError(`Chromium (${path}) ended at once (${signal ?? `exit code ${code}`}): ${lastWords(said())}`),
      ),
    );
  });
  failure.catch(() => {});
  const cdp = new CdpConnection(output as Writable, input as unknown as Readable);
  const started = { child, cdp, profileDir, exited, kill: () => kill(child, exited, profileDir) };
  try {
    await within(LAUNCH_LIMIT_MS, Promise.race([cdp.send('Browser.getVersion', {}), failure]));
    return started;
  } catch (error) {
    const reason = await ifWithin(
      CLOSE_LIMIT_MS,
      failure.catch((problem: unknown) => problem),
    );
    await started.kill();
    if (reason instanceof LaunchError) throw reason;
    throw new LaunchError(`Chromium (${path}) did not start: ${lastWords(said())}`, { cause: error });
  }
}

/** All that it writes goes to its profile, which goes with it: when it is killed, it leaves what it has among the temporary files. */
function environment(given: Readonly<Record<string, string>>, profileDir: string): Record<string, string> {
  const home = { HOME: profileDir, XDG_CONFIG_HOME: profileDir, XDG_CACHE_HOME: profileDir };
  const isShort = Buffer.byteLength(profileDir) <= MAX_TEMPORARY_DIR_BYTES;
  return { ...given, ...home, ...(isShort ? { TMPDIR: profileDir } : {}) };
}

async function kill(child: ChildProcess, exited: Promise<void>, profileDir: string): Promise<void> {
  killGroup(child);
  await exited;
  removeProfile(profileDir);
}

function killGroup({ pid }: ChildProcess): void {
  if (pid !== undefined) signalProcess(-pid, 'SIGKILL');
}

function makeProfile({ runtimeDir, account }: LaunchOptions): string {
  const directory = mkdtempSync(join(runtimeDir, 'browser-'));
  const settings = join(directory, 'Default');
  mkdirSync(settings);
  writeFileSync(join(settings, 'Preferences'), JSON.stringify(PREFERENCES));
  if (account)
    for (const path of [directory, settings, join(settings, 'Preferences')]) chownSync(path, account.uid, account.gid);
  return directory;
}

function removeProfile(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true, maxRetries: 3, retryDelay: 50 });
  } catch {
    // A helper that is about to end still writes: the directory goes with the server's own.
  }
}

/** The end of what a stream says. */
function collect(stream: Readable): () => string {
  let text = '';
  stream.setEncoding('utf8').on('data', (chunk: string) => (text = (text + chunk).slice(-MAX_STDERR_CHARS)));
  return () => text;
}

/** Lines that say why, without what a machine without a desktop always says. */
function lastWords(text: string): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '' && !/dbus|unexpected operator/i.test(line));
  return lines.slice(-3).join(' ').slice(0, 600) || 'it said nothing';
}

const PAGE_BYTES = 4096;

function privateBytes(pid: number): number {
  try {
    const [, resident = '0', shared = '0'] = readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ');
    return (Number(resident) - Number(shared)) * PAGE_BYTES;
  } catch {
    return 0;
  }
}
