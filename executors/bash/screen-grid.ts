import { Row, compact } from './screen-row.ts';
import { RowWatch } from './screen-watch.ts';
import { charWidth, tabStop } from './screen-width.ts';

/** UTF-16 units of text one grid retains (at most 16 MiB); the oldest rows go first. */
export const MAX_GRID_UNITS = 8 * 1024 * 1024;

/** Rows kept as cells at a time; a full row of cells takes about 32 KiB. */
const MAX_OPEN_ROWS = 32;

/** Combining marks taken after one base character; text with more is made to exhaust memory. */
const MAX_MARKS = 16;

/** Dead entries at the front of the row list before it is shifted in one go. */
const MAX_DEAD_ROWS = 8192;

export interface GridOptions {
  readonly columns: number;
  readonly rows: number;
  readonly historyRows: number;
}

interface Mark {
  readonly row: number;
  readonly text: string;
}

/**
 * Rows of history and of the screen below it, with a cursor.
 *
 * Rows have absolute numbers that never change while the text scrolls: `#first` is the oldest one
 * retained, `#top` the first of the screen. Rows nothing was written to do not exist: they are
 * undefined, or lie beyond the end of the list.
 */
export class Grid {
  /** The cursor's column; equal to the number of columns while a wrap is pending. */
  column = 0;
  wraps = true;
  readonly #options: GridOptions;
  readonly #sinceSeen = new RowWatch();
  readonly #sinceTaken = new RowWatch();
  readonly #open = new Set<Row>();
  #list: (Row | undefined)[] = [];
  /** Index in the list of the row numbered `#first`. */
  #head = 0;
  #first = 0;
  #top = 0;
  /** The cursor's row. */
  #row = 0;
  /** Scroll region, first and last row of it, relative to the screen. */
  #regionTop = 0;
  #regionBottom: number;
  #saved = { row: 0, column: 0 };
  #units = 0;
  #marks = 0;
  #dropped = 0;
  /** The oldest row retained belongs to a line whose beginning was dropped. */
  #isFirstLineCut = false;
  #taken: Mark = { row: 0, text: '' };

  constructor(options: GridOptions) {
    this.#options = options;
    this.#regionBottom = options.rows - 1;
  }

  get columns(): number {
    return this.#options.columns;
  }

  get rows(): number {
    return this.#options.rows;
  }

  get droppedLines(): number {
    return this.#dropped + (this.#isFirstLineCut ? 1 : 0);
  }

  // --- writing -------------------------------------------------------------------------------

  /** Bytes 0x20 to 0x7e only. */
  printAscii(bytes: Buffer, start: number, end: number): void {
    this.#marks = 0;
    let from = start;
    while (from < end) {
      from = Math.max(from, this.#wrapIfPending(end - 1, from));
      const to = Math.min(end, from + this.columns - this.column);
      this.#put(bytes.toString('latin1', from, to), to - from, true);
      from = to;
    }
  }

  /** Text without control characters in which every UTF-16 unit is one column. */
  printSimple(text: string): void {
    this.#marks = 0;
    let from = 0;
    while (from < text.length) {
      from = Math.max(from, this.#wrapIfPending(text.length - 1, from));
      const to = Math.min(text.length, from + this.columns - this.column);
      this.#put(partOf(text, from, to), to - from, true);
      from = to;
    }
  }

  /** Any text without control characters. */
  printText(text: string): void {
    let from = 0;
    let width = 0;
    let next = 0;
    const flush = (): void => {
      if (next > from) this.#put(partOf(text, from, next), width, false);
      from = next;
      width = 0;
    };
    while (next < text.length) {
      const codePoint = text.codePointAt(next) ?? 0;
      const units = codePoint > 0xffff ? 2 : 1;
      const added = charWidth(codePoint);
      if (added === 0) {
        const isKept = this.#marks < MAX_MARKS;
        this.#marks += 1;
        if (isKept && width > 0) {
          next += units;
          continue;
        }
        flush();
        if (isKept) this.#attach(text.slice(next, next + units));
        next += units;
        from = next;
        continue;
      }
      this.#marks = 0;
      if (this.column + width + added > this.columns) {
        flush();
        this.#makeRoom(added);
      }
      width += added;
      next += units;
    }
    flush();
  }

  tab(): void {
    if (this.column >= this.columns - 1) return;
    const stop = tabStop(this.column, this.columns);
    this.#edit(this.#row, (row) => row.putTab(this.column, stop));
    this.column = stop;
  }

  /** With auto-wrap off, what does not fit overwrites the last column: skip to `last`. */
  #wrapIfPending(last: number, from: number): number {
    if (this.column < this.columns) return from;
    if (this.wraps) {
      this.#wrap();
      return from;
    }
    this.column = this.columns - 1;
    return last;
  }

  #makeRoom(width: number): void {
    if (this.column + width <= this.columns) return;
    if (this.wraps) this.#wrap();
    else this.column = Math.max(0, this.columns - width);
  }

  #wrap(): void {
    this.column = 0;
    this.#scrollOrMoveDown();
    this.#setContinuation(this.#row, this.#rowAt(this.#row), true);
  }

  #put(text: string, width: number, isSimple: boolean): void {
    const row = this.#rowAt(this.#row);
    if (!(isSimple && row.shows(this.column, text))) {
      this.#touch(this.#row, row);
      const before = row.units;
      row.put(this.column, text, width, isSimple);
      this.#account(row, before);
    }
    this.column += width;
  }

  #attach(mark: string): void {
    if (this.column === 0) {
      // Nothing to attach to, but a file may begin with a byte order mark: it gets a cell.
      if (this.#rowAt(this.#row).isBlank) this.#put(mark, 1, false);
      return;
    }
    this.#edit(this.#row, (row) => row.attach(this.column, mark));
  }

  // --- cursor --------------------------------------------------------------------------------

  carriageReturn(): void {
    this.column = 0;
  }

  backspace(): void {
    this.moveTo(this.#row, this.#visibleColumn() - 1);
  }

  lineFeed(): void {
    this.column = this.#visibleColumn();
    this.#scrollOrMoveDown();
    this.#beginLine(this.#row);
  }

  reverseLineFeed(): void {
    if (this.#row === this.#top + this.#regionTop) this.scrollDown(1);
    else this.moveUp(1);
  }

  moveUp(count: number): void {
    const region = this.#top + this.#regionTop;
    const limit = this.#row >= region ? region : this.#top;
    this.moveTo(Math.max(limit, this.#row - count), this.#visibleColumn());
  }

  moveDown(count: number): void {
    const region = this.#top + this.#regionBottom;
    const limit = this.#row <= region ? region : this.#lastRow();
    this.moveTo(Math.min(limit, this.#row + count), this.#visibleColumn());
  }

  moveRight(count: number): void {
    this.moveTo(this.#row, this.#visibleColumn() + count);
  }

  moveLeft(count: number): void {
    this.moveTo(this.#row, this.#visibleColumn() - count);
  }

  /** Rows and columns of the screen, from 0. */
  moveToRow(row: number): void {
    this.moveTo(this.#top + row, this.#visibleColumn());
  }

  moveToColumn(column: number): void {
    this.moveTo(this.#row, column);
  }

  moveToCell(row: number, column: number): void {
    this.moveTo(this.#top + row, column);
  }

  saveCursor(): void {
    this.#saved = { row: this.#row - this.#top, column: this.column };
  }

  restoreCursor(): void {
    this.moveToRow(this.#saved.row);
    this.column = this.#saved.column;
  }

  /** Rows of the screen, from 0; an impossible region means the whole screen. */
  setRegion(top: number, bottom: number): void {
    const isValid = top < bottom && bottom < this.rows;
    this.#regionTop = isValid ? top : 0;
    this.#regionBottom = isValid ? bottom : this.rows - 1;
    this.moveToCell(0, 0);
  }

  moveTo(row: number, column: number): void {
    this.#row = clamp(row, this.#top, this.#lastRow());
    this.column = clamp(column, 0, this.columns - 1);
  }

  // --- erasing and shifting ------------------------------------------------------------------

  eraseLineRight(): void {
    this.#eraseCells(this.#row, this.column, this.columns);
    this.#beginLine(this.#row + 1);
  }

  eraseLineLeft(): void {
    this.#eraseCells(this.#row, 0, this.column + 1);
  }

  eraseLine(): void {
    this.#eraseCells(this.#row, 0, this.columns);
    this.#beginLine(this.#row + 1);
  }

  eraseChars(count: number): void {
    const column = this.#visibleColumn();
    this.#eraseCells(this.#row, column, Math.min(this.columns, column + count));
  }

  eraseBelow(): void {
    this.#eraseCells(this.#row, this.column, this.columns);
    this.#removeRowsFrom(this.#row + 1);
  }

  eraseAbove(): void {
    for (let row = this.#top; row < this.#row; row += 1) this.#removeRow(row);
    this.eraseLineLeft();
  }

  eraseScreen(): void {
    this.#removeRowsFrom(this.#top);
  }

  eraseHistory(): void {
    while (this.#first < this.#top) this.#removeFirst();
    this.#beginLine(this.#first);
    this.#isFirstLineCut = false;
    this.#sinceSeen.markFrom(0);
  }

  insertChars(count: number): void {
    const column = this.#visibleColumn();
    this.#editExisting(this.#row, (row) => row.insertBlanks(column, count));
  }

  deleteChars(count: number): void {
    const column = this.#visibleColumn();
    this.#editExisting(this.#row, (row) => row.deleteCells(column, count));
  }

  insertLines(count: number): void {
    if (this.#isCursorInRegion()) this.#shiftDown(this.#row, count);
  }

  deleteLines(count: number): void {
    if (this.#isCursorInRegion()) this.#shiftUp(this.#row, count);
  }

  scrollUp(count: number): void {
    this.#shiftUp(this.#top + this.#regionTop, count);
  }

  scrollDown(count: number): void {
    this.#shiftDown(this.#top + this.#regionTop, count);
  }

  reset(): void {
    this.eraseScreen();
    this.eraseHistory();
    this.setRegion(0, this.rows - 1);
    this.#saved = { row: 0, column: 0 };
    this.wraps = true;
  }

  #isCursorInRegion(): boolean {
    const row = this.#row - this.#top;
    return row >= this.#regionTop && row <= this.#regionBottom;
  }

  #scrollOrMoveDown(): void {
    if (this.#row === this.#top + this.#regionBottom) this.#scrollOne();
    else if (this.#row < this.#lastRow()) this.#row += 1;
  }

  /** A line that leaves the screen at its top goes to the history; out of a lower region, nowhere. */
  #scrollOne(): void {
    if (this.#regionTop > 0) return this.#shiftUp(this.#top + this.#regionTop, 1);
    const inserted = this.#row + 1;
    if (this.#regionBottom < this.rows - 1) {
      const index = this.#indexOf(inserted);
      if (index < this.#list.length) this.#list.splice(index, 0, undefined);
      this.#sinceTaken.markFrom(inserted);
    }
    this.#top += 1;
    this.#row = inserted;
    this.#sinceSeen.markFrom(0);
    while (this.#first < this.#top - this.#options.historyRows) this.#dropFirst();
  }

  #shiftUp(from: number, count: number): void {
    const last = this.#top + this.#regionBottom;
    const removed = Math.min(count, last - from + 1);
    this.#shift(from, removed, last - removed + 1, removed);
  }

  #shiftDown(from: number, count: number): void {
    const last = this.#top + this.#regionBottom;
    const removed = Math.min(count, last - from + 1);
    this.#shift(last - removed + 1, removed, from, removed);
  }

  /** Removes rows, then inserts as many blank ones (`insertAt` is numbered after the removal). */
  #shift(removeAt: number, removed: number, insertAt: number, inserted: number): void {
    const removeIndex = this.#indexOf(removeAt);
    for (const row of this.#list.splice(removeIndex, removed)) this.#forget(row);
    const insertIndex = this.#indexOf(insertAt);
    if (insertIndex < this.#list.length) {
      const blank = Array.from<undefined>({ length: inserted });
      this.#list.splice(insertIndex, 0, ...blank);
    }
    this.#sinceSeen.markFrom(0);
    this.#sinceTaken.markFrom(Math.min(removeAt, insertAt));
  }

  #eraseCells(number: number, from: number, to: number): void {
    this.#editExisting(number, (row) => {
      row.erase(from, to);
      if (from === 0) row.isContinuation = false;
    });
  }

  /** A row that was wrapped to is a line of its own from now on. */
  #beginLine(number: number): void {
    const row = this.#list[this.#indexOf(number)];
    if (row) this.#setContinuation(number, row, false);
  }

  #setContinuation(number: number, row: Row, isContinuation: boolean): void {
    if (row.isContinuation === isContinuation) return;
    this.#touch(number, row);
    row.isContinuation = isContinuation;
  }

  #removeRowsFrom(number: number): void {
    const last = this.#endOfList();
    for (let row = number; row < last; row += 1) this.#removeRow(row);
    this.#list.length = Math.min(this.#list.length, Math.max(this.#head, this.#indexOf(number)));
  }

  #removeRow(number: number): void {
    const index = this.#indexOf(number);
    const row = this.#list[index];
    if (!row) return;
    this.#touch(number, row);
    this.#forget(row);
    this.#list[index] = undefined;
  }

  // --- dropping ------------------------------------------------------------------------------

  /**
   * True when nothing lies below the cursor and every line feed appends: then whatever is printed
   * next pushes out what is there, row by row.
   */
  get isAppending(): boolean {
    const isWholeScreen = this.#regionTop === 0 && this.#regionBottom === this.rows - 1;
    return isWholeScreen && this.#row >= this.#endOfList() - 1;
  }

  /** Forgets all rows and continues on a fresh one, as after so many further line feeds. */
  dropAll(lineFeeds: number): void {
    let lines = this.#row - this.#first;
    for (const row of this.#list) if (row?.isContinuation) lines -= 1;
    // The first row ends no line above it, whether it continues one or not.
    if (this.#list[this.#head]?.isContinuation) lines += 1;
    this.#dropped += lines + lineFeeds;
    this.#isFirstLineCut = false;
    this.#list = [];
    this.#head = 0;
    this.#open.clear();
    this.#units = 0;
    this.#first = this.#row + lineFeeds;
    this.#top = this.#first;
    this.#row = this.#first;
    this.column = 0;
    this.#sinceSeen.markFrom(0);
  }

  #dropFirst(): void {
    this.#removeFirst();
    this.#isFirstLineCut = this.#list[this.#head]?.isContinuation ?? false;
    if (!this.#isFirstLineCut) this.#dropped += 1;
  }

  #removeFirst(): void {
    if (this.#head < this.#list.length) {
      this.#forget(this.#list[this.#head]);
      this.#list[this.#head] = undefined;
      this.#head += 1;
    }
    this.#first += 1;
    if (this.#head < MAX_DEAD_ROWS) return;
    this.#list.splice(0, this.#head);
    this.#head = 0;
  }

  #enforceUnits(): void {
    while (this.#units > MAX_GRID_UNITS && this.#first < this.#row) {
      this.#dropFirst();
      // Rows of the screen itself go as if it had scrolled.
      this.#top = Math.max(this.#top, this.#first);
      this.#sinceSeen.markFrom(0);
    }
  }

  // --- rows ----------------------------------------------------------------------------------

  #lastRow(): number {
    return this.#top + this.rows - 1;
  }

  #visibleColumn(): number {
    return Math.min(this.column, this.columns - 1);
  }

  #indexOf(number: number): number {
    return number - this.#first + this.#head;
  }

  #endOfList(): number {
    return this.#first + this.#list.length - this.#head;
  }

  #rowAt(number: number): Row {
    const index = this.#indexOf(number);
    while (this.#list.length < index) this.#list.push(undefined);
    const existing = this.#list[index];
    if (existing) return existing;
    const row = new Row(this.columns);
    this.#list[index] = row;
    return row;
  }

  #edit(number: number, change: (row: Row) => void): void {
    const row = this.#rowAt(number);
    this.#touch(number, row);
    const before = row.units;
    change(row);
    this.#account(row, before);
  }

  #editExisting(number: number, change: (row: Row) => void): void {
    if (this.#list[this.#indexOf(number)]) this.#edit(number, change);
  }

  #touch(number: number, row: Row): void {
    if (this.#sinceSeen.needs(number)) this.#sinceSeen.keep(number, row.state);
    if (number < this.#taken.row && this.#sinceTaken.needs(number)) {
      this.#sinceTaken.keep(number, row.state);
    }
  }

  #account(row: Row, unitsBefore: number): void {
    this.#units += row.units - unitsBefore;
    if (row.isOpen && !this.#open.has(row)) this.#keepOpen(row);
    if (this.#units > MAX_GRID_UNITS) this.#enforceUnits();
  }

  #keepOpen(row: Row): void {
    this.#open.add(row);
    if (this.#open.size <= MAX_OPEN_ROWS) return;
    const [oldest] = this.#open;
    if (!oldest) return;
    this.#open.delete(oldest);
    const before = oldest.units;
    oldest.close();
    this.#units += oldest.units - before;
  }

  #forget(row: Row | undefined): void {
    if (!row) return;
    this.#units -= row.units;
    this.#open.delete(row);
  }

  #textOf(number: number): string {
    return this.#list[this.#indexOf(number)]?.render() ?? '';
  }

  readonly #stateOf = (number: number): string => this.#list[this.#indexOf(number)]?.state ?? '';

  // --- reporting -----------------------------------------------------------------------------

  /** Whether anything visible differs from when this was last asked. */
  hasChangedSinceSeen(): boolean {
    const changed = this.#sinceSeen.firstChanged(this.#first, this.#stateOf);
    this.#sinceSeen.clear();
    return changed !== Number.POSITIVE_INFINITY;
  }

  keptLines(): number {
    const last = this.#lastWrittenRow();
    let lines = last < this.#first ? 0 : 1;
    for (let row = this.#first + 1; row <= last; row += 1) {
      if (!this.#list[this.#indexOf(row)]?.isContinuation) lines += 1;
    }
    return lines;
  }

  /** All text, without blank rows at the end. */
  wholeText(): string {
    return this.#join(this.#first, this.#lastWrittenRow(), 0);
  }

  /** Text that is new since `markTaken`: the rest of the last row and what follows it, or from the first changed row on. */
  newText(): string {
    const last = Math.max(this.#row, this.#lastWrittenRow());
    const changed = this.#sinceTaken.firstChanged(this.#first, this.#stateOf);
    const taken = this.#taken;
    const isContinued = taken.row >= this.#first && this.#textOf(taken.row).startsWith(taken.text);
    if (isContinued && changed >= taken.row) return this.#join(taken.row, last, taken.text.length);
    const from = Math.max(this.#first, Math.min(changed, taken.row));
    return this.#join(this.#lineStart(from), last, 0);
  }

  hasChangedSinceTaken(): boolean {
    const taken = this.#taken;
    const last = Math.max(this.#row, this.#lastWrittenRow());
    if (last > taken.row || this.#textOf(taken.row) !== taken.text) return true;
    return this.#sinceTaken.firstChanged(this.#first, this.#stateOf) !== Number.POSITIVE_INFINITY;
  }

  markTaken(): void {
    const row = Math.max(this.#row, this.#lastWrittenRow());
    this.#taken = { row, text: compact(this.#textOf(row)) };
    this.#sinceTaken.clear();
  }

  #lastWrittenRow(): number {
    let row = this.#endOfList() - 1;
    while (row >= this.#first && this.#textOf(row) === '') row -= 1;
    return row;
  }

  #lineStart(number: number): number {
    let row = number;
    while (row > this.#first && this.#list[this.#indexOf(row)]?.isContinuation) row -= 1;
    return row;
  }

  #join(from: number, to: number, skippedUnits: number): string {
    const parts: string[] = [];
    for (let number = from; number <= to; number += 1) {
      const row = this.#list[this.#indexOf(number)];
      const text = row?.render() ?? '';
      if (number === from) {
        parts.push(text.slice(skippedUnits));
        continue;
      }
      if (!row?.isContinuation) parts.push('\n');
      parts.push(text);
    }
    return parts.join('');
  }
}

/** A part of a longer text must not keep all of it in memory. */
function partOf(text: string, from: number, to: number): string {
  return from === 0 && to === text.length ? text : compact(text.slice(from, to));
}

function clamp(value: number, least: number, most: number): number {
  return Math.max(least, Math.min(most, value));
}
