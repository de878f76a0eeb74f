import { Grid, type GridOptions } from './screen-grid.ts';
import { isSimpleText } from './screen-width.ts';
import type { Csi, ParserEvents } from './screen-parser.ts';

type Action = (terminal: Terminal, csi: Csi) => void;

const CSI_ACTIONS: Readonly<Record<string, Action>> = {
  '@': ({ grid }, csi) => grid.insertChars(csi.count(0)),
  A: ({ grid }, csi) => grid.moveUp(csi.count(0)),
  B: ({ grid }, csi) => grid.moveDown(csi.count(0)),
  C: ({ grid }, csi) => grid.moveRight(csi.count(0)),
  D: ({ grid }, csi) => grid.moveLeft(csi.count(0)),
  E: ({ grid }, csi) => {
    grid.moveDown(csi.count(0));
    grid.carriageReturn();
  },
  F: ({ grid }, csi) => {
    grid.moveUp(csi.count(0));
    grid.carriageReturn();
  },
  G: ({ grid }, csi) => grid.moveToColumn(csi.count(0) - 1),
  '`': ({ grid }, csi) => grid.moveToColumn(csi.count(0) - 1),
  H: ({ grid }, csi) => grid.moveToCell(csi.count(0) - 1, csi.count(1) - 1),
  f: ({ grid }, csi) => grid.moveToCell(csi.count(0) - 1, csi.count(1) - 1),
  d: ({ grid }, csi) => grid.moveToRow(csi.count(0) - 1),
  a: ({ grid }, csi) => grid.moveRight(csi.count(0)),
  e: ({ grid }, csi) => grid.moveDown(csi.count(0)),
  J: (terminal, csi) => eraseInDisplay(terminal, csi),
  K: (terminal, csi) => eraseInLine(terminal, csi),
  X: ({ grid }, csi) => grid.eraseChars(csi.count(0)),
  P: ({ grid }, csi) => grid.deleteChars(csi.count(0)),
  L: ({ grid }, csi) => grid.insertLines(csi.count(0)),
  M: ({ grid }, csi) => grid.deleteLines(csi.count(0)),
  S: ({ grid }, csi) => grid.scrollUp(csi.count(0)),
  T: ({ grid }, csi) => grid.scrollDown(csi.count(0)),
  b: (terminal, csi) => terminal.repeat(csi.count(0)),
  r: ({ grid }, csi) => grid.setRegion(csi.count(0) - 1, (csi.value(1) || grid.rows) - 1),
  s: ({ grid }) => grid.saveCursor(),
  u: ({ grid }) => grid.restoreCursor(),
};

/** Sequences with the marker `?`. */
const PRIVATE_CSI_ACTIONS: Readonly<Record<string, Action>> = {
  J: eraseInDisplay,
  K: eraseInLine,
  h: (terminal, csi) => terminal.setModes(csi, true),
  l: (terminal, csi) => terminal.setModes(csi, false),
};

function eraseInDisplay({ grid }: Terminal, csi: Csi): void {
  const erase = [() => grid.eraseBelow(), () => grid.eraseAbove(), () => grid.eraseScreen(), () => grid.eraseHistory()][
    csi.value(0)
  ];
  erase?.();
}

function eraseInLine({ grid }: Terminal, csi: Csi): void {
  const erase = [() => grid.eraseLineRight(), () => grid.eraseLineLeft(), () => grid.eraseLine()][csi.value(0)];
  erase?.();
}

const ESCAPE_ACTIONS: Readonly<Record<string, (terminal: Terminal) => void>> = {
  '7': ({ grid }) => grid.saveCursor(),
  '8': ({ grid }) => grid.restoreCursor(),
  D: ({ grid }) => grid.lineFeed(),
  E: ({ grid }) => {
    grid.carriageReturn();
    grid.lineFeed();
  },
  M: ({ grid }) => grid.reverseLineFeed(),
  c: (terminal) => terminal.fullReset(),
};

/** What the DEC line-drawing set shows for 0x60 to 0x7e. */
const LINE_DRAWING = '◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·';

const MODE_WRAP = 7;
const MODES_ALTERNATE = new Set([47, 1047, 1049]);
const MODE_ALTERNATE_WITH_CURSOR = 1049;

/** Carries out what the parser recognised, on the normal or on the alternate screen. */
export class Terminal implements ParserEvents {
  readonly normal: Grid;
  grid: Grid;
  readonly #options: GridOptions;
  #isLineDrawing = false;
  #lastPrinted = '';
  #switches = 0;

  constructor(options: GridOptions) {
    this.#options = options;
    this.normal = new Grid(options);
    this.grid = this.normal;
  }

  get isAlternate(): boolean {
    return this.grid !== this.normal;
  }

  /** How often the screen shown was exchanged for the other one. */
  get switches(): number {
    return this.#switches;
  }

  ascii(bytes: Buffer, start: number, end: number): void {
    if (this.#isLineDrawing) return this.text(bytes.toString('latin1', start, end));
    this.grid.printAscii(bytes, start, end);
    this.#lastPrinted = String.fromCharCode(bytes[end - 1] ?? 0x20);
  }

  text(decoded: string): void {
    const text = this.#isLineDrawing ? drawn(decoded) : decoded;
    if (isSimpleText(text)) this.grid.printSimple(text);
    else this.grid.printText(text);
    const last = text.charCodeAt(text.length - 1);
    const isLowSurrogate = last >= 0xdc00 && last <= 0xdfff;
    this.#lastPrinted = text.slice(isLowSurrogate ? -2 : -1);
  }

  control(byte: number): void {
    switch (byte) {
      case 0x08:
        return this.grid.backspace();
      case 0x09:
        return this.grid.tab();
      case 0x0a:
      case 0x0b:
      case 0x0c:
        return this.grid.lineFeed();
      case 0x0d:
        return this.grid.carriageReturn();
      default:
    }
  }

  escape(intermediate: number, final: number): void {
    const isCharset = intermediate === 0x28; // (
    if (isCharset) this.#isLineDrawing = final === 0x30;
    else if (intermediate === 0) ESCAPE_ACTIONS[String.fromCharCode(final)]?.(this);
  }

  csi(csi: Csi): void {
    if (csi.hasIntermediates) return;
    const actions = csi.marker === 0 ? CSI_ACTIONS : PRIVATE_CSI_ACTIONS;
    const isKnownMarker = csi.marker === 0 || csi.marker === 0x3f; // ?
    if (isKnownMarker) actions[String.fromCharCode(csi.final)]?.(this, csi);
  }

  /** At most a row: sequences of a few bytes must not produce text without limit. */
  repeat(count: number): void {
    if (this.#lastPrinted === '') return;
    this.text(this.#lastPrinted.repeat(Math.min(count, this.#options.columns)));
  }

  setModes(csi: Csi, isSet: boolean): void {
    for (const mode of csi.values()) {
      if (mode === MODE_WRAP) this.grid.wraps = isSet;
      else if (MODES_ALTERNATE.has(mode)) this.#showAlternate(isSet, mode);
    }
  }

  fullReset(): void {
    this.#showAlternate(false, 0);
    this.#isLineDrawing = false;
    this.#lastPrinted = '';
    this.normal.reset();
  }

  #showAlternate(isShown: boolean, mode: number): void {
    if (isShown === this.isAlternate) return;
    const withCursor = mode === MODE_ALTERNATE_WITH_CURSOR;
    if (isShown && withCursor) this.normal.saveCursor();
    this.grid = isShown ? new Grid({ ...this.#options, historyRows: 0 }) : this.normal;
    if (!isShown && withCursor) this.normal.restoreCursor();
    this.#switches += 1;
  }
}

function drawn(text: string): string {
  return text.replace(/[`-~]/g, (char) => LINE_DRAWING.charAt(char.charCodeAt(0) - 0x60));
}
