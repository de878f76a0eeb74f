import { browseObservation, type Observation } from '../../src/protocol/observations.ts';
import type { BrowserAction } from './browser-action.ts';
import { browseContent, interactiveContent } from './content.ts';
import type { SavedDownload } from './downloads.ts';
import type { PageView } from './observe.ts';
import { reprText } from './repr.ts';
import type { BrowserSession } from './session.ts';
import type { Tab } from './tab.ts';
import type { Deadline } from './within.ts';

/** An action that was carried out, as far as that went. */
export interface Done {
  readonly action: BrowserAction;
  readonly source: string;
  readonly error: string;
}

/** What was made of the picture of a page. */
export interface Pictures {
  readonly path: string | undefined;
  readonly marks: Buffer | undefined;
}

/** What is to be seen. */
export function seen(
  session: BrowserSession,
  tab: Tab,
  { action, source, error }: Done,
  view: PageView,
  { path: screenshotPath, marks }: Pictures,
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
    set_of_marks: dataUrl(marks) ?? null,
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
export function unseen(
  session: BrowserSession,
  tab: Tab,
  { action, source, error }: Done,
  deadline: Deadline,
): Observation {
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
export function downloaded(source: string, saved: readonly SavedDownload[]): Observation {
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
