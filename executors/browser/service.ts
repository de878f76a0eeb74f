import { AppError } from '../../src/errors.ts';
import { BrowserExecutor, type BrowserOptions } from './executor.ts';
import { OBSERVE_LIMIT_MS } from './limits.ts';
import { observe, takeScreenshot } from './observe.ts';
import type { BrowserSession } from './session.ts';
import { settle } from './settle.ts';
import type { Tab } from './tab.ts';
import { Deadline, LimitError, within } from './within.ts';

/** One tab of a session. */
export interface TabInfo {
  readonly index: number;
  readonly url: string;
  readonly title: string;
  readonly active: boolean;
}

/** Everything about browsers: the actions, and what has an HTTP endpoint of its own. */
export class BrowserService {
  readonly executor: BrowserExecutor;

  constructor(options: BrowserOptions) {
    this.executor = new BrowserExecutor(options);
  }

  /** The active page as a PNG. @param isWholePage beyond the viewport too @throws AppError */
  async screenshot(name: string, isWholePage: boolean): Promise<Buffer> {
    const tab = activeTab(await this.#find(name));
    return looked(tab, () => within(OBSERVE_LIMIT_MS, takeScreenshot(tab, isWholePage)));
  }

  /** The accessibility tree of the active page as agents read it. @throws AppError */
  async snapshot(name: string): Promise<string> {
    const tab = activeTab(await this.#find(name));
    const deadline = new Deadline(performance.now() + OBSERVE_LIMIT_MS, new AbortController().signal);
    const { url, tree } = await looked(tab, () => observe(tab, { hasTree: true, hasText: false }, deadline));
    if (tree === undefined) throw new AppError('BROWSER_NOT_ANSWERING');
    return `[Current URL: ${url}]\n${tree}\n`;
  }

  /** @throws AppError */
  async tabs(name: string): Promise<TabInfo[]> {
    const { tabs } = await this.#find(name);
    const { active } = tabs;
    return Promise.all(
      tabs.all.map(async (tab, index) => ({
        index,
        url: tab.url,
        title: await within(TITLE_LIMIT_MS, tab.page.title()).catch(() => ''),
        active: tab === active,
      })),
    );
  }

  /** Where the browser serves its DevTools protocol on loopback; it is started if it is not there. @throws AppError */
  async endpoint(): Promise<{ readonly port: number; readonly path: string }> {
    const endpoint = await this.executor.endpoint().catch(unavailable);
    if (!endpoint)
      throw new AppError('BROWSER_NOT_ANSWERING', 'The browser has no DevTools endpoint: start with --expose-cdp.');
    return endpoint;
  }

  async #find(name: string): Promise<BrowserSession> {
    const session = await this.executor.find(name).catch(unavailable);
    if (!session)
      throw new AppError(
        'SESSION_NOT_FOUND',
        `There is no browser session ${JSON.stringify(name)}: a browse action opens it, GET /sessions lists them.`,
      );
    return session;
  }
}

const TITLE_LIMIT_MS = 1000;

function unavailable(error: unknown): never {
  throw new AppError('BROWSER_NOT_ANSWERING', error instanceof Error ? error.message : undefined, { cause: error });
}

function activeTab({ tabs }: BrowserSession): Tab {
  if (!tabs.active) throw new AppError('BROWSER_NOT_ANSWERING', 'The session has no open tab at this moment.');
  return tabs.active;
}

/** Once more, when the page is being replaced by another one: the browser does not say what was asked of the one before. */
async function looked<T>(tab: Tab, look: () => Promise<T>): Promise<T> {
  const deadline = new Deadline(performance.now() + OBSERVE_LIMIT_MS, new AbortController().signal);
  const replaced = tab.replaced(tab.documents, deadline, OBSERVE_LIMIT_MS);
  const first = await Promise.race([look().catch(() => undefined), replaced.then(() => undefined)]);
  if (first !== undefined) return first;
  await settle(tab, deadline, false);
  try {
    return await look();
  } catch (error) {
    throw new AppError(
      'BROWSER_NOT_ANSWERING',
      error instanceof LimitError ? undefined : `The page cannot be looked at: ${String(error)}`,
      { cause: error },
    );
  }
}
