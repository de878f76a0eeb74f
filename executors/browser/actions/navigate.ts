import { toAddress } from '../address.ts';
import type { CallArgs } from '../calls.ts';
import {
  ANSWER_LIMIT_MS,
  DOWNLOAD_BEGIN_LIMIT_MS,
  MAX_DIALOGS,
  NAVIGATION_LIMIT_MS,
  OBSERVATION_RESERVE_MS,
} from '../limits.ts';
import type { Scope } from '../scope.ts';
import type { Tab } from '../tab.ts';

/** For what a page does when it is about to be left. */
const LAST_WORDS_LIMIT_MS = 1000;

const IS_INTERRUPTED = /is interrupted by another navigation/;

/** What the driver says when an address is a file to save and no page. */
const IS_NO_PAGE = /Download is starting|net::ERR_ABORTED/;

export async function goto(scope: Scope, { url }: CallArgs<'goto'>): Promise<void> {
  const address = toAddress(url);
  const tab = (await isUsable(scope)) ? scope.tab : await scope.tabs.replace(scope.tab);
  // A reload that its page began before it was left would bring it back.
  const isComingBack = tab.recurringUrl !== undefined && tab.recurringUrl === tab.url;
  if (!isComingBack && !tab.isRaising && (await leave(scope, tab, address))) return;
  scope.note('The page did not let itself be left: its tab was replaced by a new one');
  await visit(scope, await scope.tabs.replace(tab), address);
}

/** @returns false for a page that keeps the browser with itself, by dialogs or by going elsewhere all the time */
async function leave(scope: Scope, tab: Tab, address: string): Promise<boolean> {
  const visiting = visit(scope, tab, address);
  const isHeld = tab.raises(MAX_DIALOGS, scope.deadline, NAVIGATION_LIMIT_MS);
  const left = visiting.then(
    () => true,
    (error: unknown) => {
      if (error instanceof Error && IS_INTERRUPTED.test(error.message)) return false;
      throw error;
    },
  );
  left.catch(() => {});
  const isStuck = keepsTalking(scope, tab, left);
  return Promise.race([
    left,
    isHeld.then((held) => (held || tab.isGone ? false : left)),
    isStuck.then((stuck) => (stuck ? false : left)),
  ]);
}

/** Whether the page does not come to the end of what it does before it is left, such as a handler of `beforeunload`. */
async function keepsTalking({ deadline }: Scope, tab: Tab, left: Promise<boolean>): Promise<boolean> {
  const isOver = left.then(
    () => true,
    () => true,
  );
  if ((await deadline.ifWithin(LAST_WORDS_LIMIT_MS, isOver)) === true || tab.isNavigating) return false;
  const answer = tab.evaluate('() => 1', {}).then(
    () => true,
    () => true,
  );
  const isAnswered = await deadline.ifWithin(ANSWER_LIMIT_MS, Promise.race([answer, isOver]), OBSERVATION_RESERVE_MS);
  // A page whose successor is under way need not answer any more.
  return isAnswered !== true && !tab.isNavigating && !deadline.isUp(OBSERVATION_RESERVE_MS);
}

async function visit(scope: Scope, tab: Tab, address: string): Promise<void> {
  const before = scope.downloads.begun;
  const timeout = scope.deadline.left(NAVIGATION_LIMIT_MS, OBSERVATION_RESERVE_MS);
  try {
    await scope.deadline.within(timeout + 1000, tab.page.goto(address, { timeout, waitUntil: 'commit' }));
  } catch (error) {
    const isFile = error instanceof Error && IS_NO_PAGE.test(error.message);
    if (isFile && (await scope.downloads.hasBegunSince(before, DOWNLOAD_BEGIN_LIMIT_MS, scope.deadline))) return;
    // What is still awaited must not come up in the middle of a later action.
    if (!isFile) await scope.deadline.ifWithin(1000, tab.stopLoading());
    throw error;
  }
}

/** A page whose script does not end cannot be left: it is given up. */
async function isUsable({ tab, deadline }: Scope): Promise<boolean> {
  return tab.state === 'ok' && (tab.isNavigating || (await tab.revive(deadline)));
}

export async function goBack(scope: Scope): Promise<void> {
  await goInHistory(scope, 'goBack', 'There is no earlier page to go back to');
}

export async function goForward(scope: Scope): Promise<void> {
  await goInHistory(scope, 'goForward', 'There is no later page to go forward to');
}

async function goInHistory(scope: Scope, way: 'goBack' | 'goForward', nowhere: string): Promise<void> {
  const { page } = scope.tab;
  const before = page.url();
  const timeout = scope.deadline.left(NAVIGATION_LIMIT_MS, OBSERVATION_RESERVE_MS);
  const response = await scope.deadline.within(timeout + 1000, page[way]({ timeout, waitUntil: 'commit' }));
  if (response === null && page.url() === before) scope.note(nowhere);
}
