import type { BrowserContext, Page, Request } from 'playwright-core';
import type { CdpConnection } from './cdp.ts';
import { ANSWER_LIMIT_MS } from './limits.ts';
import { waitForFrames } from './page/scripts.js';
import { type Deadline, ifWithin } from './within.ts';

/** Requests that go on for as long as a page lives. */
const ENDLESS: ReadonlySet<string> = new Set(['eventsource', 'websocket', 'media', 'ping', 'manifest']);

/** An answer so young is as good as another one. */
const FRESH_MS = 100;

const RECENT_MS = 2000;

/** Name of the world that our scripts live in. */
const WORLD = 'actiond';

/** What a script did after the page was loaded: asked for something, or began to work beside the page. */
export type LateActivity = 'request' | 'worker';

/** How the page fares. `stuck`: a script of it does not end. */
export type TabState = 'ok' | 'crashed' | 'stuck';

/** One page of a session: the driver's view of it, and our own session of the DevTools protocol beside. */
export class Tab {
  readonly page: Page;
  readonly cdp: CdpConnection;
  readonly #requests = new Set<Request>();
  #navigation: Request | undefined;
  #isLoaded = false;
  #lateActivity: LateActivity | undefined;
  #answeredAt = -Infinity;
  readonly #waiters = new Set<() => void>();
  /** Frames that live in a process of their own, with our session of each. */
  readonly #remoteFrames = new Map<string, string>();
  readonly #attached: Promise<void>;
  #sessionId = '';
  #targetId = '';
  #contextId: string | undefined;
  #stopListening: () => void = () => {};
  state: TabState = 'ok';
  /** Called when a script was ended. */
  onInterrupt: (() => void) | undefined;
  /** A document that changes all the time is not waited for again and again. */
  restlessUrl: string | undefined;
  /** Documents that it has shown so far. */
  documents = 0;
  #dialogs = 0;
  #documentDialogs = 0;
  #dialogAt = -Infinity;

  constructor(page: Page, context: BrowserContext, cdp: CdpConnection) {
    this.page = page;
    this.cdp = cdp;
    page.on('request', (request) => this.#onRequest(request));
    page.on('requestfinished', (request) => this.#onRequestEnd(request));
    page.on('requestfailed', (request) => this.#onRequestEnd(request));
    page.on('framenavigated', (frame) => {
      if (frame === page.mainFrame()) this.#onNavigated();
    });
    page.on('load', () => (this.#isLoaded = true));
    page.on('worker', () => (this.#lateActivity = 'worker'));
    page.once('close', () => this.#stopListening());
    page.once('crash', () => {
      this.state = 'crashed';
      this.#wake();
    });
    this.#attached = this.#attach(context);
    this.#attached.catch(() => {});
  }

  /** Our session of the page; its main frame has the target's id. @throws when the page is gone */
  async session(): Promise<{ readonly sessionId: string; readonly targetId: string }> {
    await this.#attached;
    return { sessionId: this.#sessionId, targetId: this.#targetId };
  }

  /** The browser's id of the context that the page is in. */
  async browserContextId(): Promise<string | undefined> {
    await this.#attached;
    return this.#contextId;
  }

  /** Frames in other processes: id of the frame → our session of it. */
  get remoteFrames(): ReadonlyMap<string, string> {
    return this.#remoteFrames;
  }

  get url(): string {
    return this.page.url();
  }

  /** Whether the page is about to be replaced by another one. */
  get isNavigating(): boolean {
    return this.#navigation !== undefined;
  }

  get isLoading(): boolean {
    return this.#requests.size > 0;
  }

  /** Whether scripts of the page asked for something, or began to work beside it, since this was last asked. */
  takeLateActivity(): LateActivity | undefined {
    const had = this.#lateActivity;
    this.#lateActivity = undefined;
    return had;
  }

  /** Whether the page answers at all within a limit. */
  async answers(deadline: Deadline, limitMs = ANSWER_LIMIT_MS): Promise<boolean> {
    if (this.state === 'crashed' || this.page.isClosed()) return false;
    const answer = await deadline.ifWithin(limitMs, this.evaluate('() => 1', {}), 0);
    return answer === 1;
  }

  /** Makes sure that the page answers: a script that keeps it from answering is ended. @returns whether it does */
  async revive(deadline: Deadline): Promise<boolean> {
    const hasJustAnswered = this.state === 'ok' && performance.now() - this.#answeredAt < FRESH_MS;
    if (hasJustAnswered || (await this.answers(deadline))) {
      this.state = 'ok';
      return true;
    }
    if (this.state === 'crashed' || this.page.isClosed()) return false;
    await deadline.ifWithin(ANSWER_LIMIT_MS, this.#interrupt());
    const isBack = await this.answers(deadline);
    this.state = isBack ? 'ok' : 'stuck';
    if (isBack) this.onInterrupt?.();
    return isBack;
  }

  /** Gives up what is under way to the page, a navigation too. */
  async stopLoading(): Promise<void> {
    this.#navigation = undefined;
    const { sessionId } = await this.session();
    await this.cdp.send('Page.stopLoading', {}, sessionId);
  }

  /** Ends the script that runs, whatever it is. */
  async #interrupt(): Promise<void> {
    const { sessionId } = await this.session();
    await this.cdp.send('Runtime.terminateExecution', {}, sessionId);
  }

  /** Runs a function in our world of the main frame. @throws when the page is gone or navigates */
  async evaluate<T>(script: string, argument: object): Promise<T> {
    const { sessionId, targetId } = await this.session();
    const value = await evaluateIn<T>(
      this.cdp,
      { sessionId, contextId: await worldOf(this.cdp, sessionId, targetId) },
      script,
      argument,
    );
    this.#answeredAt = performance.now();
    return value;
  }

  /** Until what was begun has been drawn once. */
  async drawn(deadline: Deadline, limitMs: number): Promise<void> {
    await deadline.ifWithin(limitMs + ANSWER_LIMIT_MS, this.evaluate(waitForFrames.toString(), { limitMs }));
  }

  /** Until no navigation is under way, or a limit. */
  navigated(deadline: Deadline, limitMs: number, reserveMs: number): Promise<boolean> {
    return this.#until(() => !this.isNavigating, deadline.left(limitMs, reserveMs), deadline.signal);
  }

  countDialog(): void {
    this.#dialogs += 1;
    this.#documentDialogs += 1;
    this.#dialogAt = performance.now();
    this.#wake();
  }

  /** Whether its document has raised so many dialogs, the last one a moment ago. */
  isRaising(dialogs: number): boolean {
    return this.#documentDialogs >= dialogs && performance.now() - this.#dialogAt < RECENT_MS;
  }

  /** Resolves with true when it has raised so many dialogs from now on, with false after a limit. */
  raises(dialogs: number, deadline: Deadline, limitMs: number): Promise<boolean> {
    const enough = this.#dialogs + dialogs;
    return this.#until(() => this.#dialogs >= enough, deadline.left(limitMs), deadline.signal);
  }

  /** Until no request is open, or a limit. */
  loaded(deadline: Deadline, limitMs: number): Promise<boolean> {
    return this.#until(() => !this.isLoading && !this.isNavigating, deadline.left(limitMs), deadline.signal);
  }

  async #until(condition: () => boolean, limitMs: number, signal: AbortSignal): Promise<boolean> {
    const endsAt = performance.now() + limitMs;
    while (!condition()) {
      const left = endsAt - performance.now();
      if (left <= 0 || signal.aborted || this.page.isClosed() || this.state === 'crashed') return false;
      await ifWithin(left, new Promise<void>((resolve) => this.#waiters.add(resolve)), signal);
    }
    return true;
  }

  #wake(): void {
    for (const wake of this.#waiters) wake();
    this.#waiters.clear();
  }

  #onRequest(request: Request): void {
    if (isNavigation(request, this.page)) this.#navigation = request;
    if (ENDLESS.has(request.resourceType())) return;
    this.#requests.add(request);
    if (this.#isLoaded) this.#lateActivity ??= 'request';
  }

  #onRequestEnd(request: Request): void {
    this.#requests.delete(request);
    // A navigation that failed has no page to show; one that succeeded is over when its page is there.
    if (this.#navigation === request && request.failure() !== null) this.#navigation = undefined;
    this.#wake();
  }

  #onNavigated(): void {
    this.documents += 1;
    this.#documentDialogs = 0;
    this.#navigation = undefined;
    this.#isLoaded = false;
    this.#lateActivity = undefined;
    for (const request of this.#requests) if (isNavigation(request, this.page)) this.#requests.delete(request);
    this.#wake();
  }

  async #attach(context: BrowserContext): Promise<void> {
    const probe = await context.newCDPSession(this.page);
    const { targetInfo } = (await probe.send('Target.getTargetInfo')) as {
      targetInfo: { targetId: string; browserContextId?: string };
    };
    void probe.detach().catch(() => {});
    this.#targetId = targetInfo.targetId;
    this.#contextId = targetInfo.browserContextId;
    const { cdp } = this;
    const { sessionId } = await cdp.send<{ sessionId: string }>(
      'Target.attachToTarget',
      { targetId: this.#targetId, flatten: true },
      cdp.browserSession,
    );
    this.#sessionId = sessionId;
    const own = new Set([sessionId]);
    this.#stopListening = cdp.onEvent((method, params, from) => {
      if (!own.has(from)) return;
      if (method === 'Target.attachedToTarget') this.#onFrame(params, own);
      if (method === 'Target.detachedFromTarget') this.#onFrameGone(String(params['sessionId']), own);
    });
    await cdp.send('Target.setAutoAttach', AUTO_ATTACH, sessionId);
  }

  #onFrame(params: Record<string, unknown>, own: Set<string>): void {
    const { targetId, type } = params['targetInfo'] as { targetId: string; type: string };
    const sessionId = String(params['sessionId']);
    own.add(sessionId);
    if (type !== 'iframe') return;
    this.#remoteFrames.set(targetId, sessionId);
    void this.cdp.send('Target.setAutoAttach', AUTO_ATTACH, sessionId).catch(() => {});
  }

  #onFrameGone(sessionId: string, own: Set<string>): void {
    own.delete(sessionId);
    for (const [frameId, session] of this.#remoteFrames) if (session === sessionId) this.#remoteFrames.delete(frameId);
  }
}

const AUTO_ATTACH = {
  autoAttach: true,
  waitForDebuggerOnStart: false,
  flatten: true,
  filter: [{ type: 'iframe' }],
} as const;

function isNavigation(request: Request, page: Page): boolean {
  try {
    return request.isNavigationRequest() && request.frame() === page.mainFrame();
  } catch {
    // A service worker's request has no frame.
    return false;
  }
}

export interface World {
  readonly sessionId: string;
  readonly contextId: number;
}

/** Our world of a frame; the same one for as long as the document lives. */
export async function worldOf(cdp: CdpConnection, sessionId: string, frameId: string): Promise<number> {
  const { executionContextId } = await cdp.send<{ executionContextId: number }>(
    'Page.createIsolatedWorld',
    { frameId, worldName: WORLD },
    sessionId,
  );
  return executionContextId;
}

interface Evaluated {
  readonly result: { readonly value: unknown };
  readonly exceptionDetails?: { readonly text: string; readonly exception?: { readonly description?: string } };
}

/** @throws what the function throws */
export async function evaluateIn<T>(
  cdp: CdpConnection,
  { sessionId, contextId }: World,
  script: string,
  argument: object,
): Promise<T> {
  const reply = await cdp.send<Evaluated>(
    'Runtime.callFunctionOn',
    {
      functionDeclaration: script,
      executionContextId: contextId,
      arguments: [{ value: argument }],
      returnByValue: true,
      awaitPromise: true,
    },
    sessionId,
  );
  if (reply.exceptionDetails)
    throw new Error(reply.exceptionDetails.exception?.description ?? reply.exceptionDetails.text);
  return reply.result.value as T;
}
