import {
  LOAD_LIMIT_MS,
  NAVIGATION_LIMIT_MS,
  OBSERVATION_RESERVE_MS,
  PARSED_LIMIT_MS,
  QUIET_LIMIT_MS,
} from './limits.ts';
import { waitForQuiet } from './page/scripts.js';
import type { Tab } from './tab.ts';
import type { Deadline } from './within.ts';

/** What a click began shows within so long: a request, or a change that is drawn. */
const FRAMES_LIMIT_MS = 100;
/** The document is quiet when nothing changed for so long. */
const QUIET_MS = 100;
/** For a document that is known to change all the time. */
const RESTLESS_LIMIT_MS = 200;

/** Waits for what an action began: a navigation, the document, its load event, open requests; each up to a limit. */
export async function settle(tab: Tab, deadline: Deadline, hasActed: boolean): Promise<void> {
  if (tab.state !== 'ok') return;
  const { page } = tab;
  if (hasActed) await tab.drawn(deadline, FRAMES_LIMIT_MS);
  await tab.navigated(deadline, NAVIGATION_LIMIT_MS, OBSERVATION_RESERVE_MS);
  for (const [state, limit] of [
    ['domcontentloaded', PARSED_LIMIT_MS],
    ['load', LOAD_LIMIT_MS],
  ] as const) {
    const timeout = deadline.left(limit, OBSERVATION_RESERVE_MS);
    await deadline.ifWithin(timeout, page.waitForLoadState(state, { timeout }));
  }
  if (tab.isLoading) {
    await tab.loaded(deadline, deadline.left(QUIET_LIMIT_MS, OBSERVATION_RESERVE_MS));
    await tab.drawn(deadline, FRAMES_LIMIT_MS);
  }
}

/** Waits until a document that was found changing no longer changes, up to a limit. */
export async function calmDown(tab: Tab, deadline: Deadline): Promise<void> {
  const { url } = tab;
  const limitMs = deadline.left(tab.restlessUrl === url ? RESTLESS_LIMIT_MS : QUIET_LIMIT_MS, OBSERVATION_RESERVE_MS);
  const isQuiet = await deadline.ifWithin(
    limitMs + 500,
    tab.evaluate<boolean>(waitForQuiet.toString(), { quietMs: QUIET_MS, limitMs }),
  );
  tab.restlessUrl = isQuiet === false ? url : undefined;
}
