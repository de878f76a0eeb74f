/** UTF-16 units of earlier rows one watch keeps to compare with; beyond it, "changed" is assumed. */
const MAX_KEPT_UNITS = 1024 * 1024;

/**
 * Knows which rows differ from what they were at a chosen moment. The earlier state of a row is
 * kept at its first edit, so that a row redrawn with the same text counts as unchanged.
 */
export class RowWatch {
  readonly #before = new Map<number, string>();
  #keptUnits = 0;
  #changedFrom = Number.POSITIVE_INFINITY;

  needs(row: number): boolean {
    return row < this.#changedFrom && !this.#before.has(row);
  }

  keep(row: number, state: string): void {
    this.#before.set(row, state);
    this.#keptUnits += state.length;
    if (this.#keptUnits > MAX_KEPT_UNITS) this.markFrom(Math.min(...this.#before.keys()));
  }

  /** Everything from this row on counts as changed, whatever it shows. */
  markFrom(row: number): void {
    if (row >= this.#changedFrom) return;
    this.#changedFrom = row;
    for (const [kept, state] of this.#before) {
      if (kept < row) continue;
      this.#before.delete(kept);
      this.#keptUnits -= state.length;
    }
  }

  /** The first row that differs; Infinity when none does. */
  firstChanged(firstRow: number, stateOf: (row: number) => string): number {
    let first = this.#changedFrom;
    for (const [row, state] of this.#before) {
      if (row >= firstRow && row < first && stateOf(row) !== state) first = row;
    }
    return first;
  }

  clear(): void {
    this.#before.clear();
    this.#keptUnits = 0;
    this.#changedFrom = Number.POSITIVE_INFINITY;
  }
}
