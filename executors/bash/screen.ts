import { Backlog, ColourScan } from './screen-backlog.ts';
import { Parser } from './screen-parser.ts';
import { Terminal } from './screen-terminal.ts';

export interface ScreenOptions {
  readonly columns: number;
  readonly rows: number;
  /** Physical rows kept above the screen. */
  readonly historyLines: number;
}

export interface ScreenReport {
  /** New text, lines joined with `\n`; no other control characters but `\t`. */
  readonly text: string;
  /** Lines lost since `reset`, because they scrolled out of the history; 0: nothing is lost. */
  readonly droppedLines: number;
  /** Lines retained, new or not. */
  readonly keptLines: number;
}

/** Bytes left unparsed before some of them are dropped or parsed. */
const MAX_BACKLOG_BYTES = 2 * 1024 * 1024;

/** A larger write is taken in slices of this many bytes. */
const SLICE_BYTES = 64 * 1024;

/** Below this many bytes, looking for something to drop costs more than parsing. */
const MIN_DROP_BYTES = 64 * 1024;

/**
 * What a terminal would show of a program's output.
 *
 * Parsing is put off as long as the output is text and colours: of a program that prints without
 * end, all but the last window is dropped unread. Output that moves the cursor is parsed as it
 * comes.
 */
export class Screen {
  readonly #options: ScreenOptions;
  readonly #scan = new ColourScan();
  #backlog = new Backlog();
  /** The backlog has to be parsed from its start on; nothing in it may be dropped. */
  #isDraining = false;
  #terminal: Terminal;
  #parser: Parser;
  #takenSwitches = 0;
  #seenSwitches = 0;
  #version = 0;

  constructor(options: ScreenOptions) {
    this.#options = options;
    this.#terminal = createTerminal(options);
    this.#parser = new Parser(this.#terminal);
  }

  /** Copies what it keeps of the chunk. */
  write(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) {
      this.#writeSlice(chunk.subarray(at, at + SLICE_BYTES));
    }
  }

  /** Forgets everything: a new command begins. */
  reset(): void {
    this.#terminal = createTerminal(this.#options);
    this.#parser = new Parser(this.#terminal);
    this.#backlog.clear();
    this.#scan.reset();
    this.#isDraining = false;
    this.#takenSwitches = 0;
    this.#seenSwitches = 0;
    this.#version += 1;
  }

  /** Text that is new since the last `take` or `reset`. */
  take(): ScreenReport {
    const report = this.peek();
    this.#terminal.grid.markTaken();
    this.#takenSwitches = this.#terminal.switches;
    return report;
  }

  /** What `take` would return, without marking it as taken. */
  peek(): ScreenReport {
    this.#parseBacklog();
    const { grid, normal } = this.#terminal;
    return {
      text: this.#newText(),
      droppedLines: normal.droppedLines,
      keptLines: grid.keptLines(),
    };
  }

  /** Changes when, and only when, what is visible has changed since it was last asked for. */
  signature(): number {
    this.#parseBacklog();
    const { grid, switches } = this.#terminal;
    if (grid.hasChangedSinceSeen() || switches !== this.#seenSwitches) this.#version += 1;
    this.#seenSwitches = switches;
    return this.#version;
  }

  #newText(): string {
    const { grid, isAlternate, switches } = this.#terminal;
    if (!isAlternate) return grid.newText();
    const hasChanged = switches !== this.#takenSwitches || grid.hasChangedSinceTaken();
    // Blanks up to the edge are how such programs clear, not what they show.
    return hasChanged ? grid.wholeText().replaceAll(/ +$/gm, '') : '';
  }

  #writeSlice(slice: Buffer): void {
    if (!this.#isDraining && !this.#scan.accepts(slice)) this.#isDraining = true;
    if (this.#isDraining && this.#backlog.length === 0) {
      this.#parser.parse(slice, 0, slice.length);
      this.#finishDraining();
      return;
    }
    this.#backlog.append(slice);
    if (!this.#isDraining && this.#backlog.length > MAX_BACKLOG_BYTES) this.#shorten();
    // Twice what came in: the backlog shrinks, and no single write takes long.
    if (this.#isDraining) this.#parse(Math.max(2 * slice.length, SLICE_BYTES));
  }

  /** Long lines leave little to drop: then parsing all is cheaper than looking again and again. */
  #shorten(): void {
    this.#dropInvisible();
    if (this.#backlog.length > MAX_BACKLOG_BYTES / 2) this.#isDraining = true;
  }

  #parseBacklog(): void {
    if (!this.#isDraining && this.#backlog.length > MIN_DROP_BYTES) this.#dropInvisible();
    this.#parse(this.#backlog.length);
  }

  #parse(count: number): void {
    const { bytes, start, length } = this.#backlog;
    const parsed = Math.min(count, length);
    this.#parser.parse(bytes, start, start + parsed);
    this.#backlog.skip(parsed);
    if (this.#backlog.length === 0 && this.#isDraining) this.#finishDraining();
  }

  #finishDraining(): void {
    this.#isDraining = false;
    this.#scan.reset();
  }

  /**
   * Drops the part of the backlog that will have left the history once the rest is parsed. It
   * must begin between two sequences, and the cursor must stand where line feeds scroll.
   */
  #dropInvisible(): void {
    const { grid, isAlternate } = this.#terminal;
    if (isAlternate || !grid.isAppending || !this.#parser.isGround) return;
    const window = this.#options.historyLines + this.#options.rows;
    const cut = this.#backlog.startOfLastLines(window);
    if (cut < 0) return;
    grid.dropAll(this.#backlog.countLineFeeds(cut));
    this.#parser.forgetPartialCharacter();
    this.#backlog.skip(cut - this.#backlog.start);
  }
}

function createTerminal({ columns, rows, historyLines }: ScreenOptions): Terminal {
  return new Terminal({ columns, rows, historyRows: historyLines });
}
