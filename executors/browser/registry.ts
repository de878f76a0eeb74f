import type { BrowserProcess } from './browser-process.ts';
import { Fleet, type FleetOptions } from './fleet.ts';
import { BrowserSession, type SessionOptions, type StoredState } from './session.ts';
import { ifWithin } from './within.ts';

export interface RegistryOptions extends FleetOptions, SessionOptions {
  readonly maxSessions: number;
  /** Called with each session that was opened. */
  readonly onOpen: (session: BrowserSession) => void;
  /** Called when one could not be opened. */
  readonly onFail: (error: unknown) => void;
}

/** What is left of a session whose browser was due for replacement, until its next action. */
export interface Parked {
  readonly name: string;
  readonly created: Date;
  readonly lastUsed: Date;
  readonly state: StoredState | undefined;
  readonly urls: readonly string[];
  readonly active: number;
}

/** For what moves with a session, each part. */
const STATE_LIMIT_MS = 5000;

const RESTARTED = 'The browser had ended and was started anew: tabs, cookies and what was typed are gone';
const RECYCLED = 'The browser was replaced because of its age or size: cookies are kept, tabs were opened anew';

/** The sessions there are by name, each in a browser, or parked between two of them. */
export class SessionRegistry {
  readonly #options: RegistryOptions;
  readonly #fleet: Fleet;
  readonly #sessions = new Map<string, BrowserSession>();
  readonly #opening = new Map<string, Promise<BrowserSession>>();
  readonly #parked = new Map<string, Parked>();
  readonly #parking = new Map<string, Promise<void>>();
  #isStopped = false;

  constructor(options: RegistryOptions) {
    this.#options = options;
    this.#fleet = new Fleet(options);
  }

  /** Those in a browser. */
  get open(): readonly BrowserSession[] {
    return [...this.#sessions.values()];
  }

  get parked(): readonly Parked[] {
    return [...this.#parked.values()];
  }

  get hasBrowser(): boolean {
    return this.#fleet.processes.length > 0;
  }

  /** The session of a name, opened if it is not there. @throws LaunchError, SessionLimitError */
  session(name: string): Promise<BrowserSession> {
    const opening = this.#opening.get(name);
    if (opening) return opening;
    const made = this.#provide(name).finally(() => this.#opening.delete(name));
    this.#opening.set(name, made);
    return made;
  }

  /** A session that there is, in a browser again if it was parked; undefined: there is none. @throws LaunchError */
  async find(name: string): Promise<BrowserSession | undefined> {
    const session = this.#sessions.get(name);
    if (session?.isOver === false) return session;
    const isWaiting = [this.#opening, this.#parked, this.#parking].some((names) => names.has(name));
    return isWaiting && !this.#isStopped ? this.session(name) : undefined;
  }

  /** Whether it still is the session of its name: it may have been parked. */
  has(session: BrowserSession): boolean {
    return this.#sessions.get(session.name) === session;
  }

  /** After an action: it makes room for a new browser if its own takes no more sessions. */
  leave(session: BrowserSession): void {
    if (!session.isOver && this.#fleet.isRetired(session.process)) void this.#park(session);
  }

  /** @returns whether there was one */
  async close(name: string): Promise<boolean> {
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
    const others = this.open.filter(
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
        this.#options.onOpen(session);
        return session;
      } catch (error) {
        await this.#fleet.release(process);
        throw error;
      }
    } catch (error) {
      this.#options.onFail(error);
      throw error;
    }
  }

  /** Keeps cookies and the addresses of the tabs, and gives the browser back, which ends with its last session. */
  #park(session: BrowserSession): Promise<void> {
    const { name } = session;
    const known = this.#parking.get(name);
    if (known || !this.has(session)) return known ?? Promise.resolve();
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

export class SessionLimitError extends Error {
  constructor(limit: number) {
    super(
      `There are ${limit} browser sessions already (--max-sessions). Close one with DELETE /sessions/{lane}, or use another session.`,
    );
  }
}
