import type { CdpConnection } from './cdp.ts';
import { FRAME_LIMIT_MS, MAX_FRAMES } from './limits.ts';
import { type Box, type FrameBox, frameBox, type MarkReply, markElements } from './page/scripts.js';
import type { Tab } from './tab.ts';
import { ifWithin } from './within.ts';
import { evaluateIn, type World, worldOf } from './world.ts';

/** One frame of a page whose elements have ids. */
export interface MarkedFrame {
  readonly frameId: string;
  readonly world: World;
  /** Of the ids of its elements; also the id of the frame's own element. */
  readonly prefix: string;
  readonly parent: MarkedFrame | undefined;
  /** The frame's element, as the browser counts nodes in the parent's process. */
  readonly ownerNodeId: number | undefined;
  /** Where its viewport is on the picture of the page. */
  readonly x: number;
  readonly y: number;
  /** What of it is to be seen on that picture. */
  readonly visible: Box;
  readonly reply: MarkReply;
}

export interface MarkedPage {
  readonly frames: readonly MarkedFrame[];
  /** Frames that did not answer, are gone, or are too many. */
  readonly missing: number;
}

interface FrameNode {
  readonly frame: { readonly id: string };
  readonly childFrames?: readonly FrameNode[];
}

interface Place {
  readonly sessionId: string;
  readonly children: readonly string[];
}

/** Elements of one frame that get an id. */
const MAX_ELEMENTS = 250_000;

/** Gives the elements of all frames their ids: the main frame first, then what is in it, side by side. @throws when the main frame does not answer */
export async function markPage(tab: Tab): Promise<MarkedPage> {
  const { cdp } = tab;
  const { sessionId, targetId } = await tab.session();
  const [places, contextId] = await Promise.all([framePlaces(tab, sessionId), worldOf(cdp, sessionId, targetId)]);
  const world: World = { sessionId, contextId };
  const reply = await mark(cdp, world, '', undefined);
  const root: MarkedFrame = {
    frameId: targetId,
    world,
    prefix: '',
    parent: undefined,
    ownerNodeId: undefined,
    x: 0,
    y: 0,
    visible: { x: 0, y: 0, width: reply.width, height: reply.height },
    reply,
  };
  const frames = [root];
  let missing = Math.max(0, places.size - MAX_FRAMES);
  for (let level: readonly MarkedFrame[] = [root]; level.length > 0;) {
    const found = await Promise.all(
      level.flatMap((parent) => {
        const children = places.get(parent.frameId)?.children ?? [];
        return children.map((frameId) => markFrame(cdp, parent, frameId, places));
      }),
    );
    const marked = found.filter((frame) => frame !== undefined).slice(0, MAX_FRAMES - frames.length);
    missing += found.length - marked.length;
    frames.push(...marked);
    level = marked;
  }
  return { frames, missing };
}

/** Which frames there are, in which session, and what is in each. */
async function framePlaces(tab: Tab, mainSession: string): Promise<Map<string, Place>> {
  const sessions = [mainSession, ...tab.remoteFrames.values()];
  const trees = await Promise.all(
    sessions.map((sessionId) => {
      const asked = tab.cdp.send<{ frameTree: FrameNode }>('Page.getFrameTree', {}, sessionId);
      return sessionId === mainSession ? asked : ifWithin(FRAME_LIMIT_MS, asked);
    }),
  );
  const places = new Map<string, { sessionId: string; children: string[] }>();
  trees.forEach((tree, index) => {
    if (tree) addPlaces(places, tree.frameTree, sessions[index] ?? '');
  });
  for (const [parentId, children] of await remoteChildren(tab)) places.get(parentId)?.children.push(...children);
  return places;
}

function addPlaces(
  places: Map<string, { sessionId: string; children: string[] }>,
  node: FrameNode,
  sessionId: string,
): void {
  const children = node.childFrames ?? [];
  places.set(node.frame.id, { sessionId, children: children.map(({ frame }) => frame.id) });
  for (const child of children) addPlaces(places, child, sessionId);
}

/** Frames in other processes by the frame that they are in. */
async function remoteChildren(tab: Tab): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  await Promise.all(
    Array.from(tab.remoteFrames.keys(), async (targetId) => {
      const reply = await ifWithin(
        FRAME_LIMIT_MS,
        tab.cdp.send<{ targetInfo: { parentFrameId?: string } }>(
          'Target.getTargetInfo',
          { targetId },
          tab.cdp.browserSession,
        ),
      );
      const parentId = reply?.targetInfo.parentFrameId;
      if (parentId !== undefined) found.set(parentId, [...(found.get(parentId) ?? []), targetId]);
    }),
  );
  return found;
}

/** undefined: it is gone, or does not answer. */
function markFrame(
  cdp: CdpConnection,
  parent: MarkedFrame,
  frameId: string,
  places: ReadonlyMap<string, Place>,
): Promise<MarkedFrame | undefined> {
  const place = places.get(frameId);
  if (!place) return Promise.resolve(undefined);
  return ifWithin(FRAME_LIMIT_MS, markFrameNow(cdp, parent, frameId, place.sessionId));
}

async function markFrameNow(
  cdp: CdpConnection,
  parent: MarkedFrame,
  frameId: string,
  sessionId: string,
): Promise<MarkedFrame | undefined> {
  const { owner, box } = await placeInParent(cdp, parent, frameId);
  if (box.bid === null) return undefined;
  const world: World = { sessionId, contextId: await worldOf(cdp, sessionId, frameId) };
  const x = parent.x + box.x;
  const y = parent.y + box.y;
  const visible = intersection(parent.visible, { x, y, width: box.width, height: box.height });
  const reply = await mark(cdp, world, box.bid, { ...visible, x: visible.x - x, y: visible.y - y });
  return { frameId, world, prefix: box.bid, parent, ownerNodeId: owner, x, y, visible, reply };
}

async function placeInParent(
  cdp: CdpConnection,
  parent: MarkedFrame,
  frameId: string,
): Promise<{ owner: number; box: FrameBox }> {
  const { sessionId, contextId } = parent.world;
  const { backendNodeId } = await cdp.send<{ backendNodeId: number }>('DOM.getFrameOwner', { frameId }, sessionId);
  const { object } = await cdp.send<{ object: { objectId: string } }>(
    'DOM.resolveNode',
    { backendNodeId, executionContextId: contextId },
    sessionId,
  );
  const { objectId } = object;
  const { result } = await cdp.send<{ result: { value: FrameBox } }>(
    'Runtime.callFunctionOn',
    { functionDeclaration: frameBox.toString(), objectId, returnByValue: true },
    sessionId,
  );
  void cdp.send('Runtime.releaseObject', { objectId }, sessionId).catch(() => {});
  return { owner: backendNodeId, box: result.value };
}

function mark(cdp: CdpConnection, world: World, prefix: string, clip: Box | undefined): Promise<MarkReply> {
  return evaluateIn(cdp, world, markElements.toString(), { prefix, clip, maxElements: MAX_ELEMENTS });
}

export function intersection(a: Box, b: Box): Box {
  const x = Math.max(a.x, b.x);
  const y = Math.max(a.y, b.y);
  return {
    x,
    y,
    width: Math.max(0, Math.min(a.x + a.width, b.x + b.width) - x),
    height: Math.max(0, Math.min(a.y + a.height, b.y + b.height) - y),
  };
}
