import type { ElementProperties } from '../../src/protocol/observations.ts';
import { type AxNode, type FrameTree, formatTree, mergeTrees } from './axtree.ts';
import { type MarkedFrame, type MarkedPage, markPage } from './frames.ts';
import { ANSWER_LIMIT_MS, FRAME_LIMIT_MS, MAX_CONTENT_CHARS, OBSERVE_LIMIT_MS, PICTURE_LIMIT_MS } from './limits.ts';
import { readVersion } from './page/scripts.js';
import { FRAME_MARK, pageText } from './page/text.js';
import { type DomSnapshot, type PageElements, readElements, SNAPSHOT_REQUEST } from './snapshot.ts';
import type { Tab } from './tab.ts';
import { type Deadline, ifWithin } from './within.ts';
import { evaluateIn } from './world.ts';

/** What to look at, beside ids, properties and the picture. */
export interface ObserveRequest {
  readonly hasTree: boolean;
  readonly hasText: boolean;
}

/** One look at a page; a part that could not be had is undefined. */
export interface PageView {
  readonly url: string;
  readonly tree: string | undefined;
  readonly nodes: readonly AxNode[] | undefined;
  readonly text: string | undefined;
  readonly properties: Record<string, ElementProperties>;
  readonly focused: string | null;
  readonly screenshot: Buffer | undefined;
  /** Frames that could not be looked into. */
  readonly missingFrames: number;
  /** Whether the page changed while it was looked at. */
  readonly hasChanged: boolean;
}

/**
 * Looks at a page: everything that does not need something else is asked for side by side.
 * @throws when the page does not answer, is gone, or navigates meanwhile
 */
export async function observe(tab: Tab, request: ObserveRequest, deadline: Deadline): Promise<PageView> {
  const { url, documents } = tab;
  const picture = takeScreenshot(tab).catch(() => undefined);
  const page = await tab.within(deadline, OBSERVE_LIMIT_MS, markPage(tab));
  const [main] = page.frames;
  const [elements, trees, text] = await Promise.all([
    tab.within(deadline, OBSERVE_LIMIT_MS, lookAtElements(tab, page)),
    request.hasTree ? tab.ifWithin(deadline, OBSERVE_LIMIT_MS, readTrees(tab, page)) : undefined,
    request.hasText ? tab.ifWithin(deadline, OBSERVE_LIMIT_MS, readText(tab, page)) : undefined,
  ]);
  // The browser never answers for a picture of a page that was replaced.
  const replaced = tab.replaced(documents, deadline, PICTURE_LIMIT_MS).then(() => undefined);
  const screenshot = await Promise.race([picture, replaced]);
  const version =
    main && (await deadline.ifWithin(ANSWER_LIMIT_MS, evaluateIn(tab.cdp, main.world, readVersion.toString(), {})));
  if (tab.documents !== documents) throw new Error('The page was replaced by another one.');
  const nodes = trees && mergeTrees(trees, elements);
  return {
    url: main?.reply.url ?? url,
    tree: nodes && formatTree(nodes, elements),
    nodes,
    text,
    properties: elements.properties,
    focused: focusedBid(page.frames),
    screenshot,
    missingFrames: page.missing,
    hasChanged: version !== main?.reply.version || tab.isNavigating,
  };
}

/** The viewport, without waiting for fonts or for an animation to end. */
export async function takeScreenshot(tab: Tab, isWholePage = false): Promise<Buffer> {
  const { sessionId } = await tab.session();
  const { data } = await tab.cdp.send<{ data: string }>(
    'Page.captureScreenshot',
    { format: 'png', optimizeForSpeed: true, captureBeyondViewport: isWholePage },
    sessionId,
  );
  return Buffer.from(data, 'base64');
}

async function lookAtElements({ cdp }: Tab, { frames }: MarkedPage): Promise<PageElements> {
  const sessions = new Set(frames.map(({ world }) => world.sessionId));
  const main = frames[0]?.world.sessionId;
  const snapshots = await Promise.all(
    Array.from(sessions, (sessionId) => {
      const asked = cdp.send<DomSnapshot>('DOMSnapshot.captureSnapshot', SNAPSHOT_REQUEST, sessionId);
      return sessionId === main ? asked : ifWithin(FRAME_LIMIT_MS, asked);
    }),
  );
  return readElements(
    snapshots.filter((snapshot) => snapshot !== undefined),
    frames,
  );
}

async function readTrees({ cdp }: Tab, { frames }: MarkedPage): Promise<FrameTree[]> {
  const trees = await Promise.all(
    frames.map(async (frame): Promise<FrameTree | undefined> => {
      const asked = cdp.send<{ nodes: AxNode[] }>(
        'Accessibility.getFullAXTree',
        { frameId: frame.frameId },
        frame.world.sessionId,
      );
      const reply = frame.parent === undefined ? await asked : await ifWithin(FRAME_LIMIT_MS, asked);
      return reply && { frame, nodes: reply.nodes };
    }),
  );
  return trees.filter((tree) => tree !== undefined);
}

/** The text of the page, with that of its frames where they are. */
async function readText({ cdp }: Tab, { frames }: MarkedPage): Promise<string> {
  const request = { maxChars: MAX_CONTENT_CHARS, frameMark: FRAME_MARK };
  const texts = await Promise.all(
    frames.map(async ({ prefix, parent, world }) => {
      const asked = evaluateIn<string>(cdp, world, pageText.toString(), request);
      return [prefix, parent === undefined ? await asked : ((await ifWithin(FRAME_LIMIT_MS, asked)) ?? '')] as const;
    }),
  );
  const byPrefix = new Map(texts);
  const place = new RegExp(`${FRAME_MARK}(\\w*)${FRAME_MARK}`, 'g');
  const expand = (text: string): string =>
    text.replaceAll(place, (_mark, prefix: string) => (prefix === '' ? '' : expand(byPrefix.get(prefix) ?? '')));
  return expand(byPrefix.get('') ?? '').trim();
}

/** The focus of the main frame; when that is a frame's element, the focus within. */
function focusedBid(frames: readonly MarkedFrame[]): string | null {
  let frame = frames[0];
  for (;;) {
    const focused = frame?.reply.focused ?? null;
    const inner = focused === null ? undefined : frames.find(({ prefix }) => prefix === focused && prefix !== '');
    if (!inner || inner === frame) return focused;
    frame = inner;
  }
}
