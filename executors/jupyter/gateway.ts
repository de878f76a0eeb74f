import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { makeExpendable } from '../../src/sandbox/out-of-memory.ts';
import { endProcesses } from '../../src/sandbox/processes.ts';
import { isObject } from './messages.ts';
import { gatewaySource } from './python-side.ts';
import { type Endpoint, JupyterError, listKernelSpecs } from './rest.ts';
import { commandAs, findInterpreter, type KernelAccount, notExecutable } from './interpreter.ts';
import { INSTALL_HINT } from './texts.ts';

/** Where kernels are started: a server that is there already, or one of our own. */
export interface Gateway {
  /** Whether its processes are on this machine and ours. */
  readonly isLocal: boolean;
  /** Makes sure that it runs. @throws JupyterError */
  start(): Promise<Endpoint>;
  /** The one at an address does not answer any more: if there is no other yet, the next start makes one. */
  giveUp(endpoint: Endpoint): void;
  /** Called when it has ended by itself, with the cause. */
  onExit: (cause: string) => void;
  stop(): Promise<void>;
}

/** A Jupyter server that somebody else runs. */
export class ExternalGateway implements Gateway {
  readonly isLocal = false;
  readonly #endpoint: Endpoint;
  #isKnown = false;
  onExit: (cause: string) => void = ignore;

  constructor(url: string, token: string) {
    this.#endpoint = { url: url.replace(/\/+$/, ''), token };
  }

  async start(): Promise<Endpoint> {
    if (!this.#isKnown) await listKernelSpecs(this.#endpoint);
    this.#isKnown = true;
    return this.#endpoint;
  }

  giveUp(): void {
    // Nobody here can end it.
  }

  async stop(): Promise<void> {}
}

export interface ChildGatewayOptions {
  /** Interpreters to try, in order; names are looked up on the PATH of `env`. */
  readonly interpreters: readonly string[];
  /** Account to switch to; undefined keeps the server's own. */
  readonly account: KernelAccount | undefined;
  readonly env: Readonly<Record<string, string>>;
  /** For the program, connection files and sockets; only the account may look into it. */
  readonly directory: string;
  readonly onLog: (text: string) => void;
}

const START_LIMIT_MS = 60_000;
const STOP_GRACE_MS = 300;
/** For what a gateway that has ended says; something that it has started may hold the pipe for longer. */
const LAST_WORDS_MS = 5000;
/** Last part of the log, for the reason of a failure. */
const MAX_LOG_CHARS = 4000;
/** As gateway.py ends when the interpreter has no Jupyter. */
const NOT_INSTALLED = 3;
const MARK_VARIABLE = 'ACTIOND_JUPYTER';
/** Not importable, so that it hides no module of Python's. */
const PROGRAM = 'jupyter-kernelgateway';

interface Child {
  readonly mark: string;
  readonly process: ChildProcess;
  readonly endpoint: Endpoint;
}

/** A kernel gateway of our own, on a free port of the loopback interface, with a random token. */
export class ChildGateway implements Gateway {
  readonly isLocal = true;
  readonly #options: ChildGatewayOptions;
  /** In the environment of a gateway and of its kernels, one for each start: finds them when it is gone. */
  readonly #marks = new Set<string>();
  #child: Child | undefined;
  #starting: Promise<Endpoint> | undefined;
  #isStopped = false;
  onExit: (cause: string) => void = ignore;

  constructor(options: ChildGatewayOptions) {
    this.#options = options;
  }

  start(): Promise<Endpoint> {
    if (this.#isStopped) return Promise.reject(new JupyterError('The server is shutting down.'));
    this.#prepareDirectory();
    if (this.#child) return Promise.resolve(this.#child.endpoint);
    this.#starting ??= this.#startAny().finally(() => (this.#starting = undefined));
    return this.#starting;
  }

  giveUp(endpoint: Endpoint): void {
    const child = this.#child;
    if (child?.endpoint !== endpoint) return;
    this.#child = undefined;
    child.process.kill('SIGKILL');
    this.onExit('it did not answer');
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.onExit = ignore;
    await Promise.all(Array.from(this.#marks, (mark) => this.#endProcesses(mark)));
    rmSync(this.#options.directory, { recursive: true, force: true });
  }

  async #endProcesses(mark: string): Promise<void> {
    await endProcesses({ mark: `${MARK_VARIABLE}=${mark}` }, STOP_GRACE_MS);
    this.#marks.delete(mark);
  }

  /** Every time: a command may have emptied the temporary directory. */
  #prepareDirectory(): void {
    const { directory, account } = this.#options;
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    if (account) chownSync(directory, account.uid, account.gid);
  }

  /** The first interpreter that has Jupyter. */
  async #startAny(): Promise<Endpoint> {
    const reasons: string[] = [];
    for (const candidate of this.#options.interpreters) {
      const interpreter = findInterpreter(candidate, this.#options.env);
      if (interpreter === undefined) {
        if (candidate.includes('/')) reasons.push(`${candidate}: not found`);
        continue;
      }
      const outcome = await this.#startWith(interpreter);
      if (this.#isStopped) throw new JupyterError('The server is shutting down.');
      if (typeof outcome !== 'string') {
        this.#child = outcome;
        return outcome.endpoint;
      }
      reasons.push(`${interpreter}: ${outcome}`);
    }
    const found = reasons.length > 0 ? ` (${reasons.join('; ')})` : '';
    throw new JupyterError(`Jupyter could not be started${found}. ${INSTALL_HINT}`);
  }

  /** @returns why it does not run */
  async #startWith(interpreter: string): Promise<Child | string> {
    const { directory, account, env, onLog } = this.#options;
    const program = join(directory, PROGRAM);
    writeFileSync(program, gatewaySource(), { mode: 0o644 });
    const [file = '', ...args] = commandAs(account, [interpreter, '-u', program]);
    const mark = randomUUID();
    this.#marks.add(mark);
    const child = spawn(file, args, {
      cwd: '/',
      env: { ...env, [MARK_VARIABLE]: mark },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    makeExpendable(child.pid);
    let log = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-MAX_LOG_CHARS);
      onLog(text);
    });
    child.stdin.on('error', ignore);
    const token = randomBytes(24).toString('hex');
    child.stdin.write(`${JSON.stringify({ token, runtime_dir: directory })}\n`);
    const closed = once(child, 'close');
    closed.catch(ignore);
    const outcome = await outcomeOf(child);
    if (typeof outcome === 'number') {
      child.once(
        'exit',
        (code, signal) => void this.#onExit(mark, signal ? `killed by ${signal}` : `exit code ${code}`),
      );
      return { mark, process: child, endpoint: { url: `http://127.0.0.1:${outcome}`, token } };
    }
    child.kill('SIGKILL');
    this.#marks.delete(mark);
    // Its last words may be on their way.
    await Promise.race([closed.catch(ignore), delay(LAST_WORDS_MS, undefined, { ref: false })]);
    if (outcome.exitCode === NOT_INSTALLED) return lastLine(log) || 'it has no Jupyter';
    const refusal = notExecutable(account, outcome.exitCode);
    if (refusal !== undefined) return refusal;
    return `${outcome.reason}${log === '' ? '' : `: ${lastLine(log)}`}`;
  }

  /** Kernels may outlive it, and nobody could reach them. */
  async #onExit(mark: string, cause: string): Promise<void> {
    if (this.#child?.mark === mark) {
      this.#child = undefined;
      this.onExit(cause);
    }
    await this.#endProcesses(mark);
  }
}

type Outcome = number | { readonly reason: string; readonly exitCode: number | undefined };

/** The port, or why there is none. */
function outcomeOf(child: ChildProcess): Promise<Outcome> {
  return new Promise((resolve) => {
    const timer = setTimeout(
      () => resolve({ reason: `not ready within ${START_LIMIT_MS / 1000} s`, exitCode: undefined }),
      START_LIMIT_MS,
    );
    const finish = (outcome: Outcome): void => {
      clearTimeout(timer);
      resolve(outcome);
    };
    child.once('error', (error) => finish({ reason: error.message, exitCode: undefined }));
    child.once('exit', (code, signal) =>
      finish({ reason: signal ? `killed by ${signal}` : `exit code ${code}`, exitCode: code ?? undefined }),
    );
    if (!child.stdout) return;
    createInterface({ input: child.stdout }).on('line', (line) => {
      const port = portOf(line);
      if (port !== undefined) finish(port);
    });
  });
}

function portOf(line: string): number | undefined {
  try {
    const ready: unknown = JSON.parse(line);
    return isObject(ready) && typeof ready['port'] === 'number' ? ready['port'] : undefined;
  } catch {
    return undefined;
  }
}

function lastLine(log: string): string {
  return log.trimEnd().split('\n').at(-1) ?? '';
}

function ignore(): void {
  // Nothing to do.
}
