import type { ActionContext, ActionResult, Executor, SubsystemHealth } from '../../src/dispatch/executor.ts';
import type { SessionInfo } from '../../src/protocol/http.ts';
import { errorObservation } from '../../src/protocol/observations.ts';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { LaunchError, missingForLaunch } from './browser-process.ts';
import { downloadsDirectory } from './downloads.ts';
import { Fleet, type FleetOptions } from './fleet.ts';
import { ACTION_LIMIT_MS } from './limits.ts';
import { type BrowserAction, failed, run } from './run.ts';
import { Screenshots } from './screenshots.ts';
import { BrowserSession, type StoredState } from './session.ts';
import { Deadline, ifWithin, untilAborted } from './within.ts';

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

const LANE_PREFIX = 'browser:';
const DEFAULT_SESSION = 'default';
/** V0's words (V0 §8.1). */
const UNAVAILABLE = 'Browser functionality is not supported or disabled.';
const RESTARTED = 'The browser had ended and was started anew: tabs, cookies and what was typed are gone';
const ENDED = 'Error: The browser ended during the action. The next action starts it anew.';
const CLOSED = 'Error: the session was closed during the action. The next action opens it anew.';
const RECYCLED = 'The browser was replaced because of its age or size: cookies are kept, tabs were opened anew';

/** Serves `browse` and `browse_interactive`: one browser context for each session name (V0 §8). */
export class BrowserExecutor implements Executor<'browse' | 'browse_interactive'> {
  readonly isOptional = true;
  readonly name = 'browser';
  readonly actionTypes = ['browse', 'browse_interactive'] as const;
  readonly #options: BrowserOptions;
  readonly #fleet: Fleet;
  readonly #screenshots: Screenshots;
  readonly #sessions = new Map<string, BrowserSession>();
  readonly #opening = new Map<string, Promise<BrowserSession>>();
  #health: SubsystemHealth = { status: 'lazy' };
  #isStopped = false;

  constructor(options: BrowserOptions) {
    this.#options = options;
    this.#fleet = new Fleet(options);
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
    void this.session(DEFAULT_SESSION).catch(() => {});
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
    const opened = await this.#open(action.args.session, deadline);
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
    }
  }

  health(): SubsystemHealth {
    return this.#health;
  }

  sessions(): SessionInfo[] {
    return Array.from(this.#sessions.values(), (session) => ({
      name: session.name,
      lane: LANE_PREFIX + session.name,
      kind: this.name,
      state: session.isBusy ? 'running' : 'idle',
      cwd: null,
      pid: session.process.pid,
      created: session.created.toISOString(),
      last_used: session.lastUsed.toISOString(),
    }));
  }

  async closeSession(lane: string): Promise<boolean> {
    if (!lane.startsWith(LANE_PREFIX)) return false;
    const session = this.#sessions.get(lane.slice(LANE_PREFIX.length));
    if (!session) return false;
    await this.#end(session);
    return true;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#fleet.stop();
    this.#sessions.clear();
  }

  /** A session that is there, or undefined; for looking at it from outside. */
  find(name: string): BrowserSession | undefined {
    const session = this.#sessions.get(name);
    return session?.isOver === false ? session : undefined;
  }

  /** The session of a name, opened if it is not there. @throws LaunchError, SessionLimitError */
  session(name: string): Promise<BrowserSession> {
    const opening = this.#opening.get(name);
    if (opening) return opening;
    const made = this.#provide(name).finally(() => this.#opening.delete(name));
    this.#opening.set(name, made);
    return made;
  }

  /** The browser whose DevTools protocol others may use; started if it is not there. */
  async endpoint(): Promise<{ readonly port: number; readonly path: string } | undefined> {
    return (await this.session(DEFAULT_SESSION)).process.endpoint();
  }

  /** The session, or why there is none. */
  async #open(name: string, deadline: Deadline): Promise<BrowserSession | string> {
    try {
      return await deadline.within(ACTION_LIMIT_MS, this.session(name));
    } catch (error) {
      if (error instanceof SessionLimitError) return error.message;
      return `${UNAVAILABLE} ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  async #provide(name: string): Promise<BrowserSession> {
    const known = this.#sessions.get(name);
    if (known && !known.isOver) await known.process.check();
    if (known && !known.isOver && !this.#fleet.isWorn(known.process)) return known;
    if (!known && this.#sessions.size + this.#opening.size >= this.#options.maxSessions)
      throw new SessionLimitError(this.#options.maxSessions);
    if (!known) return this.#create(name);
    if (known.isOver) {
      await this.#end(known);
      const session = await this.#create(name);
      session.note(RESTARTED);
      return session;
    }
    return this.#move(known);
  }

  async #create(name: string, state?: StoredState): Promise<BrowserSession> {
    try {
      const process = await this.#fleet.acquire();
      try {
        const session = await BrowserSession.open(name, process, this.#options, state);
        this.#sessions.set(name, session);
        this.#onUp(session);
        return session;
      } catch (error) {
        await this.#fleet.release(process);
        throw error;
      }
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (error instanceof LaunchError) this.#health = { status: 'failed', reason };
      this.#options.onState?.('failed', reason);
      throw error;
    }
  }

  #onUp({ process }: BrowserSession): void {
    const wasUp = this.#health.status === 'ready';
    this.#health = { status: 'ready' };
    if (!wasUp) this.#options.onState?.('up', `pid ${process.pid}`);
    process.onEnd(() => {
      if (this.#isStopped || this.#fleet.processes.length > 0 || this.#health.status !== 'ready') return;
      this.#health = { status: 'lazy', reason: 'The browser has ended; the next action starts it anew.' };
      this.#options.onState?.('down', `pid ${process.pid}`);
    });
  }

  /** To another browser, with its cookies and the addresses of its tabs. */
  async #move(session: BrowserSession): Promise<BrowserSession> {
    this.#fleet.retire(session.process);
    const state = await ifWithin(STATE_LIMIT_MS, session.storedState());
    const urls = session.tabs.all.map(({ url }) => url);
    const active = session.tabs.activeIndex;
    await this.#end(session);
    const moved = await this.#create(session.name, state);
    for (const [index, url] of urls.entries()) {
      const tab = index === 0 ? await moved.tabs.current() : await moved.tabs.openNew();
      await ifWithin(STATE_LIMIT_MS, tab.page.goto(url, { waitUntil: 'commit', timeout: STATE_LIMIT_MS }));
    }
    if (active > 0) await moved.tabs.focus(active);
    moved.note(RECYCLED);
    return moved;
  }

  async #end(session: BrowserSession): Promise<void> {
    this.#sessions.delete(session.name);
    await session.close();
    await this.#fleet.release(session.process);
  }
}

/** Of an action's limit, the rest being for the way back. */
const ANSWER_SHARE = 0.95;
/** For what moves with a session, each part. */
const STATE_LIMIT_MS = 5000;

class SessionLimitError extends Error {
  constructor(limit: number) {
    super(
      `There are ${limit} browser sessions already (--max-sessions). Close one with DELETE /sessions/{lane}, or use another session.`,
    );
  }
}
