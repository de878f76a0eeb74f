import type { ElementProperties } from '../../src/protocol/observations.ts';
import { intersection, type MarkedFrame } from './frames.ts';

/** Strings are numbers in a table. */
interface RareBoolean {
  readonly index: readonly number[];
}

interface DocumentSnapshot {
  readonly frameId: number;
  readonly scrollOffsetX?: number;
  readonly scrollOffsetY?: number;
  readonly nodes: {
    readonly backendNodeId: readonly number[];
    readonly attributes: readonly (readonly number[])[];
    readonly isClickable?: RareBoolean;
  };
  readonly layout: {
    readonly nodeIndex: readonly number[];
    readonly bounds: readonly (readonly number[])[];
    readonly styles: readonly (readonly number[])[];
  };
}

/** Reply of `DOMSnapshot.captureSnapshot`. */
export interface DomSnapshot {
  readonly documents: readonly DocumentSnapshot[];
  readonly strings: readonly string[];
}

/** What to ask for. */
export const SNAPSHOT_REQUEST = {
  computedStyles: ['visibility'],
  includePaintOrder: false,
  includeDOMRects: false,
} as const;

/** Everything about elements that the tree does not say. */
export interface PageElements {
  /** By frame, then by the browser's number of the node. */
  readonly bids: ReadonlyMap<string, ReadonlyMap<number, string>>;
  readonly properties: Record<string, ElementProperties>;
}

/** @param snapshots one for each process that has frames of the page */
export function readElements(snapshots: readonly DomSnapshot[], frames: readonly MarkedFrame[]): PageElements {
  const byId = new Map(frames.map((frame) => [frame.frameId, frame]));
  const bids = new Map<string, Map<number, string>>();
  const properties: Record<string, ElementProperties> = {};
  for (const { documents, strings } of snapshots) {
    const bidName = strings.indexOf('bid');
    const hidden = new Set(['hidden', 'collapse'].map((name) => strings.indexOf(name)));
    for (const document of documents) {
      const frame = byId.get(strings[document.frameId] ?? '');
      if (frame) bids.set(frame.frameId, readDocument(document, strings, { bidName, hidden }, frame, properties));
    }
  }
  return { bids, properties };
}

function readDocument(
  { nodes, layout, scrollOffsetX = 0, scrollOffsetY = 0 }: DocumentSnapshot,
  strings: readonly string[],
  { bidName, hidden }: { readonly bidName: number; readonly hidden: ReadonlySet<number> },
  frame: MarkedFrame,
  properties: Record<string, ElementProperties>,
): Map<number, string> {
  const found = new Map<number, string>();
  const bidOf: (string | undefined)[] = [];
  nodes.attributes.forEach((attributes, index) => {
    for (let at = 0; at < attributes.length; at += 2) {
      if (attributes[at] !== bidName) continue;
      const bid = strings[attributes[at + 1] ?? -1] ?? '';
      bidOf[index] = bid;
      found.set(nodes.backendNodeId[index] ?? -1, bid);
      break;
    }
  });
  const clickable = new Set(nodes.isClickable?.index);
  const marks = new Set(frame.reply.marks);
  for (const [index, bid] of bidOf.entries()) {
    if (bid !== undefined)
      properties[bid] = { visibility: 0, bbox: null, clickable: clickable.has(index), set_of_marks: marks.has(bid) };
  }
  layout.nodeIndex.forEach((nodeIndex, row) => {
    const element = properties[bidOf[nodeIndex] ?? ''];
    const [left = 0, top = 0, width = 0, height = 0] = layout.bounds[row] ?? [];
    if (!element || element.bbox !== null) return;
    const box = { x: left - scrollOffsetX + frame.x, y: top - scrollOffsetY + frame.y, width, height };
    const { width: seenWidth, height: seenHeight } = intersection(box, frame.visible);
    element.bbox = [box.x, box.y, width, height];
    const isHidden = hidden.has(layout.styles[row]?.[0] ?? -2);
    element.visibility =
      isHidden || width * height === 0 ? 0 : Math.min(1, (seenWidth * seenHeight) / (width * height));
  });
  return found;
}
