import type { ActionContext, ActionResult, Executor, SubsystemHealth } from '../../src/dispatch/executor.ts';
import type { SessionInfo } from '../../src/protocol/http.ts';
import { errorObservation } from '../../src/protocol/observations.ts';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { type BrowserProcess, LaunchError, missingForLaunch } from './browser-process.ts';
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
  /** Sessions without a browser, each until its next action. */
  readonly #parked = new Map<string, Parked>();
  readonly #parking = new Map<string, Promise<void>>();
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
    let opened = await this.#open(action.args.session, deadline);
    // It may have been parked in this very moment.
    while (typeof opened !== 'string' && !opened.isOver && this.#sessions.get(opened.name) !== opened)
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
      if (!opened.isOver && this.#fleet.isRetired(opened.process)) void this.#park(opened);
    }
  }

  health(): SubsystemHealth {
    return this.#health;
  }

  sessions(): SessionInfo[] {
    const parked = Array.from(this.#parked.values(), ({ name, created, lastUsed }): SessionInfo => ({
      name,
      lane: LANE_PREFIX + name,
      kind: this.name,
      state: 'idle',
      cwd: null,
      pid: null,
      created: created.toISOString(),
      last_used: lastUsed.toISOString(),
    }));
    const open = Array.from(this.#sessions.values(), (session): SessionInfo => ({
      name: session.name,
      lane: LANE_PREFIX + session.name,
      kind: this.name,
      state: session.isBusy ? 'running' : 'idle',
      cwd: null,
      pid: session.process.pid,
      created: session.created.toISOString(),
      last_used: session.lastUsed.toISOString(),
    }));
    return [...open, ...parked];
  }

  async closeSession(lane: string): Promise<boolean> {
    if (!lane.startsWith(LANE_PREFIX)) return false;
    const name = lane.slice(LANE_PREFIX.length);
    await this.#parking.get(name);
    if (this.#parked.delete(name)) return true;
    const session = this.#sessions.get(name);
    if (!session) return false;
    await this.#end(session);
    return true;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#fleet.stop();
    this.#sessions.clear();
    this.#parked.clear();
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
    const isNew = ![this.#sessions, this.#parked, this.#parking].some((names) => names.has(name));
    if (isNew && this.#count() >= this.#options.maxSessions) throw new SessionLimitError(this.#options.maxSessions);
    await this.#parking.get(name);
    const known = this.#sessions.get(name);
    if (known && !known.isOver) await known.process.check();
    if (known && !known.isOver && !this.#isDue(known.process)) return known;
    const parked = this.#parked.get(name);
    if (parked) return this.#unpark(parked);
    if (!known) return this.#create(name);
    if (known.isOver) {
      await this.#end(known);
      const session = await this.#create(name);
      session.note(RESTARTED);
      return session;
    }
    const others = [...this.#sessions.values()].filter(
      (other) => other.process === known.process && !other.isBusy && !this.#opening.has(other.name),
    );
    await Promise.all([known, ...others].map((session) => this.#park(session)));
    const moved = this.#parked.get(name);
    return moved ? this.#unpark(moved) : this.#create(name);
  }

  /** Sessions that there are or are about to be. */
  #count(): number {
    const names = new Set<string>();
    for (const known of [this.#sessions, this.#opening, this.#parked, this.#parking])
      for (const name of known.keys()) names.add(name);
    return names.size;
  }

  /** Whether its sessions have to go to another one. */
  #isDue(process: BrowserProcess): boolean {
    return this.#fleet.isRetired(process) || (this.#fleet.isWorn(process) && this.#fleet.retire(process));
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

  /** Keeps cookies and the addresses of the tabs, and gives the browser back, which ends with its last session. */
  #park(session: BrowserSession): Promise<void> {
    const { name } = session;
    const known = this.#parking.get(name);
    if (known || this.#sessions.get(name) !== session) return known ?? Promise.resolve();
    this.#sessions.delete(name);
    const parking = this.#store(session).finally(() => this.#parking.delete(name));
    this.#parking.set(name, parking);
    return parking;
  }

  async #store(session: BrowserSession): Promise<void> {
    const { name, created, lastUsed, tabs } = session;
    const [urls, active] = [tabs.all.map(({ url }) => url), tabs.activeIndex];
    const state = await ifWithin(STATE_LIMIT_MS, session.storedState());
    if (!this.#isStopped) this.#parked.set(name, { name, created, lastUsed, state, urls, active });
    await session.close();
    await this.#fleet.release(session.process);
  }

  /** In another browser, with what was kept. */
  async #unpark({ name, state, urls, active }: Parked): Promise<BrowserSession> {
    const session = await this.#create(name, state);
    this.#parked.delete(name);
    for (const [index, url] of urls.entries()) {
      const tab = index === 0 ? await session.tabs.current() : await session.tabs.openNew();
      await ifWithin(STATE_LIMIT_MS, tab.page.goto(url, { waitUntil: 'commit', timeout: STATE_LIMIT_MS }));
    }
    if (active > 0) await session.tabs.focus(active);
    session.note(RECYCLED);
    return session;
  }

  async #end(session: BrowserSession): Promise<void> {
    this.#sessions.delete(session.name);
    await session.close();
    await this.#fleet.release(session.process);
  }
}

/** What is left of a session whose browser was due for replacement. */
interface Parked {
  readonly name: string;
  readonly created: Date;
  readonly lastUsed: Date;
  readonly state: StoredState | undefined;
  readonly urls: readonly string[];
  readonly active: number;
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
