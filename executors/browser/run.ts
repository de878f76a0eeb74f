import type { BrowseAction, BrowseInteractiveAction } from '../../src/protocol/actions.ts';
import { browseObservation, type Observation } from '../../src/protocol/observations.ts';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { perform } from './actions/index.ts';
import { toAddress } from './address.ts';
import { type Call, readCalls } from './calls.ts';
import { DisconnectedError } from './cdp.ts';
import { browseContent, interactiveContent } from './content.ts';
import type { SavedDownload } from './downloads.ts';
import { faultLine } from './fault.ts';
import { whileHeld } from './hold.ts';
import { DOWNLOAD_LIMIT_MS, LAST_LOOK_MS, OBSERVATION_RESERVE_MS, OBSERVE_LIMIT_MS } from './limits.ts';
import { observe, type ObserveRequest, type PageView } from './observe.ts';
import { reprText } from './repr.ts';
import type { Screenshots } from './screenshots.ts';
import type { BrowserSession } from './session.ts';
import { calmDown, settle } from './settle.ts';
import type { Tab } from './tab.ts';
import { Deadline, LimitError, OutOfTimeError } from './within.ts';

export type BrowserAction = BrowseAction | BrowseInteractiveAction;

export interface RunOptions {
  readonly access: FileAccess;
  readonly workingDir: string;
  readonly screenshots: Screenshots;
}

/** Carries out an action in its session and says what is to be seen afterwards. @throws when the browser ends meanwhile */
export async function run(
  session: BrowserSession,
  action: BrowserAction,
  limit: Deadline,
  options: RunOptions,
): Promise<Observation> {
  const source = sourceOf(action);
  const before = session.downloads.begun;
  const { error, mayGoOn } = await performAll(session, action, source, limit, options);
  // Who cancels wants to know what the page looks like, too.
  const deadline = limit.signal.aborted ? new Deadline(performance.now() + LAST_LOOK_MS, session.ended) : limit;
  const tab = await settled(session, deadline, mayGoOn);
  const downloadMs = session.downloads.begun > before ? DOWNLOAD_LIMIT_MS : 0;
  const { saved, lines } = await session.downloads.take(deadline, downloadMs, OBSERVATION_RESERVE_MS);
  for (const line of lines) session.note(line);
  if (saved.length > 0) return downloaded(source, saved);
  return look(
    session,
    session.tabs.active === tab ? tab : await settled(session, deadline, false),
    { action, source, error },
    deadline,
    options,
  );
}

/** The action as it stands in `last_browser_action` (V0 §8.8). */
export function sourceOf(action: BrowserAction): string {
  if (action.action === 'browse_interactive') return action.args.browser_actions;
  const { url } = action.args;
  try {
    return `goto("${toAddress(url)}")`;
  } catch {
    return `goto("${url}")`;
  }
}

function callsOf(action: BrowserAction, source: string): Call[] {
  return action.action === 'browse' ? [{ name: 'goto', args: { url: action.args.url } }] : readCalls(source);
}

/** What these begin is known when they return; what a click begins shows a moment later. */
const NAVIGATIONS: ReadonlySet<string> = new Set(['goto', 'new_tab', 'tab_focus', 'tab_close']);

/** In order, until one fails. */
async function performAll(
  session: BrowserSession,
  action: BrowserAction,
  source: string,
  deadline: Deadline,
  { access, workingDir }: RunOptions,
): Promise<{ error: string; mayGoOn: boolean }> {
  let hasActed = false;
  let mayGoOn = false;
  try {
    for (const call of callsOf(action, source)) {
      if (hasActed) await settled(session, deadline, false);
      if (deadline.isUp(OBSERVATION_RESERVE_MS)) throw new OutOfTimeError('over');
      hasActed = true;
      const scope = {
        tabs: session.tabs,
        tab: await session.tabs.current(),
        downloads: session.downloads,
        deadline,
        access,
        workingDir,
        note: (text: string) => session.note(text),
      };
      mayGoOn = !NAVIGATIONS.has(call.name);
      await perform(scope, call);
    }
    return { error: '', mayGoOn };
  } catch (problem) {
    if (session.process.isEnded) throw problem;
    return { error: describe(problem, deadline), mayGoOn };
  }
}

function describe(problem: unknown, deadline: Deadline): string {
  if (deadline.signal.aborted) return deadline.reason;
  if (problem instanceof OutOfTimeError || (problem instanceof LimitError && deadline.isUp(OBSERVATION_RESERVE_MS)))
    return deadline.reason;
  if (problem instanceof LimitError) return `TimeoutError: The page did not answer (${problem.message}).`;
  return faultLine(problem);
}

/** The tab that is active when everything has come to rest: what was opened last is what there is to see. */
async function settled(session: BrowserSession, deadline: Deadline, hasActed: boolean): Promise<Tab> {
  let tab = await usableTab(session);
  await settle(tab, deadline, hasActed);
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    await session.tabs.opened(deadline);
    const now = await usableTab(session);
    if (now === tab) break;
    tab = now;
    await settle(tab, deadline, false);
  }
  return tab;
}

/** Tabs that open tabs that open tabs. */
const MAX_ROUNDS = 3;

/** The active tab in a state in which it can be looked at, as far as that is possible. */
async function usableTab(session: BrowserSession): Promise<Tab> {
  const tab = await session.tabs.current();
  if (tab.state === 'crashed') return session.tabs.replace(tab);
  return tab;
}

interface Done {
  readonly action: BrowserAction;
  readonly source: string;
  readonly error: string;
}

async function look(
  session: BrowserSession,
  tab: Tab,
  done: Done,
  deadline: Deadline,
  options: RunOptions,
): Promise<Observation> {
  const view = await lookTwice(session, tab, done.action, deadline);
  if (!view && session.isOver) throw new DisconnectedError('The browser has ended.');
  const path = view?.screenshot && (await options.screenshots.save(view.screenshot));
  return view ? observation(session, tab, done, view, path) : unseen(session, tab, done, deadline);
}

/** A page that changes while it is looked at is looked at again when it has come to rest; a script that does not end is ended. */
async function lookTwice(
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

function observation(
  session: BrowserSession,
  tab: Tab,
  { action, source, error }: Done,
  view: PageView,
  screenshotPath: string | undefined,
): Observation {
  const { tabs } = session;
  const notes = session.takeNotes();
  const parts = { url: view.url, error, notes };
  const content =
    action.action === 'browse'
      ? browseContent({ ...parts, text: view.text })
      : interactiveContent({ ...parts, tree: view.tree, focused: view.focused, screenshotPath });
  const hasTree = action.args.return_axtree;
  return browseObservation(content, {
    url: view.url,
    trigger_by_action: action.action,
    screenshot: dataUrl(view.screenshot) ?? null,
    screenshot_path: screenshotPath ?? null,
    set_of_marks: dataUrl(view.marks) ?? null,
    error: error !== '',
    open_pages_urls: tabs.all.map(({ url }) => url),
    active_page_index: tabs.all.indexOf(tab),
    axtree_object: hasTree && view.nodes ? { nodes: view.nodes } : {},
    extra_element_properties: hasTree ? view.properties : {},
    last_browser_action: source,
    last_browser_action_error: error,
    focused_element_bid: view.focused,
  });
}

const UNANSWERED =
  'TimeoutError: The page does not answer; a script of it may run without end. goto() opens another one.';

/** The page does not answer: what is known without it (V0 §8.5). */
function unseen(session: BrowserSession, tab: Tab, { action, source, error }: Done, deadline: Deadline): Observation {
  const { tabs } = session;
  const reason = deadline.isOver ? deadline.reason : UNANSWERED;
  const problem = error === '' ? reason : error;
  const parts = { url: tab.url, error: problem, notes: session.takeNotes() };
  const content =
    action.action === 'browse'
      ? browseContent({ ...parts, text: undefined })
      : interactiveContent({ ...parts, tree: undefined, focused: null, screenshotPath: undefined });
  return browseObservation(content, {
    url: tab.url,
    trigger_by_action: action.action,
    screenshot: '',
    error: true,
    open_pages_urls: tabs.all.map(({ url }) => url),
    active_page_index: tabs.all.indexOf(tab),
    last_browser_action: source,
    last_browser_action_error: problem,
  });
}

/** The browser is not there (V0 §8.5). */
export function failed(action: BrowserAction, problem: string): Observation {
  const url = action.action === 'browse' ? action.args.url : '';
  const parts = { url, error: problem, notes: [] };
  const content =
    action.action === 'browse'
      ? browseContent({ ...parts, text: undefined })
      : interactiveContent({ ...parts, tree: undefined, focused: null, screenshotPath: undefined });
  return browseObservation(content, {
    url,
    trigger_by_action: action.action,
    screenshot: '',
    error: true,
    last_browser_action_error: problem,
  });
}

/** V0 §8.6. */
function downloaded(source: string, saved: readonly SavedDownload[]): Observation {
  const shown = source.length > 2000 ? reprText(`${source.slice(0, 2000)}…`) : source;
  const content = saved
    .map(
      ({ path }) =>
        `Execution of the previous action ${shown} resulted in a file download. The downloaded file is saved at location: ${path}`,
    )
    .join('\n');
  const path = saved[0]?.path ?? '';
  return {
    message: `Downloaded the file at location: ${path}`,
    observation: 'download',
    content,
    extras: { file_path: path },
  };
}

function dataUrl(png: Buffer | undefined): string | undefined {
  return png && `data:image/png;base64,${png.toString('base64')}`;
}
