import type { BrowserContext, Page } from 'playwright-core';
import type { CdpConnection } from './cdp.ts';
import { ANSWER_LIMIT_MS, FRAME_LIMIT_MS, MAX_DIALOGS, OBSERVATION_RESERVE_MS } from './limits.ts';
import { type Attached, PageTarget } from './page-target.ts';
import { patiently } from './patience.ts';
import type { StarvationWatch } from './starvation.ts';
import { type LateActivity, Traffic } from './traffic.ts';
import { type Deadline, ifWithin, LimitError, within } from './within.ts';
import { evaluateIn, worldOf } from './world.ts';

const RECENT_MS = 2000;
/** For a page to answer between its dialogs. */
const RAISING_LIMIT_MS = 1500;
/** For a page to show that it goes on without an answer to its dialog. */
const LOST_DIALOG_MS = 1000;

/** How the page fares. `stuck`: a script of it does not end; `crashed`: the tab cannot be used any more. */
export type TabState = 'ok' | 'crashed' | 'stuck';

/** One page of a session: the driver's view of it, and our own session of the DevTools protocol beside. */
export class Tab {
  readonly page: Page;
  readonly cdp: CdpConnection;
  readonly #target: PageTarget;
  readonly #traffic: Traffic;
  readonly #watchStarvation: () => StarvationWatch;
  readonly #waiters = new Set<() => void>();
  state: TabState = 'ok';
  /** Called when a script was ended. */
  onInterrupt: (() => void) | undefined;
  /** Called when nothing helps, and the tab has to be replaced. */
  onGiveUp: (() => void) | undefined;
  /** A document that changes all the time is not waited for again and again. */
  restlessUrl: string | undefined;
  /** A document that is busy for ever, likewise. */
  busyUrl: string | undefined;
  /** A document that is replaced all the time is held at once when it is looked at. */
  recurringUrl: string | undefined;
  #dialogs = 0;
  #documentDialogs = 0;
  #dialogAt = -Infinity;

  constructor(page: Page, context: BrowserContext, cdp: CdpConnection, watchStarvation: () => StarvationWatch) {
    this.page = page;
    this.cdp = cdp;
    this.#watchStarvation = watchStarvation;
    this.#traffic = new Traffic(
      page,
      () => (this.#documentDialogs = 0),
      () => this.#wake(),
    );
    page.once('crash', () => {
      this.state = 'crashed';
      this.#wake();
    });
    this.#target = new PageTarget(page, context, cdp);
  }

  /** Our session of the page; its main frame has the target's id. @throws when the page is gone */
  session(): Promise<Attached> {
    return this.#target.attached;
  }

  /** Frames in other processes: id of the frame → our session of it. */
  get remoteFrames(): ReadonlyMap<string, string> {
    return this.#target.remoteFrames;
  }

  /** Whether a frame, as the browser names it, is in the page. */
  async hasFrame(frameId: string): Promise<boolean> {
    if (this.remoteFrames.has(frameId)) return true;
    const asked = this.session().then(({ sessionId }) => this.cdp.send('DOM.getFrameOwner', { frameId }, sessionId));
    return (await ifWithin(FRAME_LIMIT_MS, asked)) !== undefined;
  }

  /** Whether nothing can be asked of it any more. */
  get isGone(): boolean {
    return this.state === 'crashed' || this.page.isClosed();
  }

  get url(): string {
    return this.page.url();
  }

  /** Whether the page is about to be replaced by another one. */
  get isNavigating(): boolean {
    return this.#traffic.isNavigating;
  }

  get isLoading(): boolean {
    return this.#traffic.isLoading;
  }

  /** Documents that it has shown so far. */
  get documents(): number {
    return this.#traffic.documents;
  }

  /** Whether scripts of the page asked for something, or began to work beside it, since this was last asked. */
  takeLateActivity(): LateActivity | undefined {
    return this.#traffic.takeLateActivity();
  }

  /**
   * Asks the page for what takes it `expectedMs` when it fares well. When it says nothing for long beyond that, a script keeps it from
   * answering: that is ended.
   * @returns undefined when there is no answer, for whatever reason
   */
  async ask<T>(
    deadline: Deadline,
    script: string,
    { expectedMs, ...argument }: { readonly expectedMs: number; readonly [name: string]: unknown },
  ): Promise<T | undefined> {
    const asked = this.evaluate<T>(script, argument);
    const maxMs = deadline.left(Infinity, OBSERVATION_RESERVE_MS);
    try {
      return await this.#answer(asked, Math.min(maxMs, expectedMs + ANSWER_LIMIT_MS), maxMs, deadline.signal);
    } catch (error) {
      if (!(error instanceof LimitError) || deadline.isUp(OBSERVATION_RESERVE_MS) || this.isGone) return undefined;
      await this.#endScript(asked, deadline);
      return ifWithin(0, asked);
    }
  }

  /** Makes sure that the page answers: a script that keeps it from answering is ended. @returns whether it does */
  async revive(deadline: Deadline): Promise<boolean> {
    if (this.isGone) return false;
    const asked = this.evaluate('() => 1', {});
    try {
      // When little time is left it is shared: for the answer, for the one after the script was ended, for what comes then.
      const maxMs = deadline.left(Infinity) / 3;
      await this.#answer(asked, Math.min(ANSWER_LIMIT_MS, maxMs), maxMs, deadline.signal);
      this.state = 'ok';
    } catch (error) {
      if (this.isGone) return false;
      // What refuses to be asked, because it goes to another page, does answer.
      if (error instanceof LimitError) await this.#endScript(asked, deadline);
      else this.state = 'ok';
    }
    return this.state === 'ok';
  }

  /** What the browser says of the page, or a rejection: at the deadline, or after a limit that the machine had the time for. @throws LimitError */
  within<T>(deadline: Deadline, limitMs: number, promise: Promise<T>): Promise<T> {
    return this.#patiently(promise, limitMs, deadline.left(Infinity), deadline.signal);
  }

  ifWithin<T>(deadline: Deadline, limitMs: number, promise: Promise<T>): Promise<T | undefined> {
    return this.within(deadline, limitMs, promise).catch(() => undefined);
  }

  /** Gives up what is under way to the page, a navigation too. */
  async stopLoading(): Promise<void> {
    this.#traffic.forgetNavigation();
    const { sessionId } = await this.session();
    await this.cdp.send('Page.stopLoading', {}, sessionId);
  }

  /** Runs a function in our world of the main frame. @throws when the page is gone or navigates */
  async evaluate<T>(script: string, argument: object): Promise<T> {
    const { sessionId, targetId } = await this.session();
    const contextId = await worldOf(this.cdp, sessionId, targetId);
    return evaluateIn<T>(this.cdp, { sessionId, contextId }, script, argument);
  }

  /** Until no navigation is under way, or a limit. */
  navigated(deadline: Deadline, limitMs: number, reserveMs: number): Promise<boolean> {
    return this.#until(() => !this.isNavigating, deadline.left(limitMs, reserveMs), deadline.signal);
  }

  /** Until no request is open, or a limit. */
  loaded(deadline: Deadline, limitMs: number): Promise<boolean> {
    return this.#until(() => !this.isLoading && !this.isNavigating, deadline.left(limitMs), deadline.signal);
  }

  /** Until it shows another document than the one of this number, or a limit. */
  replaced(document: number, deadline: Deadline, limitMs: number): Promise<boolean> {
    return this.#until(() => this.documents !== document, deadline.left(limitMs), deadline.signal);
  }

  countDialog(): void {
    this.#dialogs += 1;
    this.#documentDialogs += 1;
    this.#dialogAt = performance.now();
    this.#wake();
  }

  /** A dialog that the browser shows, and does not let be answered, as at times when its page is being left: nothing goes on in the tab. */
  async loseDialog(signal: AbortSignal): Promise<void> {
    const document = this.documents;
    const answered = this.evaluate('() => 1', {}).catch(() => undefined);
    const isAnswering = (await ifWithin(LOST_DIALOG_MS, answered, signal)) === 1;
    if (!isAnswering && this.documents === document && !this.isGone && !signal.aborted) this.#giveUp();
  }

  /** Whether its document raises dialogs without end, the last one a moment ago. */
  get isRaising(): boolean {
    return this.#documentDialogs >= MAX_DIALOGS && performance.now() - this.#dialogAt < RECENT_MS;
  }

  /** Resolves with true when it has raised so many dialogs from now on, with false after a limit. */
  raises(dialogs: number, deadline: Deadline, limitMs: number): Promise<boolean> {
    const enough = this.#dialogs + dialogs;
    return this.#until(() => this.#dialogs >= enough, deadline.left(limitMs), deadline.signal);
  }

  /** Who raises one dialog after the other is not waited for as long as others. */
  async #answer<T>(asked: Promise<T>, limitMs: number, maxMs: number, signal: AbortSignal): Promise<T> {
    const [from, earlyMs] = [performance.now(), Math.min(RAISING_LIMIT_MS, limitMs)];
    try {
      return await within(earlyMs, asked, signal);
    } catch (error) {
      if (!(error instanceof LimitError) || signal.aborted || maxMs <= earlyMs || this.isRaising) throw error;
      const passedMs = performance.now() - from;
      return this.#patiently(asked, limitMs - passedMs, maxMs - passedMs, signal);
    }
  }

  #patiently<T>(promise: Promise<T>, limitMs: number, maxMs: number, signal: AbortSignal): Promise<T> {
    return patiently(promise, { limitMs, maxMs, signal, watch: this.#watchStarvation });
  }

  /** Whether it helped is shown by the answer to what was asked. */
  async #endScript(asked: Promise<unknown>, deadline: Deadline): Promise<void> {
    // Between two dialogs there is no moment in which a script could be ended.
    if (this.isRaising) return this.#giveUp();
    const answered = asked.then(
      () => true,
      // The document is another one: it does answer.
      () => true,
    );
    void this.#terminate().catch(() => {});
    const maxMs = deadline.left(Infinity) / 2;
    const back = this.#patiently(answered, Math.min(ANSWER_LIMIT_MS, maxMs), maxMs, deadline.signal);
    const isBack = await back.catch(() => false);
    if (this.isGone) return;
    this.state = isBack ? 'ok' : 'stuck';
    if (isBack) this.onInterrupt?.();
  }

  #giveUp(): void {
    this.state = 'crashed';
    this.onGiveUp?.();
    this.#wake();
  }

  async #terminate(): Promise<void> {
    const { sessionId } = await this.session();
    await this.cdp.send('Runtime.terminateExecution', {}, sessionId);
  }

  async #until(condition: () => boolean, limitMs: number, signal: AbortSignal): Promise<boolean> {
    const endsAt = performance.now() + limitMs;
    while (!condition()) {
      const left = endsAt - performance.now();
      if (left <= 0 || signal.aborted || this.isGone) return false;
      await ifWithin(left, new Promise<void>((resolve) => this.#waiters.add(resolve)), signal);
    }
    return true;
  }

  #wake(): void {
    for (const wake of this.#waiters) wake();
    this.#waiters.clear();
  }
}
