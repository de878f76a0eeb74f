/** What `parsePythonLiteral` can return. */
export type PythonValue = string | number | boolean | null | PythonValue[] | { [key: string]: PythonValue };

/** Lists and dicts inside each other; more is refused, so that hostile input cannot exhaust the stack. */
const MAX_DEPTH = 32;

const SPACE = /[ \t\r\n\f]*/y;
const NUMBER = /[+-]?\d+(?![\w.])/y;
const WORD = /[A-Za-z]+(?!\w)/y;
const ESCAPE = /x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|\r\n|[^]/y;

const WORDS = new Map<string, PythonValue>([
  ['None', null],
  ['True', true],
  ['False', false],
]);

/** What a backslash makes of the character behind it in a string of Python. */
export const SIMPLE_ESCAPES: ReadonlyMap<string, string> = new Map([
  ['n', '\n'],
  ['t', '\t'],
  ['r', '\r'],
  ['a', '\x07'],
  ['b', '\b'],
  ['f', '\f'],
  ['v', '\v'],
  ['\\', '\\'],
  ["'", "'"],
  ['"', '"'],
  ['\n', ''],
  ['\r', ''],
  ['\r\n', ''],
]);

/**
 * Reads a Python literal of the kind `repr` writes: strings in single or double quotes, safe integers, `None`, `True`,
 * `False`, lists, and dicts with string keys. Nothing is evaluated.
 *
 * @returns undefined for anything else: floats, tuples, bytes, prefixed or triple-quoted strings, `\N{…}`, calls
 */
export function parsePythonLiteral(text: string): PythonValue | undefined {
  const cursor = new Cursor(text);
  try {
    const value = readValue(cursor, 0);
    cursor.take(SPACE);
    return cursor.isAtEnd ? value : undefined;
  } catch (error) {
    if (error instanceof NotALiteral) return undefined;
    throw error;
  }
}

class NotALiteral extends Error {}

class Cursor {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  /** What the sticky pattern matches here, or undefined. */
  take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    this.#at += found?.length ?? 0;
    return found;
  }

  /** Steps over the character after any blanks, if it is this one. */
  skip(character: string): boolean {
    this.take(SPACE);
    if (this.#text[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  expect(character: string): void {
    if (!this.skip(character)) throw new NotALiteral();
  }

  next(): string {
    const character = this.#text[this.#at];
    if (character === undefined) throw new NotALiteral();
    this.#at += 1;
    return character;
  }
}

function readValue(cursor: Cursor, depth: number): PythonValue {
  if (depth > MAX_DEPTH) throw new NotALiteral();
  if (cursor.skip('{')) return readDict(cursor, depth);
  if (cursor.skip('[')) return readList(cursor, depth);
  if (cursor.skip("'")) return readString(cursor, "'");
  if (cursor.skip('"')) return readString(cursor, '"');
  return readNumber(cursor) ?? readWord(cursor);
}

function readDict(cursor: Cursor, depth: number): PythonValue {
  const entries: [string, PythonValue][] = [];
  while (!cursor.skip('}')) {
    const key = readValue(cursor, depth + 1);
    if (typeof key !== 'string') throw new NotALiteral();
    cursor.expect(':');
    entries.push([key, readValue(cursor, depth + 1)]);
    if (!cursor.skip(',')) {
      cursor.expect('}');
      break;
    }
  }
  return Object.fromEntries(entries);
}

function readList(cursor: Cursor, depth: number): PythonValue {
  const items: PythonValue[] = [];
  while (!cursor.skip(']')) {
    items.push(readValue(cursor, depth + 1));
    if (!cursor.skip(',')) {
      cursor.expect(']');
      break;
    }
  }
  return items;
}

function readString(cursor: Cursor, quote: string): string {
  let text = '';
  for (;;) {
    const character = cursor.next();
    if (character === quote) return text;
    if (character === '\n' || character === '\r') throw new NotALiteral();
    text += character === '\\' ? readEscape(cursor) : character;
  }
}

function readEscape(cursor: Cursor): string {
  const found = cursor.take(ESCAPE);
  if (found === undefined) throw new NotALiteral();
  const simple = SIMPLE_ESCAPES.get(found);
  if (simple !== undefined) return simple;
  if (/^[xuU]./.test(found)) return codePoint(Number.parseInt(found.slice(1), 16));
  if (/^[0-7]/.test(found)) return codePoint(Number.parseInt(found, 8));
  // A truncated \x, \u or \U is a syntax error in Python, and a \N{name} needs its name table; other unknown escapes stay.
  if (/^[xuUN]$/.test(found)) throw new NotALiteral();
  return `\\${found}`;
}

function codePoint(value: number): string {
  if (value > 0x10ffff) throw new NotALiteral();
  return String.fromCodePoint(value);
}

function readNumber(cursor: Cursor): number | undefined {
  const found = cursor.take(NUMBER);
  if (found === undefined) return undefined;
  const value = Number(found);
  if (!Number.isSafeInteger(value)) throw new NotALiteral();
  return value;
}

function readWord(cursor: Cursor): PythonValue {
  const value = WORDS.get(cursor.take(WORD) ?? '');
  if (value === undefined) throw new NotALiteral();
  return value;
}
