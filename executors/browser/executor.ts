import type { ActionContext, ActionResult, Executor, SubsystemHealth } from '../../src/dispatch/executor.ts';
import type { SessionInfo } from '../../src/protocol/http.ts';
import { errorObservation } from '../../src/protocol/observations.ts';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import type { BrowserAction } from './browser-action.ts';
import { type BrowserProcess, LaunchError, missingForLaunch } from './browser-process.ts';
import { downloadsDirectory } from './downloads.ts';
import type { FleetOptions } from './fleet.ts';
import { ACTION_LIMIT_MS } from './limits.ts';
import { SessionLimitError, SessionRegistry } from './registry.ts';
import { failed } from './result.ts';
import { run } from './run.ts';
import { Screenshots } from './screenshots.ts';
import type { BrowserSession } from './session.ts';
import { Deadline, untilAborted } from './within.ts';

export interface BrowserOptions extends FleetOptions {
  readonly access: FileAccess;
  readonly workingDir: string;
  readonly maxSessions: number;
  /** Whether the browser is started with the server, not with the first action. */
  readonly isEager: boolean;
  readonly ignoreCertificates: boolean;
  /** Called when the browser comes up, fails or ends. */
  readonly onState?: (status: 'up' | 'down' | 'failed', reason: string) => void;
}

/** Of an action's limit, the rest being for the way back. */
const ANSWER_SHARE = 0.95;
const LANE_PREFIX = 'browser:';
const DEFAULT_SESSION = 'default';
/** V0's words (V0 §8.1). */
const UNAVAILABLE = 'Browser functionality is not supported or disabled.';
const ENDED = 'Error: The browser ended during the action. The next action starts it anew.';
const CLOSED = 'Error: the session was closed during the action. The next action opens it anew.';

/** Serves `browse` and `browse_interactive`: one browser context for each session name (V0 §8). */
export class BrowserExecutor implements Executor<'browse' | 'browse_interactive'> {
  readonly isOptional = true;
  readonly name = 'browser';
  readonly actionTypes = ['browse', 'browse_interactive'] as const;
  readonly #options: BrowserOptions;
  readonly #registry: SessionRegistry;
  readonly #screenshots: Screenshots;
  /** Whose end is noticed. */
  readonly #watched = new WeakSet<BrowserProcess>();
  #health: SubsystemHealth = { status: 'lazy' };
  #isStopped = false;

  constructor(options: BrowserOptions) {
    this.#options = options;
    this.#registry = new SessionRegistry({
      ...options,
      onOpen: (session) => this.#onUp(session),
      onFail: (error) => this.#onFail(error),
    });
    this.#screenshots = new Screenshots(options.access, options.workingDir);
  }

  laneOf({ args }: BrowserAction): string {
    return LANE_PREFIX + args.session;
  }

  async start(): Promise<void> {
    const { access, workingDir, isEager } = this.#options;
    // V0 makes it when the browser is launched, which is when the server starts (V0 §8.1).
    await access.makeDirectories(downloadsDirectory(workingDir)).then(
      (pin) => pin.close(),
      () => {},
    );
    if (!isEager) {
      void this.#lookForBrowser();
      return;
    }
    this.#health = { status: 'starting' };
    // Nothing waits for it: actions that come earlier do.
    void this.#registry.session(DEFAULT_SESSION).catch(() => {});
  }

  /** Whether one could be launched, without launching it. */
  async #lookForBrowser(): Promise<void> {
    const reason = await missingForLaunch(this.#options.launch);
    if (reason !== undefined && this.#health.status === 'lazy') this.#health = { status: 'failed', reason };
  }

  async execute(action: BrowserAction, { signal, arrivedAt, emit }: ActionContext): Promise<ActionResult> {
    if (this.#isStopped) return { observation: errorObservation('The server is shutting down.') };
    const askedMs = action.timeout === undefined ? Infinity : action.timeout * 1000;
    const endsAt = arrivedAt + Math.min(ACTION_LIMIT_MS, askedMs * ANSWER_SHARE);
    const deadline = new Deadline(endsAt, signal);
    let opened = await this.#open(action.args.session, deadline);
    // It may have been parked in this very moment.
    while (typeof opened !== 'string' && !opened.isOver && !this.#registry.has(opened))
      opened = await this.#open(action.args.session, deadline);
    if (typeof opened === 'string') return { observation: errorObservation(opened) };
    const limit = AbortSignal.any([signal, opened.ended]);
    const running = new Deadline(endsAt, limit, Math.min(ACTION_LIMIT_MS, askedMs));
    opened.emit = emit;
    opened.isBusy = true;
    try {
      const done = run(opened, action, running, { ...this.#options, screenshots: this.#screenshots });
      return { observation: await untilAborted(done, opened.ended) };
    } catch (error) {
      if (!opened.isOver) throw error;
      return { observation: failed(action, opened.isClosed ? CLOSED : ENDED) };
    } finally {
      opened.emit = undefined;
      opened.isBusy = false;
      opened.lastUsed = new Date();
      this.#registry.leave(opened);
    }
  }

  health(): SubsystemHealth {
    return this.#health;
  }

  sessions(): SessionInfo[] {
    const open = this.#registry.open.map((session) =>
      this.#describe(session, session.isBusy ? 'running' : 'idle', session.process.pid),
    );
    return [...open, ...this.#registry.parked.map((session) => this.#describe(session, 'idle', null))];
  }

  async closeSession(lane: string): Promise<boolean> {
    return lane.startsWith(LANE_PREFIX) && this.#registry.close(lane.slice(LANE_PREFIX.length));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#registry.stop();
  }

  /** A session that there is, for looking at it from outside; undefined: there is none. @throws LaunchError */
  find(name: string): Promise<BrowserSession | undefined> {
    return this.#registry.find(name);
  }

  /** The browser whose DevTools protocol others may use; started if it is not there. */
  async endpoint(): Promise<{ readonly port: number; readonly path: string } | undefined> {
    return (await this.#registry.session(DEFAULT_SESSION)).process.endpoint();
  }

  /** The session, or why there is none. */
  async #open(name: string, deadline: Deadline): Promise<BrowserSession | string> {
    try {
      return await deadline.within(ACTION_LIMIT_MS, this.#registry.session(name));
    } catch (error) {
      if (error instanceof SessionLimitError) return error.message;
      return `${UNAVAILABLE} ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  #describe(
    { name, created, lastUsed }: Pick<BrowserSession, 'name' | 'created' | 'lastUsed'>,
    state: SessionInfo['state'],
    pid: number | null,
  ): SessionInfo {
    return {
      name,
      lane: LANE_PREFIX + name,
      kind: this.name,
      state,
      cwd: null,
      pid,
      created: created.toISOString(),
      last_used: lastUsed.toISOString(),
    };
  }

  #onUp({ process }: BrowserSession): void {
    const wasUp = this.#health.status === 'ready';
    this.#health = { status: 'ready' };
    if (!wasUp) this.#options.onState?.('up', `pid ${process.pid}`);
    if (this.#watched.has(process)) return;
    this.#watched.add(process);
    process.onEnd(() => {
      if (this.#isStopped || this.#registry.hasBrowser || this.#health.status !== 'ready') return;
      this.#health = { status: 'lazy', reason: 'The browser has ended; the next action starts it anew.' };
      this.#options.onState?.('down', `pid ${process.pid}`);
    });
  }

  #onFail(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    if (error instanceof LaunchError) this.#health = { status: 'failed', reason };
    this.#options.onState?.('failed', reason);
  }
}
