import type { Page, Request } from 'playwright-core';

/** Requests that go on for as long as a page lives. */
const ENDLESS: ReadonlySet<string> = new Set(['eventsource', 'websocket', 'media', 'ping', 'manifest']);

/** What a script did after the page was loaded: asked for something, or began to work beside the page. */
export type LateActivity = 'request' | 'worker';

/** What a page asks for, and the documents that it shows one after the other. */
export class Traffic {
  readonly #page: Page;
  readonly #requests = new Set<Request>();
  readonly #onDocument: () => void;
  readonly #onChange: () => void;
  #navigation: Request | undefined;
  #isLoaded = false;
  #lateActivity: LateActivity | undefined;
  #documents = 0;

  /**
   * @param onDocument called when there is a new document
   * @param onChange called when a request has ended, and when there is a new document
   */
  constructor(page: Page, onDocument: () => void, onChange: () => void) {
    this.#page = page;
    this.#onDocument = onDocument;
    this.#onChange = onChange;
    page.on('request', (request) => this.#begin(request));
    page.on('requestfinished', (request) => this.#end(request));
    page.on('requestfailed', (request) => this.#end(request));
    page.on('framenavigated', (frame) => {
      if (frame === page.mainFrame()) this.#onNavigated();
    });
    page.on('load', () => (this.#isLoaded = true));
    page.on('worker', () => (this.#lateActivity = 'worker'));
  }

  /** Whether the page is about to be replaced by another one. */
  get isNavigating(): boolean {
    return this.#navigation !== undefined;
  }

  /** Whether requests are open. */
  get isLoading(): boolean {
    return this.#requests.size > 0;
  }

  /** Documents that the page has shown so far. */
  get documents(): number {
    return this.#documents;
  }

  /** Whether scripts of the page asked for something, or began to work beside it, since this was last asked. */
  takeLateActivity(): LateActivity | undefined {
    const had = this.#lateActivity;
    this.#lateActivity = undefined;
    return had;
  }

  forgetNavigation(): void {
    this.#navigation = undefined;
  }

  #begin(request: Request): void {
    if (isNavigation(request, this.#page)) this.#navigation = request;
    if (ENDLESS.has(request.resourceType())) return;
    this.#requests.add(request);
    if (this.#isLoaded) this.#lateActivity ??= 'request';
  }

  #end(request: Request): void {
    this.#requests.delete(request);
    // A navigation that failed has no page to show; one that succeeded is over when its page is there.
    if (this.#navigation === request && request.failure() !== null) this.#navigation = undefined;
    this.#onChange();
  }

  #onNavigated(): void {
    this.#documents += 1;
    this.#navigation = undefined;
    this.#isLoaded = false;
    this.#lateActivity = undefined;
    for (const request of this.#requests) if (isNavigation(request, this.#page)) this.#requests.delete(request);
    this.#onDocument();
    this.#onChange();
  }
}

function isNavigation(request: Request, page: Page): boolean {
  try {
    return request.isNavigationRequest() && request.frame() === page.mainFrame();
  } catch {
    // A service worker's request has no frame.
    return false;
  }
}
