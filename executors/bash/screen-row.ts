import { charWidth, isSimpleText, tabStop } from './screen-width.ts';

/** A cell never written; the parser lets no NUL through, so it cannot be mistaken for text. */
const UNWRITTEN = '\0';
/** A column covered by the wide character or tab to its left. */
const COVERED = '';

const TAB = 0x09;
/** Sets the state of a continued row apart; never part of a row's text. */
const JOIN = '\n';

/** UTF-16 units of combining marks and joiners a row may hold per column; more are dropped. */
const MAX_UNITS_PER_COLUMN = 64;

/** A string built by more appends than this is flattened: V8's rope costs 32 bytes a piece. */
const MAX_ROPE_PIECES = 16;

/**
 * One physical row.
 *
 * A row is a string as long as it can be: rows appended to, and rows in which an index is a
 * column ("simple"), are edited by slicing. Only a row with wide characters, tabs or combining
 * marks that is edited in place is opened into an array with a string per cell; `close` puts it
 * back. Cells are a pure function of the text, so nothing is lost in either direction.
 */
export class Row {
  /** The row goes on the line of the row above: it began with an automatic wrap. */
  isContinuation = false;
  #text = '';
  #width = 0;
  #isSimple = true;
  #cells: string[] | null = null;
  #pieces = 0;
  readonly #columns: number;

  constructor(columns: number) {
    this.#columns = columns;
  }

  get isOpen(): boolean {
    return this.#cells !== null;
  }

  get isBlank(): boolean {
    return this.#columnsInUse() === 0;
  }

  /** UTF-16 units the row keeps in memory. */
  get units(): number {
    return this.#cells?.length ?? this.#text.length;
  }

  /** What is seen: cells never written read as blanks, those at the end not at all. */
  render(): string {
    const text = this.#cells ? joined(this.#cells) : this.#text;
    // Several times as fast as replaceAll, which counts on a screen full of gaps.
    return text.includes(UNWRITTEN) ? text.split(UNWRITTEN).join(' ') : text;
  }

  /** Equal for two rows that are reported alike. */
  get state(): string {
    return this.isContinuation ? `${JOIN}${this.render()}` : this.render();
  }

  /** True when writing `text` at `column` would change nothing; false when in doubt. */
  shows(column: number, text: string): boolean {
    return this.#isSimple && this.#cells === null && this.#text.startsWith(text, column);
  }

  put(column: number, text: string, width: number, isSimple: boolean): void {
    if (this.#cells === null) {
      if (column >= this.#width) return this.#append(column, text, width, isSimple);
      if (isSimple && this.#isSimple) return this.#replace(column, column + width, text);
    }
    const cells = this.#open();
    pad(cells, column);
    breakGroup(cells, column);
    breakGroup(cells, column + width);
    writeCells(cells, column, text);
  }

  /** A tab only moves over what is already there; over untouched columns it is kept as a tab. */
  putTab(column: number, stop: number): void {
    if (this.#cells === null && column >= this.#width) {
      return this.#append(column, '\t', stop - column, false);
    }
    const cells = this.#open();
    pad(cells, column);
    if (cells.slice(column, stop).some((cell) => cell !== UNWRITTEN)) return;
    cells[column] = '\t';
    for (let covered = column + 1; covered < stop; covered += 1) cells[covered] = COVERED;
  }

  /** Adds a zero-width character to the cell left of `column`, which is at least 1. */
  attach(column: number, mark: string): void {
    if (this.units >= MAX_UNITS_PER_COLUMN * column) return;
    if (this.#cells === null && column === this.#width) {
      return this.#append(column, mark, 0, false);
    }
    const cells = this.#open();
    pad(cells, column);
    const owner = groupStart(cells, column - 1);
    const base = cells[owner] === UNWRITTEN ? ' ' : (cells[owner] ?? ' ');
    if (base.length < MAX_UNITS_PER_COLUMN) cells[owner] = base + mark;
  }

  /** Makes the columns [from, to) unwritten. */
  erase(from: number, to: number): void {
    if (from >= this.#columnsInUse() || from >= to) return;
    if (this.#isSimple && this.#cells === null) {
      const end = Math.min(to, this.#width);
      return this.#replace(from, end, UNWRITTEN.repeat(end - from));
    }
    const cells = this.#open();
    breakGroup(cells, from);
    breakGroup(cells, to);
    cells.fill(UNWRITTEN, from, to);
    trimUnwritten(cells);
  }

  insertBlanks(column: number, count: number): void {
    if (column >= this.#columnsInUse()) return;
    const room = this.#columns - column;
    const blanks = Math.min(count, room);
    if (this.#isSimple && this.#cells === null) {
      const shifted = UNWRITTEN.repeat(blanks) + this.#text.slice(column);
      return this.#replace(column, this.#width, shifted.slice(0, room));
    }
    const cells = this.#open();
    expandTabs(cells, column);
    breakGroup(cells, column);
    cells.splice(column, 0, ...unwritten(blanks));
    breakGroup(cells, this.#columns);
    cells.length = Math.min(cells.length, this.#columns);
    trimUnwritten(cells);
  }

  deleteCells(column: number, count: number): void {
    if (column >= this.#columnsInUse()) return;
    if (this.#isSimple && this.#cells === null) return this.#replace(column, column + count, '');
    const cells = this.#open();
    expandTabs(cells, column);
    breakGroup(cells, column);
    breakGroup(cells, column + count);
    cells.splice(column, count);
    trimUnwritten(cells);
  }

  /** Back from cells to a string. */
  close(): void {
    if (this.#cells === null) return;
    this.#text = joined(this.#cells);
    this.#width = this.#cells.length;
    this.#isSimple = isSimpleText(this.#text);
    this.#cells = null;
    this.#pieces = 0;
  }

  #columnsInUse(): number {
    return this.#cells?.length ?? this.#width;
  }

  #open(): string[] {
    this.#cells ??= cellsOf(this.#text, this.#columns);
    return this.#cells;
  }

  #append(column: number, text: string, width: number, isSimple: boolean): void {
    if (column > this.#width) this.#text += UNWRITTEN.repeat(column - this.#width);
    this.#text += text;
    this.#width = column + width;
    this.#isSimple &&= isSimple;
    this.#pieces += 1;
    if (this.#pieces >= MAX_ROPE_PIECES) this.#flatten();
  }

  #replace(from: number, to: number, text: string): void {
    const old = this.#text;
    let next = old.slice(0, from) + text + old.slice(to);
    if (next.endsWith(UNWRITTEN)) next = compact(withoutTrailing(next));
    this.#text = next;
    this.#width = next.length;
  }

  #flatten(): void {
    this.#text = compact(this.#text);
    this.#pieces = 0;
  }
}

/** The same text in memory of its own: neither a rope nor a view that keeps a longer string alive. */
export function compact(text: string): string {
  return ` ${text}`.slice(1);
}

function withoutTrailing(text: string): string {
  let end = text.length;
  while (end > 0 && text.charCodeAt(end - 1) === 0) end -= 1;
  return text.slice(0, end);
}

function cellsOf(text: string, columns: number): string[] {
  const cells: string[] = [];
  let owner = -1;
  for (const char of text) {
    const width = char === '\t' ? tabStop(cells.length, columns) - cells.length : widthOf(char);
    if (width === 0 && owner >= 0) {
      cells[owner] += char;
      continue;
    }
    owner = cells.length;
    cells.push(char);
    for (let covered = 1; covered < width; covered += 1) cells.push(COVERED);
  }
  return cells;
}

function writeCells(cells: string[], column: number, text: string): void {
  let next = column;
  let owner = -1;
  for (const char of text) {
    const width = widthOf(char);
    if (width === 0 && owner >= 0) {
      cells[owner] += char;
      continue;
    }
    owner = next;
    cells[next] = char;
    if (width === 2) cells[next + 1] = COVERED;
    next += width || 1;
  }
}

function widthOf(char: string): number {
  return charWidth(char.codePointAt(0) ?? 0);
}

function joined(cells: readonly string[]): string {
  return withoutTrailing(cells.join(''));
}

function unwritten(count: number): string[] {
  return Array.from({ length: count }, () => UNWRITTEN);
}

function pad(cells: string[], column: number): void {
  while (cells.length < column) cells.push(UNWRITTEN);
}

function trimUnwritten(cells: string[]): void {
  while (cells.at(-1) === UNWRITTEN) cells.pop();
}

function groupStart(cells: readonly string[], column: number): number {
  let start = column;
  while (start > 0 && cells[start] === COVERED) start -= 1;
  return start;
}

/** An edit that begins inside a wide character or tab leaves blanks of it, as terminals do. */
function breakGroup(cells: string[], column: number): void {
  if (cells[column] !== COVERED) return;
  blankGroup(cells, groupStart(cells, column));
}

function blankGroup(cells: string[], start: number): void {
  cells[start] = ' ';
  for (let next = start + 1; cells[next] === COVERED; next += 1) cells[next] = ' ';
}

/** Shifted cells no longer lie at the stops their tabs reached for. */
function expandTabs(cells: string[], column: number): void {
  for (let next = groupStart(cells, column); next < cells.length; next += 1) {
    if (cells[next]?.charCodeAt(0) === TAB) blankGroup(cells, next);
  }
}
