import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { errorObservation } from '../protocol/observations.ts';
import { makeExpendable } from '../sandbox/out-of-memory.ts';
import type { ActionContext } from './executor.ts';
import type { PluginAction, PluginResult } from './plugin.ts';

export interface PluginProcessOptions {
  /** Of the program; absolute. */
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Account to run it as; undefined keeps the server's own. */
  readonly account: { readonly uid: number; readonly gid: number } | undefined;
  /** For its first line. */
  readonly helloLimitMs: number;
  /** What it writes to standard error, line by line. */
  readonly onLog: (text: string) => void;
}

type Message = Readonly<Record<string, unknown>>;

interface Pending {
  readonly resolve: (result: PluginResult) => void;
  readonly reject: (error: Error) => void;
  readonly emit: ActionContext['emit'];
}

/** Longest line that is taken from a plugin; one that writes more is ended. */
const MAX_LINE_CHARS = 16 * 2 ** 20;
const MAX_LOG_LINE_CHARS = 2000;
/** Between being asked to end, by the end of its input, and being killed. */
const STOP_GRACE_MS = 500;
/** For an answer after `cancel`; then the program is killed. */
const CANCEL_GRACE_MS = 2000;

/** One life of a plugin's program: a JSON object for each line, both ways. */
export class PluginProcess {
  readonly #options: PluginProcessOptions;
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #pending = new Map<string, Pending>();
  readonly #exited: Promise<void>;
  readonly #first: Promise<Message>;
  #onFirst: ((message: Message) => void) | undefined;
  #onFirstFailed: ((error: Error) => void) | undefined;
  #ending: string | undefined;

  /** @param onExit called once, with the cause, when the program has ended */
  constructor(options: PluginProcessOptions, onExit: (reason: string) => void) {
    this.#options = options;
    const { path, env, cwd, account, onLog } = options;
    const [file = '', ...args] = account
      ? ['setpriv', `--reuid=${account.uid}`, `--regid=${account.gid}`, '--init-groups', '--', path]
      : [path];
    this.#first = new Promise((resolve, reject) => {
      this.#onFirst = resolve;
      this.#onFirstFailed = reject;
    });
    this.#first.catch(ignore);
    this.#child = spawn(file, args, { cwd, env: { ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
    makeExpendable(this.#child.pid);
    this.#child.stdin.on('error', ignore);
    eachLine(
      this.#child.stdout,
      MAX_LINE_CHARS,
      (line) => this.#take(line),
      () => this.#end(`it wrote a line of more than ${MAX_LINE_CHARS} characters`),
    );
    eachLine(this.#child.stderr, MAX_LOG_LINE_CHARS, onLog, ignore);
    this.#exited = new Promise((resolve) => {
      const finish = (reason: string): void => {
        const cause = this.#ending ?? reason;
        const error = new Error(`the plugin's program ended: ${cause}.`);
        this.#onFirstFailed?.(error);
        for (const { reject } of this.#pending.values()) reject(error);
        this.#pending.clear();
        onExit(cause);
        resolve();
      };
      this.#child.once('error', (error) => finish(error.message));
      this.#child.once('exit', (code, signal) => finish(signal ? `killed by ${signal}` : `exit code ${code}`));
    });
  }

  /** Its first line. @throws when it ends before */
  async hello(workingDir: string): Promise<Message> {
    this.#send({ kind: 'hello', protocol: 1, working_dir: workingDir });
    const limit = this.#options.helloLimitMs;
    const timer = setTimeout(() => this.#end(`it said nothing for ${limit / 1000} s`), limit);
    return this.#first.finally(() => clearTimeout(timer));
  }

  execute(action: PluginAction, context: ActionContext & { readonly currentDir: string }): Promise<PluginResult> {
    const { actionId: id, signal, emit, currentDir } = context;
    const { action: type, args, timeout } = action;
    return new Promise((resolve, reject) => {
      const timers: NodeJS.Timeout[] = [];
      const cancel = (): void => {
        this.#send({ kind: 'cancel', id });
        const late = (): void =>
          this.#end(`it did not stop an action within ${CANCEL_GRACE_MS / 1000} s of being asked to`);
        timers.push(setTimeout(late, CANCEL_GRACE_MS));
      };
      const settle = (): void => {
        this.#pending.delete(id);
        timers.forEach(clearTimeout);
        signal.removeEventListener('abort', cancel);
      };
      const settled = {
        resolve: (result: PluginResult) => (settle(), resolve(result)),
        reject: (error: Error) => (settle(), reject(error)),
      };
      this.#pending.set(id, { ...settled, emit });
      this.#send({
        kind: 'action',
        id,
        action: type,
        args,
        cwd: currentDir,
        ...(timeout === undefined ? {} : { timeout }),
      });
      signal.addEventListener('abort', cancel, { once: true });
      if (signal.aborted) cancel();
    });
  }

  async stop(): Promise<void> {
    this.#ending ??= 'the server stops';
    this.#child.stdin.end();
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_GRACE_MS);
    await this.#exited;
    clearTimeout(timer);
  }

  #send(message: object): void {
    if (this.#child.stdin.writable) this.#child.stdin.write(`${JSON.stringify(message)}\n`);
  }

  #end(reason: string): void {
    this.#ending ??= reason;
    this.#child.kill('SIGKILL');
  }

  #take(line: string): void {
    const message = parseMessage(line);
    if (message === undefined) return this.#end(`this line of its output is no JSON object: ${line.slice(0, 100)}`);
    if (this.#onFirst) {
      this.#onFirst(message);
      this.#onFirst = undefined;
      return;
    }
    const pending = this.#pending.get(String(message['id']));
    // An answer to what was given up is nobody's.
    if (pending === undefined) return;
    if (message['kind'] === 'output') pending.emit?.(textOf(message['text']));
    else if (message['kind'] === 'result') pending.resolve(message as unknown as PluginResult);
    else if (message['kind'] === 'error')
      pending.resolve({ observation: errorObservation(textOf(message['message']) || 'The plugin gave no reason.') });
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function parseMessage(line: string): Message | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Message) : undefined;
  } catch {
    return undefined;
  }
}

/** Calls back for each line; the rest of one that is too long is dropped, once told. */
function eachLine(stream: Readable, limit: number, onLine: (line: string) => void, onTooLong: () => void): void {
  let rest = '';
  let isDropping = false;
  stream.setEncoding('utf8').on('data', (text: string) => {
    const parts = text.split('\n');
    parts.forEach((part, index) => {
      if (!isDropping) rest += part;
      if (!isDropping && rest.length > limit) {
        isDropping = true;
        onTooLong();
      }
      if (index === parts.length - 1) return;
      if (!isDropping && rest.trim() !== '') onLine(rest);
      rest = '';
      isDropping = false;
    });
    if (isDropping) rest = '';
  });
}

function ignore(): void {
  // The exit tells it.
}
