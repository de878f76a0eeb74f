import {
  ANSWER_LIMIT_MS,
  LOAD_LIMIT_MS,
  NAVIGATION_LIMIT_MS,
  OBSERVATION_RESERVE_MS,
  PARSED_LIMIT_MS,
  QUIET_LIMIT_MS,
} from './limits.ts';
import { waitForDocument, waitForQuiet } from './page/scripts.js';
import type { Tab } from './tab.ts';
import { type Deadline, LimitError } from './within.ts';

/** What a click began shows within so long: a request, or a change that is drawn. */
const FRAMES_LIMIT_MS = 100;
/** Pages that redirect by script: more than this many in a row are taken as they are. */
const MAX_ROUNDS = 5;
/** A page that does not say how far it is for so much longer than this is busy with a script. */
const SLICE_MS = 1000;
/** The document is quiet when nothing changed for so long. */
const QUIET_MS = 100;
/** After scripts were at work: as a person would wait. */
const LATE_QUIET_MS = { request: 250, worker: 750 } as const;
/** For a document that is known to change all the time. */
const RESTLESS_LIMIT_MS = 200;

/**
 * Waits for what an action began: a navigation, the document, its load event, open requests; each up to a limit. A script that does not
 * end is ended.
 */
export async function settle(tab: Tab, deadline: Deadline, hasActed: boolean): Promise<void> {
  if (tab.state !== 'ok') return;
  if (hasActed) await tab.drawn(deadline, FRAMES_LIMIT_MS);
  let isComplete = false;
  const limit = performance.now() + NAVIGATION_LIMIT_MS;
  // A page that goes on to another one at once takes the waiting for it along.
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    await tab.navigated(deadline, limit - performance.now(), OBSERVATION_RESERVE_MS);
    const state = await documentState(tab, deadline);
    isComplete = state === 'complete';
    if (state !== undefined && !tab.isNavigating) break;
  }
  if (tab.isLoading && isComplete) {
    await tab.loaded(deadline, deadline.left(QUIET_LIMIT_MS, OBSERVATION_RESERVE_MS));
    await tab.drawn(deadline, FRAMES_LIMIT_MS);
  }
  // What a script asked for is shown when it has been worked on.
  const activity = tab.takeLateActivity();
  if (activity) await quiet(tab, deadline, LATE_QUIET_MS[activity]);
}

/** How far the document is when it is loaded, or a limit has passed; undefined when it went away meanwhile. */
async function documentState(tab: Tab, deadline: Deadline): Promise<string | undefined> {
  let parsedLeftMs = deadline.left(PARSED_LIMIT_MS, OBSERVATION_RESERVE_MS);
  let loadedLeftMs = deadline.left(LOAD_LIMIT_MS, OBSERVATION_RESERVE_MS);
  for (;;) {
    const request = {
      parsedLimitMs: Math.min(parsedLeftMs, SLICE_MS),
      loadedLimitMs: Math.min(loadedLeftMs, SLICE_MS),
    };
    const waiting = tab.evaluate<string>(waitForDocument.toString(), request);
    let state: string;
    try {
      state = await deadline.within(2 * SLICE_MS + ANSWER_LIMIT_MS, waiting, OBSERVATION_RESERVE_MS);
    } catch (error) {
      if (!(error instanceof LimitError) || tab.state !== 'ok' || tab.page.isClosed()) return undefined;
      await tab.revive(deadline);
      return 'interactive';
    }
    if (state === 'loading') parsedLeftMs -= SLICE_MS;
    else loadedLeftMs -= SLICE_MS;
    if (state === 'complete' || parsedLeftMs <= 0 || loadedLeftMs <= 0 || deadline.isOver) return state;
  }
}

/** Waits until a document that was found changing no longer changes, up to a limit. */
export async function calmDown(tab: Tab, deadline: Deadline): Promise<void> {
  await quiet(tab, deadline, QUIET_MS);
}

async function quiet(tab: Tab, deadline: Deadline, quietMs: number): Promise<void> {
  const { url } = tab;
  const limitMs = deadline.left(tab.restlessUrl === url ? RESTLESS_LIMIT_MS : QUIET_LIMIT_MS, OBSERVATION_RESERVE_MS);
  const isQuiet = await deadline.ifWithin(
    limitMs + 500,
    tab.evaluate<boolean>(waitForQuiet.toString(), { quietMs, limitMs }),
  );
  if (isQuiet === false) tab.restlessUrl = url;
  else if (isQuiet === true) tab.restlessUrl = undefined;
}
