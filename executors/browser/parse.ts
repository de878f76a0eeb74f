import { SIMPLE_ESCAPES } from '../../src/protocol/python-literal.ts';
import { ActionFault } from './fault.ts';
import { MAX_ACTION_CHARS, MAX_CALLS, MAX_LITERAL_DEPTH } from './limits.ts';

export type Literal = string | number | boolean | null | readonly Literal[] | { readonly [key: string]: Literal };

/** One call as it was written. */
export interface ParsedCall {
  readonly name: string;
  readonly positional: readonly Literal[];
  readonly named: ReadonlyMap<string, Literal>;
  /** Where it begins, in UTF-16 units. */
  readonly at: number;
}

const NAME = /[A-Za-z_]\w*/y;
/** Blanks and comments, which may stand between any two tokens. */
const SPACE = /(?:[\s]+|#[^\n]*)*/y;
const NUMBER = /[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?(?![\w.])/y;
const QUOTE = /([A-Za-z]{0,2})("""|'''|"|')/y;
const ESCAPE = /x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|\r\n|[^]/uy;
const WORDS: ReadonlyMap<string, Literal> = new Map<string, Literal>([
  ['True', true],
  ['False', false],
  ['None', null],
  ['true', true],
  ['false', false],
  ['null', null],
]);
/**
 * The calls in a text of the action language (V0 §8.2): any number, with literals of Python as arguments. Comments, and words in between
 * that are no calls, are skipped. Nothing is evaluated.
 *
 * @param isKnown whether a function of that name exists: a broken call of one is an error, a broken one of another is prose
 * @throws ActionFault SyntaxError with line and column; ValueError when there is no call
 */
export function parseActions(text: string, isKnown: (name: string) => boolean): ParsedCall[] {
  if (text.length > MAX_ACTION_CHARS)
    throw new ActionFault(
      'ValueError',
      `browser_actions has ${text.length} characters; at most ${MAX_ACTION_CHARS} are taken. Send fewer calls, or upload long text as a file.`,
    );
  const calls: ParsedCall[] = [];
  const scanner = new Scanner(text);
  let prose: ActionFault | undefined;
  while (scanner.toNextName()) {
    const at = scanner.at;
    const found = scanner.tryCall(isKnown);
    if (found instanceof ActionFault) {
      prose ??= found;
      scanner.skipName(at);
    } else if (found === undefined) {
      scanner.skipName(at);
    } else {
      calls.push(found);
      if (calls.length > MAX_CALLS)
        throw new ActionFault(
          'ValueError',
          `There are more than ${MAX_CALLS} calls in one action; send them in several.`,
        );
    }
  }
  if (calls.length > 0) return calls;
  if (prose) throw prose;
  throw new ActionFault('ValueError', 'Received an empty action.');
}

class Scanner {
  readonly #text: string;
  /** Whether what is broken here may be prose, of which only the first fault is ever told. */
  #isProse = false;
  #proseFaults = 0;
  at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Goes to where the next name begins; false at the end. */
  toNextName(): boolean {
    for (;;) {
      this.#take(SPACE);
      const character = this.#text[this.at];
      if (character === undefined) return false;
      if (/[A-Za-z_]/.test(character)) return true;
      // A number such as `12px` is no name.
      if (/\d/.test(character)) this.#take(/\w+/y);
      else this.at += 1;
    }
  }

  skipName(from: number): void {
    this.at = from;
    this.#take(NAME);
  }

  /** A call that begins here; undefined or a fault when it is none. @throws ActionFault when it is a broken call of a known function */
  tryCall(isKnown: (name: string) => boolean): ParsedCall | ActionFault | undefined {
    const at = this.at;
    const name = this.#take(NAME) ?? '';
    this.#isProse = !isKnown(name) || this.#text[this.at] !== '(';
    if (this.#text[at - 1] === '.' || !this.#skip('(')) return undefined;
    try {
      return { name, ...this.#arguments(), at };
    } catch (error) {
      if (!(error instanceof ActionFault) || !this.#isProse) throw error;
      return error;
    }
  }

  #arguments(): { positional: Literal[]; named: Map<string, Literal> } {
    const positional: Literal[] = [];
    const named = new Map<string, Literal>();
    while (!this.#skip(')')) {
      const name = this.#keyword();
      if (name === undefined && named.size > 0) throw this.#fault('a named argument', 'positional ones come first');
      const value = this.#value(0);
      if (name === undefined) positional.push(value);
      else if (named.has(name)) throw this.#fault(`"${name}" only once`);
      else named.set(name, value);
      if (this.#skip(',')) continue;
      if (!this.#skip(')')) throw this.#fault('"," or ")"');
      break;
    }
    return { positional, named };
  }

  /** The name before a `=`, which is taken too. */
  #keyword(): string | undefined {
    this.#take(SPACE);
    const from = this.at;
    const name = this.#take(NAME);
    if (name !== undefined && this.#skip('=')) return name;
    this.at = from;
    return undefined;
  }

  #value(depth: number): Literal {
    if (depth > MAX_LITERAL_DEPTH) throw this.#fault(`lists at most ${MAX_LITERAL_DEPTH} deep`);
    this.#take(SPACE);
    if (this.#skip('[')) return this.#list(']', depth).items;
    if (this.#skip('(')) return this.#tuple(depth);
    if (this.#skip('{')) return this.#dict(depth);
    const text = this.#strings();
    if (text !== undefined) return text;
    const number = this.#take(NUMBER);
    if (number !== undefined) return Number(number.replaceAll('_', ''));
    const from = this.at;
    const word = this.#take(NAME);
    const value = word === undefined ? undefined : WORDS.get(word);
    if (value !== undefined) return value;
    this.at = from;
    throw this.#fault('a value: a string in quotes, a number, a list, True, False or None');
  }

  #list(end: string, depth: number): { items: Literal[]; hasComma: boolean } {
    const items: Literal[] = [];
    let hasComma = false;
    while (!this.#skip(end)) {
      items.push(this.#value(depth + 1));
      if (this.#skip(',')) hasComma = true;
      else if (this.#skip(end)) break;
      else throw this.#fault(`"," or "${end}"`);
    }
    return { items, hasComma };
  }

  /** `(1)` is 1, `(1,)` a tuple. */
  #tuple(depth: number): Literal {
    const { items, hasComma } = this.#list(')', depth);
    const [first] = items;
    return items.length === 1 && !hasComma && first !== undefined ? first : items;
  }

  #dict(depth: number): Literal {
    const entries: [string, Literal][] = [];
    while (!this.#skip('}')) {
      const key = this.#value(depth + 1);
      if (typeof key !== 'string') throw this.#fault('a string as key');
      if (!this.#skip(':')) throw this.#fault('":"');
      entries.push([key, this.#value(depth + 1)]);
      if (this.#skip(',')) continue;
      if (!this.#skip('}')) throw this.#fault('"," or "}"');
      break;
    }
    return Object.fromEntries(entries);
  }

  /** Strings beside each other are one, as in Python. */
  #strings(): string | undefined {
    let text = this.#string();
    if (text === undefined) return undefined;
    for (;;) {
      const from = this.at;
      this.#take(SPACE);
      const more = this.#string();
      if (more === undefined) {
        this.at = from;
        return text;
      }
      text += more;
    }
  }

  #string(): string | undefined {
    const from = this.at;
    QUOTE.lastIndex = from;
    const found = QUOTE.exec(this.#text);
    if (!found) return undefined;
    const [all, prefix = '', quote = ''] = found;
    if (!/^(?:|r|u)$/i.test(prefix)) throw this.#fault('a plain string', `${prefix}${quote} strings are not taken`);
    this.at += all.length;
    return this.#stringBody(quote, prefix.toLowerCase() === 'r', from);
  }

  #stringBody(quote: string, isRaw: boolean, from: number): string {
    const stop = quote.length === 3 ? /["'\\]/g : /["'\\\n]/g;
    let text = '';
    for (;;) {
      stop.lastIndex = this.at;
      const found = stop.exec(this.#text);
      if (!found) break;
      text += this.#text.slice(this.at, found.index);
      this.at = found.index;
      if (this.#text.startsWith(quote, this.at)) {
        this.at += quote.length;
        return text;
      }
      if (found[0] === '\n') break;
      this.at += 1;
      if (found[0] !== '\\') text += found[0];
      else if (isRaw) text += `\\${this.#character()}`;
      else text += this.#escape();
    }
    this.at = from;
    throw this.#fault(
      `the end of the string: its closing ${quote}`,
      quote.length === 1 ? 'write \\n for a line break' : undefined,
    );
  }

  #character(): string {
    const character = this.#text[this.at] ?? '';
    this.at += character.length;
    return character;
  }

  #escape(): string {
    const found = this.#take(ESCAPE) ?? '';
    const simple = SIMPLE_ESCAPES.get(found);
    if (simple !== undefined) return simple;
    if (/^[xuU]./.test(found)) return this.#codePoint(Number.parseInt(found.slice(1), 16));
    if (/^[0-7]/.test(found)) return this.#codePoint(Number.parseInt(found, 8));
    if (/^[xuUN]$/.test(found)) throw this.#fault('a complete escape', 'such as \\x41, \\u0041 or \\U0001F600');
    return `\\${found}`;
  }

  #codePoint(value: number): string {
    if (value > 0x10_ff_ff) throw this.#fault('an escape of at most \\U0010ffff');
    return String.fromCodePoint(value);
  }

  #skip(character: string): boolean {
    this.#take(SPACE);
    if (this.#text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.#text)?.[0];
    this.at += found?.length ?? 0;
    return found;
  }

  #fault(expected: string, remark?: string): ActionFault {
    if (this.#isProse && this.#proseFaults > 0) return new ActionFault('SyntaxError', expected);
    this.#proseFaults += this.#isProse ? 1 : 0;
    const before = this.#text.slice(0, this.at);
    const line = before.split('\n').length;
    const column = this.at - before.lastIndexOf('\n');
    const rest = this.#text.slice(this.at, this.at + 20);
    const found = rest === '' ? 'the end of the text' : JSON.stringify(rest);
    return new ActionFault(
      'SyntaxError',
      `line ${line}, column ${column}: expected ${expected}, found ${found}${remark === undefined ? '.' : `; ${remark}.`}`,
    );
  }
}
