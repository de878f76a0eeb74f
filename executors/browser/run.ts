import type { Observation } from '../../src/protocol/observations.ts';
import { type BrowserAction, sourceOf } from './browser-action.ts';
import { DisconnectedError } from './cdp.ts';
import { DOWNLOAD_LIMIT_MS, LAST_LOOK_MS, OBSERVATION_RESERVE_MS } from './limits.ts';
import { look } from './look.ts';
import { tryDrawMarks } from './marks.ts';
import { performAll, type PerformOptions, settled } from './perform.ts';
import { type Done, downloaded, seen, unseen } from './result.ts';
import type { Screenshots } from './screenshots.ts';
import type { BrowserSession } from './session.ts';
import type { Tab } from './tab.ts';
import { Deadline } from './within.ts';

export interface RunOptions extends PerformOptions {
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
  return told(
    session,
    session.tabs.active === tab ? tab : await settled(session, deadline, false),
    { action, source, error },
    deadline,
    options,
  );
}

async function told(
  session: BrowserSession,
  tab: Tab,
  done: Done,
  deadline: Deadline,
  options: RunOptions,
): Promise<Observation> {
  const view = await look(session, tab, done.action, deadline);
  if (!view && session.isOver) throw new DisconnectedError('The browser has ended.');
  if (!view) return unseen(session, tab, done, deadline);
  const { screenshot, properties } = view;
  const [path, marks] = screenshot
    ? await Promise.all([options.screenshots.save(screenshot), tryDrawMarks(screenshot, properties)])
    : [];
  return seen(session, tab, done, view, { path, marks });
}
