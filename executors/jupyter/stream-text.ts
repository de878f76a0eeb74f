/* oxlint-disable no-control-regex -- control characters are what this file is about */
import { HeadTail } from './head-tail.ts';

/** Lines above the last one that cursor movements can still change, as progress bars below each other do. */
const EDITABLE_LINES = 64;
/** A longer line is final up to here. */
const MAX_LINE_CHARS = 16_384;
/** A longer escape sequence is none. */
const MAX_ESCAPE_CHARS = 4096;

const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f\u009b\u009d]/;
const PLAIN_RUN = /[^\n\u0000-\u0008\u000b-\u001f\u007f\u009b\u009d]+/y;
/** What may go on over many characters ends where the next one could begin: what is unfinished is looked through once. */
const ESCAPE =
  /(?:\u001b\[|\u009b)([0-?]*)[ -/]*([@-~])|(?:\u001b\]|\u009d)[^\u0007\u001b\u009d]*(?:\u0007|\u001b\\)|\u001b[PX^_][^\u001b]*\u001b\\|\u001b[ -/]*[0-OQ-WYZ\\`-~]/y;
const UNFINISHED_ESCAPE =
  /(?:\u001b|(?:\u001b\[|\u009b)[0-?]*[ -/]*|(?:\u001b\]|\u009d)[^\u0007\u001b\u009d]*\u001b?|\u001b[PX^_][^\u001b]*\u001b?|\u001b[ -/]+)$/y;

/** What a stream of text looks like in the end: carriage returns, backspaces and cursor movements carried out, colours gone. */
export class StreamText {
  readonly #done: HeadTail;
  #lines: string[] = [''];
  #row = 0;
  #column = 0;
  /** The beginning of an escape sequence that the next piece continues. */
  #held = '';

  constructor(headChars: number, tailChars: number) {
    this.#done = new HeadTail(headChars, tailChars);
  }

  get length(): number {
    return this.#done.length + this.#lines.reduce((sum, line) => sum + line.length + 1, -1);
  }

  write(piece: string): void {
    const text = this.#held + piece;
    this.#held = '';
    if (!CONTROL.test(text) && this.#isAtEnd()) this.#append(text);
    else this.#interpret(text);
  }

  /** All of it, in two parts with the dropped middle between them. */
  finish(): { head: string; tail: string; dropped: number } {
    const rest = new HeadTail(Infinity, Infinity);
    rest.append([...this.#lines.slice(0, -1), this.#lastLine()].join('\n'));
    const { head, tail, dropped } = this.#done;
    return dropped > 0
      ? { head, tail: tail + rest.head, dropped }
      : { head: head + tail + rest.head, tail: '', dropped };
  }

  /** Without blanks behind the cursor, as a bar that erases itself leaves them: the next output begins there. */
  #lastLine(): string {
    const line = this.#lines.at(-1) ?? '';
    const isErased = this.#row === this.#lines.length - 1 && line.slice(this.#column).trim() === '';
    return isErased ? line.slice(0, this.#column) : line;
  }

  #isAtEnd(): boolean {
    return this.#row === this.#lines.length - 1 && this.#column === this.#lines[this.#row]?.length;
  }

  /** Most text: behind everything that is there, without control characters. */
  #append(text: string): void {
    const tail = (this.#lines.pop() ?? '') + text;
    const start = startOfLastLines(tail, EDITABLE_LINES);
    if (start > 0) {
      this.#settle(this.#lines.length);
      this.#done.append(tail.slice(0, start));
    }
    this.#lines.push(...tail.slice(start).split('\n'));
    this.#row = this.#lines.length - 1;
    this.#trim();
    this.#column = this.#lines[this.#row]?.length ?? 0;
  }

  /** The first lines are final. */
  #settle(count: number): void {
    this.#done.append(
      this.#lines
        .splice(0, count)
        .map((line) => `${line}\n`)
        .join(''),
    );
    this.#row = Math.max(0, this.#row - count);
  }

  #trim(): void {
    const excess = this.#lines.length - EDITABLE_LINES;
    if (excess > 0) this.#settle(excess);
    if ((this.#lines[this.#row]?.length ?? 0) <= MAX_LINE_CHARS) return;
    this.#settle(this.#row);
    this.#done.append(this.#lines[0] ?? '');
    this.#lines[0] = '';
    this.#column = 0;
  }

  #interpret(text: string): void {
    for (let at = 0; at < text.length;) {
      PLAIN_RUN.lastIndex = at;
      const run = PLAIN_RUN.exec(text)?.[0];
      if (run !== undefined) {
        this.#overwrite(run);
        at += run.length;
        continue;
      }
      const character = text[at] ?? '';
      if (character === '\u001b' || character === '\u009b' || character === '\u009d') {
        const length = this.#escape(text, at);
        if (length === 0) return;
        at += length;
        continue;
      }
      this.#control(character);
      at += 1;
    }
  }

  /** @returns characters taken; 0 when the rest waits for more */
  #escape(text: string, at: number): number {
    ESCAPE.lastIndex = at;
    const match = ESCAPE.exec(text);
    if (match) {
      if (match[2] !== undefined) this.#move(match[2], match[1] ?? '');
      return match[0].length;
    }
    UNFINISHED_ESCAPE.lastIndex = at;
    if (text.length - at > MAX_ESCAPE_CHARS || !UNFINISHED_ESCAPE.test(text)) return 1;
    this.#held = text.slice(at);
    return 0;
  }

  #control(character: string): void {
    if (character === '\n') {
      if (this.#row === this.#lines.length - 1) this.#lines.push('');
      this.#row += 1;
      this.#column = 0;
      this.#trim();
    } else if (character === '\r') {
      this.#column = 0;
    } else if (character === '\b') {
      this.#column = Math.max(0, this.#column - 1);
    }
  }

  #overwrite(run: string): void {
    const line = this.#lines[this.#row] ?? '';
    const before = line.slice(0, this.#column).padEnd(this.#column);
    this.#lines[this.#row] = before + run + line.slice(this.#column + run.length);
    this.#column += run.length;
    this.#trim();
  }

  #move(final: string, parameters: string): void {
    const count = Math.max(1, Number.parseInt(parameters, 10) || 1);
    const line = this.#lines[this.#row] ?? '';
    switch (final) {
      case 'A':
        this.#row = Math.max(0, this.#row - count);
        return;
      case 'B':
        this.#row = Math.min(this.#lines.length - 1, this.#row + count);
        return;
      case 'C':
        this.#column = Math.min(MAX_LINE_CHARS, this.#column + count);
        return;
      case 'D':
        this.#column = Math.max(0, this.#column - count);
        return;
      case 'G':
        this.#column = Math.min(MAX_LINE_CHARS, count - 1);
        return;
      case 'K':
        this.#lines[this.#row] = erased(line, this.#column, parameters);
        return;
      case 'J':
        if (parameters !== '' && parameters !== '0') return;
        this.#lines[this.#row] = line.slice(0, this.#column);
        this.#lines.length = this.#row + 1;
    }
  }
}

function erased(line: string, column: number, mode: string): string {
  if (mode === '1') return ''.padEnd(Math.min(column, line.length)) + line.slice(column);
  return mode === '2' ? '' : line.slice(0, column);
}

/** Where the last lines of a text begin. */
function startOfLastLines(text: string, count: number): number {
  let end = text.length;
  for (let lines = 0; lines < count; lines += 1) {
    end = end === 0 ? -1 : text.lastIndexOf('\n', end - 1);
    if (end < 0) return 0;
  }
  return end + 1;
}

/** Text without escape sequences, for a piece that stands alone. */
export function withoutEscapes(text: string): string {
  if (!CONTROL.test(text)) return text;
  let plain = '';
  for (let at = 0; at < text.length;) {
    ESCAPE.lastIndex = at;
    const escape = isEscape(text.charCodeAt(at)) ? ESCAPE.exec(text)?.[0] : undefined;
    if (escape !== undefined) {
      at += escape.length;
      continue;
    }
    const next = nextEscape(text, at + 1);
    plain += isEscape(text.charCodeAt(at)) ? text.slice(at + 1, next) : text.slice(at, next);
    at = next;
  }
  return plain;
}

function isEscape(code: number): boolean {
  return code === 0x1b || code === 0x9b || code === 0x9d;
}

function nextEscape(text: string, from: number): number {
  const pattern = /[\u001b\u009b\u009d]/g;
  pattern.lastIndex = from;
  return pattern.exec(text)?.index ?? text.length;
}
