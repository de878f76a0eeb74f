import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { perform } from './actions/index.ts';
import { type BrowserAction, callsOf } from './browser-action.ts';
import { faultLine } from './fault.ts';
import { OBSERVATION_RESERVE_MS } from './limits.ts';
import type { BrowserSession } from './session.ts';
import type { Tab } from './tab.ts';
import { settle } from './settle.ts';
import { type Deadline, LimitError, OutOfTimeError } from './within.ts';

export interface PerformOptions {
  readonly access: FileAccess;
  readonly workingDir: string;
}

/** What these begin is known when they return; what a click begins shows a moment later. */
const NAVIGATIONS: ReadonlySet<string> = new Set(['goto', 'new_tab', 'tab_focus', 'tab_close']);

/** In order, until one fails. */
export async function performAll(
  session: BrowserSession,
  action: BrowserAction,
  source: string,
  deadline: Deadline,
  { access, workingDir }: PerformOptions,
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
export async function settled(session: BrowserSession, deadline: Deadline, hasActed: boolean): Promise<Tab> {
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
