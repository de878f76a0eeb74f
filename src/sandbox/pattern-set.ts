/** Slots of the edge table for each edge, at least. */
const TABLE_FACTOR = 2;
const ROOT = 0;
const NO_NODE = -1;

/** By node; needed only while the set is made. */
interface Tree {
  readonly parents: Int32Array;
  readonly units: Uint16Array;
  readonly depths: Int32Array;
}

/**
 * Finds many strings in one pass over a text that may come in pieces (Aho and Corasick, 1975). A state is a number: the longest beginning
 * of any of the strings that the text so far ends with. Strings are compared by their UTF-16 units.
 */
export class PatternSet {
  /** Before the first character. */
  static readonly START = ROOT;

  /** How much of the text that a state stands for may go on to be a string. */
  readonly #pending: Int32Array;
  /** The longest string that ends in a state; 0 for none. */
  readonly #matches: Int32Array;
  /** The next shorter text that a text of this state ends with. */
  readonly #fallbacks: Int32Array;
  readonly #isFirst = new Uint8Array(0x1_00_00);
  /** Edges in an open-addressed table: from, character, to. */
  readonly #from: Int32Array;
  readonly #unit: Uint16Array;
  readonly #to: Int32Array;
  readonly #tableMask: number;
  #nodes = 1;

  /** @param patterns none of them empty */
  constructor(patterns: readonly string[]) {
    const most = patterns.reduce((sum, { length }) => sum + length, 1);
    this.#pending = new Int32Array(most);
    this.#matches = new Int32Array(most);
    this.#fallbacks = new Int32Array(most);
    const slots = 2 ** Math.ceil(Math.log2(most * TABLE_FACTOR));
    this.#tableMask = slots - 1;
    this.#from = new Int32Array(slots).fill(NO_NODE);
    this.#unit = new Uint16Array(slots);
    this.#to = new Int32Array(slots);
    const parents = new Int32Array(most);
    const units = new Uint16Array(most);
    const depths = new Int32Array(most);
    for (const pattern of patterns) this.#insert(pattern, { parents, units, depths });
    this.#link({ parents, units, depths });
  }

  get isEmpty(): boolean {
    return this.#nodes === 1;
  }

  /** How much of the end of the text may be the beginning of a string that goes on. */
  pending(state: number): number {
    return this.#pending[state] as number;
  }

  /**
   * Goes on from a state with the text from an offset on.
   * @param onMatch called with both ends of the longest string that ends at a place, in the order of the ends; the start may lie before
   *   the offset, and before the text if the state was reached in another one
   * @returns the state at the end
   */
  scan(text: string, offset: number, state: number, onMatch: (start: number, end: number) => void): number {
    const { length } = text;
    let at = offset;
    let now = state;
    while (at < length) {
      if (now === ROOT) {
        while (at < length && this.#isFirst[text.charCodeAt(at)] === 0) at += 1;
        if (at === length) break;
      }
      now = this.#step(now, text.charCodeAt(at));
      at += 1;
      const found = this.#matches[now] as number;
      if (found > 0) onMatch(at - found, at);
    }
    return now;
  }

  #step(state: number, unit: number): number {
    for (let from = state; ; from = this.#fallbacks[from] as number) {
      const to = this.#child(from, unit);
      if (to !== NO_NODE) return to;
      if (from === ROOT) return ROOT;
    }
  }

  #child(from: number, unit: number): number {
    const slot = this.#slot(from, unit);
    return this.#from[slot] === NO_NODE ? NO_NODE : (this.#to[slot] as number);
  }

  /** Where the edge is, or would be. */
  #slot(from: number, unit: number): number {
    let slot = (Math.imul(from, 0x9e_37_79_b1) ^ Math.imul(unit, 0x85_eb_ca_6b)) >>> 0;
    slot = (slot ^ (slot >>> 15)) & this.#tableMask;
    while (this.#from[slot] !== NO_NODE && (this.#from[slot] !== from || this.#unit[slot] !== unit))
      slot = (slot + 1) & this.#tableMask;
    return slot;
  }

  #insert(pattern: string, { parents, units, depths }: Tree): void {
    let node = ROOT;
    for (let at = 0; at < pattern.length; at += 1) {
      const unit = pattern.charCodeAt(at);
      const slot = this.#slot(node, unit);
      if (this.#from[slot] === NO_NODE) {
        const made = this.#nodes++;
        this.#from[slot] = node;
        this.#unit[slot] = unit;
        this.#to[slot] = made;
        depths[made] = at + 1;
        parents[made] = node;
        units[made] = unit;
      }
      node = this.#to[slot] as number;
    }
    this.#matches[node] = pattern.length;
    this.#isFirst[pattern.charCodeAt(0)] = 1;
  }

  /** Fallbacks, the shorter texts first. */
  #link({ parents, units, depths }: Tree): void {
    const hasChildren = new Uint8Array(this.#nodes);
    for (const parent of parents.subarray(1, this.#nodes)) hasChildren[parent] = 1;
    for (const node of byDepth(depths.subarray(1, this.#nodes))) {
      const parent = parents[node] as number;
      const isDeep = parent !== ROOT;
      const fallback = isDeep ? this.#step(this.#fallbacks[parent] as number, units[node] as number) : ROOT;
      this.#fallbacks[node] = fallback;
      if (this.#matches[node] === 0) this.#matches[node] = this.#matches[fallback] as number;
      this.#pending[node] = (hasChildren[node] === 1 ? depths[node] : this.#pending[fallback]) as number;
    }
  }
}

/** The nodes from 1 on, the shallow ones first. */
function byDepth(depths: Int32Array): Int32Array {
  const starts = new Int32Array(depths.reduce((most, depth) => Math.max(most, depth), 0) + 2);
  for (const depth of depths) (starts[depth + 1] as number) += 1;
  for (let depth = 1; depth < starts.length; depth += 1) (starts[depth] as number) += starts[depth - 1] as number;
  const order = new Int32Array(depths.length);
  for (let index = 0; index < depths.length; index += 1) {
    const depth = depths[index] as number;
    order[starts[depth] as number] = index + 1;
    (starts[depth] as number) += 1;
  }
  return order;
}
