import {
  BUSY_LIMIT_MS,
  LOAD_LIMIT_MS,
  NAVIGATION_LIMIT_MS,
  OBSERVATION_RESERVE_MS,
  PARSED_LIMIT_MS,
  QUIET_LIMIT_MS,
} from './limits.ts';
import { type DocumentState, waitForDocument, waitForFrames, waitForQuiet } from './page/scripts.js';
import type { Tab } from './tab.ts';
import type { Deadline } from './within.ts';

/** What a click began shows within so long: a request, or a change that is drawn. */
const FRAMES_LIMIT_MS = 100;
/** Pages that redirect by script: more than this many in a row are taken as they are. */
const MAX_ROUNDS = 5;
/** A page is asked again so often how far it is: it may have stopped to answer. */
const SLICE_MS = 500;
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
  if (hasActed) await drawn(tab, deadline);
  let isComplete = false;
  const limit = performance.now() + NAVIGATION_LIMIT_MS;
  // A page that goes on to another one at once takes the waiting for it along.
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    await tab.navigated(deadline, limit - performance.now(), OBSERVATION_RESERVE_MS);
    const state = await documentState(tab, deadline);
    isComplete = state === 'busy' || state === 'complete';
    if (tab.state !== 'ok' || deadline.isUp(OBSERVATION_RESERVE_MS)) return;
    if (state !== undefined && !tab.isNavigating) break;
  }
  if (tab.isLoading && isComplete) {
    await tab.loaded(deadline, deadline.left(QUIET_LIMIT_MS, OBSERVATION_RESERVE_MS));
    await drawn(tab, deadline);
  }
  // What a script asked for is shown when it has been worked on.
  const activity = tab.takeLateActivity();
  if (activity) await quiet(tab, deadline, LATE_QUIET_MS[activity]);
}

/** Until what was begun has been drawn once. */
async function drawn(tab: Tab, deadline: Deadline): Promise<void> {
  await tab.ask(deadline, waitForFrames.toString(), { limitMs: FRAMES_LIMIT_MS, expectedMs: FRAMES_LIMIT_MS });
}

/** How far the document is when it is loaded, or a limit has passed; undefined when it went away meanwhile. */
async function documentState(tab: Tab, deadline: Deadline): Promise<DocumentState | undefined> {
  let from: DocumentState = 'loading';
  let endsAt = performance.now() + PARSED_LIMIT_MS;
  for (;;) {
    const limitMs: number = Math.min(deadline.left(SLICE_MS, OBSERVATION_RESERVE_MS), endsAt - performance.now());
    const request: Parameters<Tab['ask']>[2] = { from, limitMs, expectedMs: SLICE_MS };
    const state = await tab.ask<DocumentState>(deadline, waitForDocument.toString(), request);
    if (state === undefined || state === 'complete') return state;
    if (state === 'busy' && tab.busyUrl === tab.url) return 'complete';
    if (state !== from) endsAt = performance.now() + (state === 'busy' ? BUSY_LIMIT_MS : LOAD_LIMIT_MS);
    from = state;
    if (performance.now() < endsAt && !deadline.isUp(OBSERVATION_RESERVE_MS)) continue;
    if (state === 'busy') tab.busyUrl = tab.url;
    return state;
  }
}

/** Waits until a document that was found changing no longer changes, up to a limit. */
export async function calmDown(tab: Tab, deadline: Deadline): Promise<void> {
  await quiet(tab, deadline, QUIET_MS);
}

async function quiet(tab: Tab, deadline: Deadline, quietMs: number): Promise<void> {
  const { url } = tab;
  const limitMs = deadline.left(tab.restlessUrl === url ? RESTLESS_LIMIT_MS : QUIET_LIMIT_MS, OBSERVATION_RESERVE_MS);
  const request = { quietMs, limitMs, expectedMs: limitMs };
  const isQuiet = await tab.ask<boolean>(deadline, waitForQuiet.toString(), request);
  if (isQuiet === false) tab.restlessUrl = url;
  else if (isQuiet === true) tab.restlessUrl = undefined;
}
