import type { BrowserAction } from './browser-action.ts';
import { whileHeld } from './hold.ts';
import { OBSERVE_LIMIT_MS } from './limits.ts';
import { observe, type ObserveRequest, type PageView } from './observe.ts';
import type { BrowserSession } from './session.ts';
import { calmDown, settle } from './settle.ts';
import type { Tab } from './tab.ts';
import { type Deadline, LimitError } from './within.ts';

/** Pages that replace each other: more than this many are not waited for. */
const MAX_ROUNDS = 3;

/** A page that changes while it is looked at is looked at again when it has come to rest; a script that does not end is ended. */
export async function look(
  session: BrowserSession,
  tab: Tab,
  action: BrowserAction,
  deadline: Deadline,
): Promise<PageView | undefined> {
  const request = {
    hasTree: action.action === 'browse_interactive' || action.args.return_axtree,
    hasText: action.action === 'browse',
  };
  const before = tab.documents;
  let view = tab.recurringUrl === tab.url ? undefined : await tryLooks(session, tab, request, deadline);
  const isRecurring = tab.recurringUrl === tab.url || tab.documents > before;
  if (!view && isRecurring && !tab.page.isClosed() && !deadline.isOver) {
    view = await deadline.ifWithin(OBSERVE_LIMIT_MS, lookHeld(tab, request, deadline));
    if (view) session.note('The page keeps reloading, or going to other pages: it was stopped to be looked at');
    tab.recurringUrl = view && tab.url;
  }
  if (view && view.missingFrames > 0)
    session.note(`${view.missingFrames} frame(s) of the page do not answer, or are too many: they are left out`);
  return view;
}

/** A page that is replaced again and again. */
function lookHeld(tab: Tab, request: ObserveRequest, deadline: Deadline): Promise<PageView> {
  return whileHeld(tab, async () => {
    await settle(tab, deadline, false);
    return observeAlive(tab, request, deadline);
  });
}

async function tryLooks(
  session: BrowserSession,
  tab: Tab,
  request: ObserveRequest,
  deadline: Deadline,
): Promise<PageView | undefined> {
  const before = tab.documents;
  let view: PageView | undefined;
  for (let attempt = 0; attempt < 3; attempt += 1) {
    try {
      view = await observeAlive(tab, request, deadline);
      if (!view.hasChanged || attempt > 0) break;
      await settle(tab, deadline, false);
      await calmDown(tab, deadline);
    } catch (error) {
      if (session.process.isEnded) throw error;
      // It went to another page meanwhile, or stopped to answer.
      if (deadline.isOver || tab.state !== 'ok' || tab.isGone || tab.documents - before > MAX_ROUNDS) break;
      await settle(tab, deadline, false);
    }
  }
  return view;
}

/** A script that keeps the page from being looked at is ended. @throws like `observe` */
async function observeAlive(tab: Tab, request: ObserveRequest, deadline: Deadline): Promise<PageView> {
  const alive = tab.revive(deadline);
  const view = observe(tab, request, deadline);
  view.catch(() => {});
  if (!(await alive)) throw new LimitError('the page does not answer');
  return view;
}
