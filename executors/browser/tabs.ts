import type { BrowserContext, Page } from 'playwright-core';
import type { CdpConnection } from './cdp.ts';
import { ActionFault } from './fault.ts';
import { MAX_TABS, OPEN_LIMIT_MS } from './limits.ts';
import type { StarvationWatch } from './starvation.ts';
import { Tab } from './tab.ts';
import { type Deadline, ifWithin } from './within.ts';

interface Target {
  readonly targetId: string;
  readonly browserContextId?: string;
}

export interface TabsOptions {
  readonly context: BrowserContext;
  readonly cdp: CdpConnection;
  /** Of the browser's processes. */
  readonly watchStarvation: () => StarvationWatch;
  readonly onOpen: (tab: Tab) => void;
  readonly note: (text: string) => void;
}

/** The pages of a session in the order they were opened; there is always one that is active. */
export class Tabs {
  readonly #options: TabsOptions;
  readonly #tabs: Tab[] = [];
  /** Pages of the context that there are, or will be in a moment, as the browser names them. */
  readonly #targets = new Set<string>();
  readonly #known = new Set<string>();
  /** Pages that did not come in time: not waited for again. */
  readonly #missed = new Set<string>();
  readonly #stopListening: () => void;
  #wake: () => void = () => {};
  #contextId: string | undefined;
  /** The active one is last. */
  #history: Tab[] = [];

  private constructor(options: TabsOptions) {
    this.#options = options;
    options.context.on('page', (page) => this.#add(page));
    this.#stopListening = options.cdp.onEvent((method, params) => this.#onEvent(method, params));
  }

  static async open(options: TabsOptions): Promise<Tabs> {
    const tabs = new Tabs(options);
    const first = await tabs.openNew();
    tabs.#contextId = (await first.session()).browserContextId;
    return tabs;
  }

  get all(): readonly Tab[] {
    return this.#tabs;
  }

  /** undefined only for as long as a closed last tab has no successor. */
  get active(): Tab | undefined {
    return this.#history.at(-1);
  }

  get activeIndex(): number {
    const { active } = this;
    return active ? this.#tabs.indexOf(active) : -1;
  }

  /** The active tab; a new blank one when all have been closed. */
  async current(): Promise<Tab> {
    return this.active ?? (await this.openNew());
  }

  /** Whether a frame, as the browser names it, is in one of the tabs, or in one that is about to open. */
  async owns(frameId: string): Promise<boolean> {
    if (this.#known.has(frameId) || this.#targets.has(frameId)) return true;
    const found = await Promise.all(this.#tabs.map((tab) => tab.hasFrame(frameId)));
    return found.includes(true);
  }

  /** Until the tabs that pages have begun to open are there, or a limit. */
  async opened(deadline: Deadline): Promise<void> {
    const endsAt = performance.now() + deadline.left(OPEN_LIMIT_MS);
    await this.#lookForTargets(deadline);
    const missing = (): string[] =>
      [...this.#targets].filter((target) => !this.#known.has(target) && !this.#missed.has(target));
    while (missing().length > 0 && !deadline.isOver) {
      const left = endsAt - performance.now();
      if (left <= 0) break;
      await ifWithin(left, new Promise<void>((resolve) => (this.#wake = resolve)), deadline.signal);
    }
    for (const target of missing()) {
      this.#missed.add(target);
      this.#options.note('The page opened a tab that does not load: it is listed when it does');
    }
  }

  stop(): void {
    this.#stopListening();
  }

  /** A blank tab, which becomes the active one. @throws ActionFault when there are too many */
  async openNew(): Promise<Tab> {
    if (this.#tabs.length >= MAX_TABS)
      throw new ActionFault('Error', `There are ${MAX_TABS} tabs already: close one with tab_close().`);
    const page = await this.#options.context.newPage();
    const tab = this.#add(page);
    await tab.session();
    return tab;
  }

  /** Ends a tab; the one that was active before becomes active, or a new blank one. */
  async close(tab: Tab): Promise<void> {
    await tab.page.close().catch(() => {});
    this.#remove(tab);
    await this.show(await this.current());
  }

  /** A blank tab in place of one that cannot be used any more. */
  async replace(tab: Tab): Promise<Tab> {
    const index = this.#tabs.indexOf(tab);
    const closing = tab.page.close().catch(() => {});
    this.#remove(tab);
    const fresh = await this.openNew();
    this.#tabs.splice(this.#tabs.indexOf(fresh), 1);
    this.#tabs.splice(Math.max(0, index), 0, fresh);
    void closing;
    return fresh;
  }

  /** @throws ActionFault IndexError */
  async focus(index: number): Promise<void> {
    const tab = this.#tabs.at(index);
    if (!tab)
      throw new ActionFault('IndexError', `there is no tab ${index}: there are ${this.#tabs.length}, counted from 0.`);
    await this.show(tab);
  }

  async show(tab: Tab): Promise<void> {
    this.#history = [...this.#history.filter((other) => other !== tab), tab];
    if (tab.state === 'ok') await tab.page.bringToFront().catch(() => {});
  }

  #add(page: Page): Tab {
    const known = this.#tabs.find((tab) => tab.page === page);
    if (known) return known;
    const { context, cdp, watchStarvation, onOpen, note } = this.#options;
    const tab = new Tab(page, context, cdp, watchStarvation);
    void this.#know(tab);
    if (this.#tabs.length >= MAX_TABS) {
      note(`The page tried to open more than ${MAX_TABS} tabs: one was closed at once`);
      void page.close().catch(() => {});
      return tab;
    }
    this.#tabs.push(tab);
    this.#history.push(tab);
    page.once('close', () => this.#remove(tab));
    onOpen(tab);
    return tab;
  }

  /** What a page has just opened is in the browser's list before it is told. */
  async #lookForTargets(deadline: Deadline): Promise<void> {
    const { cdp } = this.#options;
    const asked = cdp.send<{ targetInfos: Target[] }>(
      'Target.getTargets',
      { filter: [{ type: 'page' }] },
      cdp.browserSession,
    );
    const reply = await deadline.ifWithin(OPEN_LIMIT_MS, asked);
    for (const { targetId, browserContextId } of reply?.targetInfos ?? [])
      if (this.#contextId !== undefined && browserContextId === this.#contextId) this.#targets.add(targetId);
  }

  #onEvent(method: string, params: Record<string, unknown>): void {
    if (method === 'Target.targetCreated') {
      const { targetId, browserContextId } = params['targetInfo'] as { targetId: string; browserContextId?: string };
      if (this.#contextId !== undefined && browserContextId === this.#contextId) this.#targets.add(targetId);
    } else if (method === 'Target.targetDestroyed') {
      const target = String(params['targetId']);
      this.#targets.delete(target);
      this.#known.delete(target);
      this.#missed.delete(target);
      this.#wake();
    }
  }

  async #know(tab: Tab): Promise<void> {
    const found = await tab.session().catch(() => undefined);
    if (found) this.#known.add(found.targetId);
    this.#wake();
  }

  #remove(tab: Tab): void {
    const index = this.#tabs.indexOf(tab);
    if (index >= 0) this.#tabs.splice(index, 1);
    this.#history = this.#history.filter((other) => other !== tab);
  }
}
