import { countEnds } from './lines.ts';

/** A stretch of lines of which one side is to become the other. */
interface Change {
  readonly oldStart: number;
  readonly oldEnd: number;
  readonly newStart: number;
  readonly newEnd: number;
}

interface Block {
  readonly old: number;
  readonly new: number;
  readonly size: number;
}

/** From so many lines on difflib leaves frequent lines out of its index. */
const AUTOJUNK_LINES = 200;

/** Above so many lines, both sides together, what is equal at the start and at the end is set aside first. */
const MAX_EXACT_LINES = 4000;

/** From so many characters on, what is equal at the start and at the end is set aside before lines are looked at. */
const LARGE_TEXT = 1024 * 1024;

/** In characters, both sides together. */
const MAX_CHANGED_TEXT = 4 * 1024 * 1024;

/** Above so many lines that differ, they are one change. */
const MAX_COMPARED_LINES = 40_000;

/** Steps of one diff: where every other line differs, difflib takes the square of their number. What is left then is one change. */
const MAX_LOOKUPS = 2_000_000;

/**
 * The difference of two texts as V0 shows it (V0 §7.6): Python's `difflib.unified_diff` without context lines, trailing blanks of each
 * line removed. `''` when nothing changed, or more than anybody reads. Large files, and very many changes, may be drawn differently than by
 * Python, yet always correctly.
 */
export function unifiedDiff(path: string, oldText: string, newText: string): string {
  if (oldText === newText) return '';
  const { head, oldMiddle, newMiddle } = setAside(oldText, newText);
  if (oldMiddle.length + newMiddle.length > MAX_CHANGED_TEXT) return '';
  const [oldLines, newLines] = [oldMiddle.split('\n'), newMiddle.split('\n')];
  const lines = [`--- ${path}`, `+++ ${path}`];
  for (const change of findChanges(oldLines, newLines)) {
    const [oldStart, newStart] = [change.oldStart + head, change.newStart + head];
    lines.push(`@@ -${range(oldStart, change.oldEnd + head)} +${range(newStart, change.newEnd + head)} @@`);
    for (const line of oldLines.slice(change.oldStart, change.oldEnd)) lines.push(`-${line}`);
    for (const line of newLines.slice(change.newStart, change.newEnd)) lines.push(`+${line}`);
  }
  return lines.map((line) => line.trimEnd()).join('\n');
}

/** What differs in two large texts, from line to line; so millions of equal lines are never split. */
function setAside(oldText: string, newText: string): { head: number; oldMiddle: string; newMiddle: string } {
  const shorter = Math.min(oldText.length, newText.length);
  if (shorter < LARGE_TEXT) return { head: 0, oldMiddle: oldText, newMiddle: newText };
  let start = 0;
  while (start < shorter && oldText.charCodeAt(start) === newText.charCodeAt(start)) start += 1;
  start = start === 0 ? 0 : oldText.lastIndexOf('\n', start - 1) + 1;
  let end = 0;
  const most = shorter - start;
  while (end < most && oldText.charCodeAt(oldText.length - 1 - end) === newText.charCodeAt(newText.length - 1 - end))
    end += 1;
  const oldEnd = oldText.indexOf('\n', oldText.length - end);
  end = oldEnd < 0 ? 0 : oldText.length - oldEnd;
  return {
    head: countEnds(oldText, 0, start),
    oldMiddle: oldText.slice(start, oldText.length - end),
    newMiddle: newText.slice(start, newText.length - end),
  };
}

/** As a unified diff numbers lines: an empty range is named by the line before it. */
function range(start: number, end: number): string {
  const length = end - start;
  if (length === 1) return `${start + 1}`;
  return `${length === 0 ? start : start + 1},${length}`;
}

function findChanges(oldLines: readonly string[], newLines: readonly string[]): Change[] {
  const isLarge = oldLines.length + newLines.length > MAX_EXACT_LINES;
  const head = isLarge ? commonStart(oldLines, newLines) : 0;
  const tail = isLarge ? commonEnd(oldLines, newLines, head) : 0;
  const oldMiddle = oldLines.slice(head, oldLines.length - tail);
  const newMiddle = newLines.slice(head, newLines.length - tail);
  const isComparable = oldMiddle.length + newMiddle.length <= MAX_COMPARED_LINES;
  const blocks = isComparable ? matchingBlocks(oldMiddle, newMiddle) : [];
  return changesBetween(blocks, oldMiddle.length, newMiddle.length).map((change) => ({
    oldStart: change.oldStart + head,
    oldEnd: change.oldEnd + head,
    newStart: change.newStart + head,
    newEnd: change.newEnd + head,
  }));
}

function commonStart(a: readonly string[], b: readonly string[]): number {
  const limit = Math.min(a.length, b.length);
  let count = 0;
  while (count < limit && a[count] === b[count]) count += 1;
  return count;
}

function commonEnd(a: readonly string[], b: readonly string[], head: number): number {
  const limit = Math.min(a.length, b.length) - head;
  let count = 0;
  while (count < limit && a[a.length - 1 - count] === b[b.length - 1 - count]) count += 1;
  return count;
}

function changesBetween(blocks: readonly Block[], oldLength: number, newLength: number): Change[] {
  const changes: Change[] = [];
  let [oldStart, newStart] = [0, 0];
  for (const block of [...blocks, { old: oldLength, new: newLength, size: 0 }]) {
    if (oldStart < block.old || newStart < block.new)
      changes.push({ oldStart, oldEnd: block.old, newStart, newEnd: block.new });
    oldStart = block.old + block.size;
    newStart = block.new + block.size;
  }
  return changes;
}

/** `difflib.SequenceMatcher.get_matching_blocks`: the longest equal stretch, then the same on both sides of it. */
function matchingBlocks(a: readonly string[], b: readonly string[]): Block[] {
  const index = indexLines(b);
  const blocks: Block[] = [];
  const open = [{ oldStart: 0, oldEnd: a.length, newStart: 0, newEnd: b.length }];
  const lookups = { left: MAX_LOOKUPS };
  for (let part = open.pop(); part !== undefined && lookups.left > 0; part = open.pop()) {
    const block = longestMatch(a, b, { index, part, lookups });
    if (block.size === 0) continue;
    blocks.push(block);
    open.push(
      { ...part, oldEnd: block.old, newEnd: block.new },
      { ...part, oldStart: block.old + block.size, newStart: block.new + block.size },
    );
  }
  return blocks.toSorted((first, second) => first.old - second.old);
}

function indexLines(lines: readonly string[]): Map<string, number[]> {
  const index = new Map<string, number[]>();
  lines.forEach((line, at) => {
    const places = index.get(line);
    if (places) places.push(at);
    else index.set(line, [at]);
  });
  if (lines.length < AUTOJUNK_LINES) return index;
  const limit = Math.floor(lines.length / 100) + 1;
  for (const [line, places] of index) if (places.length > limit) index.delete(line);
  return index;
}

interface Search {
  /** Where each line is. */
  readonly index: ReadonlyMap<string, number[]>;
  readonly part: Change;
  readonly lookups: { left: number };
}

/** The longest equal stretch of a part, or the longest that was found before the lookups were used up. */
function longestMatch(a: readonly string[], b: readonly string[], { index, part, lookups }: Search): Block {
  let best = { old: part.oldStart, new: part.newStart, size: 0 };
  let lengths = new Map<number, number>();
  for (let old = part.oldStart; old < part.oldEnd && lookups.left > 0; old += 1) {
    const next = new Map<number, number>();
    lookups.left -= 1;
    for (const place of index.get(a[old] ?? '') ?? []) {
      lookups.left -= 1;
      if (place < part.newStart) continue;
      if (place >= part.newEnd) break;
      const size = (lengths.get(place - 1) ?? 0) + 1;
      next.set(place, size);
      if (size > best.size) best = { old: old - size + 1, new: place - size + 1, size };
    }
    lengths = next;
  }
  return extend(a, b, best, part);
}

/** Frequent lines beside a match belong to it, although they are not in the index. */
function extend(a: readonly string[], b: readonly string[], block: Block, part: Change): Block {
  let { old, new: place, size } = block;
  while (old > part.oldStart && place > part.newStart && a[old - 1] === b[place - 1]) {
    old -= 1;
    place -= 1;
    size += 1;
  }
  while (old + size < part.oldEnd && place + size < part.newEnd && a[old + size] === b[place + size]) size += 1;
  return { old, new: place, size };
}
