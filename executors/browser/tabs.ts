import type { BrowserContext, Page } from 'playwright-core';
import type { CdpConnection } from './cdp.ts';
import { ActionFault } from './fault.ts';
import { MAX_TABS } from './limits.ts';
import { Tab } from './tab.ts';

export interface TabsOptions {
  readonly context: BrowserContext;
  readonly cdp: CdpConnection;
  readonly onOpen: (tab: Tab) => void;
  readonly note: (text: string) => void;
}

/** The pages of a session in the order they were opened; there is always one that is active. */
export class Tabs {
  readonly #options: TabsOptions;
  readonly #tabs: Tab[] = [];
  /** The active one is last. */
  #history: Tab[] = [];

  private constructor(options: TabsOptions) {
    this.#options = options;
    options.context.on('page', (page) => this.#add(page));
  }

  static async open(options: TabsOptions): Promise<Tabs> {
    const tabs = new Tabs(options);
    await tabs.openNew();
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
    const { context, cdp, onOpen, note } = this.#options;
    const tab = new Tab(page, context, cdp);
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

  #remove(tab: Tab): void {
    const index = this.#tabs.indexOf(tab);
    if (index >= 0) this.#tabs.splice(index, 1);
    this.#history = this.#history.filter((other) => other !== tab);
  }
}
