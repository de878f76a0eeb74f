import type { BrowserContext, Page } from 'playwright-core';
import type { CdpConnection } from './cdp.ts';

/** What the browser calls a page, and our session of it. */
export interface Attached {
  readonly sessionId: string;
  /** Also the id of the main frame. */
  readonly targetId: string;
  /** Of the context that the page is in. */
  readonly browserContextId: string | undefined;
}

const AUTO_ATTACH = {
  autoAttach: true,
  waitForDebuggerOnStart: false,
  flatten: true,
  filter: [{ type: 'iframe' }],
} as const;

/** Our own session of the DevTools protocol for a page, and those for its frames in other processes. */
export class PageTarget {
  readonly #cdp: CdpConnection;
  readonly #attached: Promise<Attached>;
  readonly #remoteFrames = new Map<string, string>();
  /** Sessions of the page and of everything in it. */
  readonly #own = new Set<string>();
  #stopListening: () => void = () => {};

  constructor(page: Page, context: BrowserContext, cdp: CdpConnection) {
    this.#cdp = cdp;
    this.#attached = this.#attach(page, context);
    this.#attached.catch(() => {});
    page.once('close', () => this.#stopListening());
  }

  /** @throws when the page is gone */
  get attached(): Promise<Attached> {
    return this.#attached;
  }

  /** Frames in other processes: id of the frame → our session of it. */
  get remoteFrames(): ReadonlyMap<string, string> {
    return this.#remoteFrames;
  }

  async #attach(page: Page, context: BrowserContext): Promise<Attached> {
    const probe = await context.newCDPSession(page);
    const { targetInfo } = (await probe.send('Target.getTargetInfo')) as {
      targetInfo: { targetId: string; browserContextId?: string };
    };
    void probe.detach().catch(() => {});
    const { targetId, browserContextId } = targetInfo;
    const { sessionId } = await this.#cdp.send<{ sessionId: string }>(
      'Target.attachToTarget',
      { targetId, flatten: true },
      this.#cdp.browserSession,
    );
    this.#own.add(sessionId);
    this.#stopListening = this.#cdp.onEvent((method, params, from) => this.#onEvent(method, params, from));
    if (page.isClosed()) this.#stopListening();
    await this.#cdp.send('Target.setAutoAttach', AUTO_ATTACH, sessionId);
    return { sessionId, targetId, browserContextId };
  }

  #onEvent(method: string, params: Record<string, unknown>, from: string): void {
    if (!this.#own.has(from)) return;
    if (method === 'Target.attachedToTarget') this.#onFrame(params);
    if (method === 'Target.detachedFromTarget') this.#onFrameGone(String(params['sessionId']));
  }

  #onFrame(params: Record<string, unknown>): void {
    const { targetId, type } = params['targetInfo'] as { targetId: string; type: string };
    const sessionId = String(params['sessionId']);
    this.#own.add(sessionId);
    if (type !== 'iframe') return;
    this.#remoteFrames.set(targetId, sessionId);
    void this.#cdp.send('Target.setAutoAttach', AUTO_ATTACH, sessionId).catch(() => {});
  }

  #onFrameGone(sessionId: string): void {
    this.#own.delete(sessionId);
    for (const [frameId, session] of this.#remoteFrames) if (session === sessionId) this.#remoteFrames.delete(frameId);
  }
}
