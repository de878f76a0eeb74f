import { resolve } from 'node:path';
import type { ActionContext, ActionResult, Executor, SubsystemHealth } from '../../src/dispatch/executor.ts';
import type { RunAction } from '../../src/protocol/actions.ts';
import type { SessionInfo } from '../../src/protocol/http.ts';
import { refusalObservation } from '../../src/protocol/observations.ts';
import type { ShellState } from '../../src/sandbox/shell-state.ts';
import { existingDirectory, isDirectory } from './directories.ts';
import { answerDueMs, Session, type SessionOptions } from './session.ts';
import { Slots } from '../../src/util/slots.ts';

export interface BashOptions extends SessionOptions {
  /** Where the first shell, and a static one without `cwd`, starts. */
  readonly workingDir: string;
  readonly maxSessions: number;
}

const LANE_PREFIX = 'bash:';
const DEFAULT_SESSION = 'default';

/** Serves `run`: one persistent shell for each session name, a fresh one for each static action (V0 §5.7). */
export class BashExecutor implements Executor<'run'> {
  readonly name = 'bash';
  readonly actionTypes = ['run'] as const;
  readonly #options: BashOptions;
  readonly #sessions = new Map<string, Session>();
  readonly #static = new Set<Session>();
  readonly #staticSlots: Slots;
  #health: SubsystemHealth = { status: 'starting' };
  #isStopped = false;

  constructor(options: BashOptions) {
    this.#options = options;
    this.#staticSlots = new Slots(options.maxSessions);
  }

  laneOf({ args }: RunAction): string | undefined {
    return args.is_static ? undefined : LANE_PREFIX + args.session;
  }

  async start(): Promise<void> {
    try {
      await this.#session(DEFAULT_SESSION).start();
      this.#health = { status: 'ready' };
    } catch (error) {
      this.#health = { status: 'failed', reason: `bash could not be started: ${messageOf(error)}` };
    }
  }

  async execute(action: RunAction, context: ActionContext): Promise<ActionResult> {
    const { args } = action;
    if (this.#isStopped) return refusal(action, 'The server is shutting down.');
    if (args.is_static) return this.#executeStatic(action, context);
    if (!this.#sessions.has(args.session) && this.#sessions.size >= this.#options.maxSessions) {
      return refusal(action, this.#limitMessage());
    }
    try {
      const result = await this.#session(args.session).execute(action, context);
      if (this.#health.status === 'failed') this.#health = { status: 'ready' };
      return result;
    } catch (error) {
      return refusal(action, `bash could not be started: ${messageOf(error)}`);
    }
  }

  health(): SubsystemHealth {
    return this.#health;
  }

  /** The directory of the default session after its last command: what relative paths refer to (V0 §7.1). */
  get cwd(): string {
    return this.#sessions.get(DEFAULT_SESSION)?.cwd ?? this.#options.workingDir;
  }

  /** What the shell of that name, or the default one, hands on to other kinds of session. */
  shellState(name: string): ShellState {
    const session = this.#sessions.get(name) ?? this.#sessions.get(DEFAULT_SESSION);
    return { cwd: session?.cwd ?? this.#options.workingDir, exports: session?.exports ?? '' };
  }

  sessions(): SessionInfo[] {
    return Array.from(this.#sessions, ([name, session]) => ({
      name,
      lane: LANE_PREFIX + name,
      kind: this.name,
      state: session.isStarting ? 'starting' : session.isRunning ? 'running' : 'idle',
      cwd: session.cwd,
      pid: session.pid ?? null,
      created: session.created.toISOString(),
      last_used: session.lastUsed.toISOString(),
    }));
  }

  async closeSession(lane: string): Promise<boolean> {
    const name = lane.startsWith(LANE_PREFIX) ? lane.slice(LANE_PREFIX.length) : lane;
    const session = this.#sessions.get(name);
    if (!session) return false;
    this.#sessions.delete(name);
    await session.stop();
    return true;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    const sessions = [...this.#sessions.values(), ...this.#static];
    this.#sessions.clear();
    await Promise.all(sessions.map((session) => session.stop()));
  }

  /** Waits for a place when `maxSessions` static shells run. */
  async #executeStatic(action: RunAction, context: ActionContext): Promise<ActionResult> {
    const cwd = resolve(this.#options.workingDir, action.args.cwd ?? '');
    if (action.args.cwd !== null && !isDirectory(cwd)) return refusal(action, missingDirectory(cwd));
    const limitMs = action.timeout === undefined ? undefined : answerDueMs(action.timeout, context);
    const giveBack = await this.#staticSlots.take(context.signal, limitMs);
    if (!giveBack) return refusal(action, context.signal.aborted ? ENDED_IN_QUEUE : this.#busyMessage());
    const session = new Session(this.#options, cwd);
    this.#static.add(session);
    try {
      return await session.execute(action, context);
    } catch (error) {
      return refusal(action, `bash could not be started: ${messageOf(error)}`);
    } finally {
      await session.stop();
      this.#static.delete(session);
      giveBack();
    }
  }

  #session(name: string): Session {
    let session = this.#sessions.get(name);
    if (!session) {
      session = new Session(this.#options, existingDirectory(this.#options.workingDir));
      this.#sessions.set(name, session);
    }
    return session;
  }

  #busyMessage(): string {
    return `Not run: ${this.#options.maxSessions} other static shells (--max-sessions) were busy until the time limit. Try again, or with a longer timeout.`;
  }

  #limitMessage(): string {
    return `There are ${this.#options.maxSessions} shells already (--max-sessions). Close one with DELETE /sessions/{lane}, or use another session.`;
  }
}

const ENDED_IN_QUEUE = 'Not run: the action was ended while it waited for other static shells.';

function missingDirectory(cwd: string): string {
  return `Not run: args.cwd: ${cwd} is not a directory. Create it first, or name another.`;
}

function refusal({ args }: RunAction, message: string): ActionResult {
  return { observation: refusalObservation(message, args.hidden) };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
