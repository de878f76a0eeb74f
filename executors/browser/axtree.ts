import type { MarkedFrame } from './frames.ts';
import { MAX_CONTENT_CHARS } from './limits.ts';
import { repr, reprText } from './repr.ts';
import type { PageElements } from './snapshot.ts';

interface AxValue {
  readonly type: string;
  readonly value?: unknown;
}

/** A node of the accessibility tree as the browser sends it; extended by V0's `browsergym_id`. */
export interface AxNode {
  nodeId: string;
  readonly role?: AxValue;
  readonly name?: AxValue;
  readonly value?: AxValue;
  readonly properties?: readonly { readonly name: string; readonly value?: AxValue }[];
  childIds?: string[];
  parentId?: string;
  readonly backendDOMNodeId?: number;
  browsergym_id?: string;
}

export interface FrameTree {
  readonly frame: MarkedFrame;
  readonly nodes: AxNode[];
}

/** One tree of all frames, each below the node of its element (V0 §8.3). Changes what it is given. */
export function mergeTrees(trees: readonly FrameTree[], { bids }: PageElements): AxNode[] {
  trees.forEach((tree, index) => {
    prepare(tree, bids.get(tree.frame.frameId), index === 0 ? '' : `${tree.frame.prefix}:`);
  });
  const byFrame = new Map(trees.map((tree) => [tree.frame.frameId, tree]));
  for (const { frame, nodes } of trees) {
    const owner =
      frame.parent &&
      byFrame.get(frame.parent.frameId)?.nodes.find(({ backendDOMNodeId }) => backendDOMNodeId === frame.ownerNodeId);
    const [root] = nodes;
    if (!owner || !root) continue;
    owner.childIds = [...(owner.childIds ?? []), root.nodeId];
    root.parentId = owner.nodeId;
  }
  return trees.flatMap(({ nodes }) => nodes);
}

/** Gives the nodes the ids of their elements, and numbers that no other frame has. */
function prepare({ nodes }: FrameTree, bids: ReadonlyMap<number, string> | undefined, numberPrefix: string): void {
  for (const node of nodes) {
    const bid = node.backendDOMNodeId === undefined ? undefined : bids?.get(node.backendDOMNodeId);
    if (bid !== undefined) node.browsergym_id = bid;
    if (numberPrefix === '') continue;
    node.nodeId = numberPrefix + node.nodeId;
    if (node.parentId !== undefined) node.parentId = numberPrefix + node.parentId;
    if (node.childIds) node.childIds = node.childIds.map((id) => numberPrefix + id);
  }
}

/** Inline boxes are lines of a text that stands above them already. */
const IGNORED_ROLES: ReadonlySet<unknown> = new Set(['LineBreak', 'InlineTextBox']);
const IGNORED_PROPERTIES: ReadonlySet<string> = new Set([
  'editable',
  'readonly',
  'level',
  'settable',
  'multiline',
  'invalid',
  'focusable',
]);
const BARE_PROPERTIES: ReadonlySet<string> = new Set(['required', 'focused', 'atomic']);

interface Step {
  readonly node: AxNode;
  readonly depth: number;
  readonly parentName: string;
}

/** The tree as agents read it (V0 §8.4): one line for each node, a tab for each level. */
export function formatTree(nodes: readonly AxNode[], { properties }: PageElements): string {
  const byId = new Map(nodes.map((node) => [node.nodeId, node]));
  const [root] = nodes;
  const lines: string[] = [];
  const seen = new Set<string>();
  const stack: Step[] = root ? [{ node: root, depth: 0, parentName: '' }] : [];
  let size = 0;
  for (let step = stack.pop(); step; step = stack.pop()) {
    const { node, depth, parentName } = step;
    if (seen.has(node.nodeId)) continue;
    seen.add(node.nodeId);
    const line = formatNode(
      node,
      parentName,
      node.browsergym_id !== undefined && properties[node.browsergym_id]?.clickable === true,
    );
    if (line !== undefined) {
      lines.push('\t'.repeat(depth) + line);
      size += line.length + depth + 1;
      if (size > MAX_CONTENT_CHARS) {
        lines.push(`[The tree is cut here: it is longer than ${MAX_CONTENT_CHARS} characters.]`);
        break;
      }
    }
    const isTold = node.name !== undefined && !IGNORED_ROLES.has(node.role?.value);
    const name = isTold ? textOf(node.name) : '';
    for (const id of node.childIds?.toReversed() ?? []) {
      const child = byId.get(id);
      if (child) stack.push({ node: child, depth: line === undefined ? depth : depth + 1, parentName: name });
    }
  }
  return lines.join('\n');
}

function textOf(held: AxValue | undefined): string {
  return typeof held?.value === 'string' ? held.value : '';
}

/** undefined: the node is not told, its children are. */
function formatNode(
  { role, name, value, properties, browsergym_id: bid }: AxNode,
  parentName: string,
  isClickable: boolean,
): string | undefined {
  const kind = textOf(role);
  if (name === undefined || IGNORED_ROLES.has(kind)) return undefined;
  const text = textOf(name);
  if (kind === 'StaticText' && parentName.includes(text)) return undefined;
  const label = kind === 'generic' && text === '' ? kind : `${kind} ${reprText(text.trim())}`;
  const shownValue = value && 'value' in value ? ` value=${repr(value.value)}` : '';
  const attributes = isClickable ? ['clickable'] : [];
  for (const { name: property, value: held } of properties ?? []) {
    if (!held || !('value' in held) || IGNORED_PROPERTIES.has(property)) continue;
    if (!BARE_PROPERTIES.has(property)) attributes.push(`${property}=${repr(held.value)}`);
    else if (held.value) attributes.push(property);
  }
  const id = bid === undefined ? '' : `[${bid}] `;
  return `${id}${label}${shownValue}${attributes.map((attribute) => `, ${attribute}`).join('')}`;
}
