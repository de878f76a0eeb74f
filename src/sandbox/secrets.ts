import { PatternSet } from './pattern-set.ts';
import { MASK, SecretByteStream, SecretStream } from './secret-stream.ts';

/** Shorter values would blot out ordinary text. */
const MIN_SECRET_CHARS = 8;
/** Longer values are no keys. */
const MAX_SECRET_CHARS = 4096;
/** Values that can be registered, and their characters together; clients could go on without end. */
const MAX_SECRETS = 10_000;
const MAX_TOTAL_CHARS = 1024 * 1024;

/**
 * Where a text ends before a secret may have, so much of its beginning is shown: it says little, and ordinary text ends like that all the
 * time.
 */
export const MAX_SHOWN_BEGINNING_CHARS = 3;

const NONE = new PatternSet([]);

/** The `NAME=` of `NAME=value` in shell text, with or without `export`. */
const ASSIGNMENT_START = /(?:^|[\s;&|(])([A-Za-z_]\w*)=/g;
/** In quotes up to the closing one, else up to what ends a word. */
const ASSIGNED_VALUE = /^(?:"(?:[^"\\]|\\[^])*"|'[^']*'|[^\s;&|)]+)/;
/** The longest secret with each character escaped, in quotes. More is not looked at: the engine's stack grows with it. */
const MAX_ASSIGNED_CHARS = 2 * MAX_SECRET_CHARS + 2;
/** Longer names are no variables of anybody. */
const MAX_NAME_CHARS = 1024;

/**
 * Knows values that must never be shown and takes them out of text; of values that overlap in it the whole is one mask. Values come from the environment, from assignments in commands, and
 * from whoever registers them.
 */
export class Secrets {
  readonly #namePatterns: readonly RegExp[];
  readonly #values = new Set<string>();
  #totalChars = 0;
  /** Made when next needed: values come one by one. */
  #patterns: PatternSet | undefined = NONE;
  #bytePatterns: PatternSet | undefined = NONE;

  /** @param namePatterns names of variables, `*` for any characters, case-insensitive */
  constructor(namePatterns: readonly string[]) {
    this.#namePatterns = namePatterns.map(globPattern);
  }

  /** Whether a variable of that name holds a secret. */
  isSecretName(name: string): boolean {
    return this.#namePatterns.some((pattern) => pattern.test(name));
  }

  /** Takes the values of variables whose names say that they are secret. */
  addEnvironment(env: Readonly<Record<string, string | undefined>>): void {
    for (const [name, value] of Object.entries(env))
      if (value !== undefined && this.isSecretName(name)) this.add(value);
  }

  /** Takes secrets out of shell text that is about to run, such as `export API_TOKEN="…"`. */
  addAssignments(command: string): void {
    if (!command.includes('=')) return;
    const start = new RegExp(ASSIGNMENT_START);
    for (let found = start.exec(command); found; found = start.exec(command)) {
      const value = assignedValue(command, start.lastIndex);
      if (value === undefined) continue;
      start.lastIndex += value.length;
      const [, name = ''] = found;
      if (name.length <= MAX_NAME_CHARS && this.isSecretName(name)) this.add(unquoted(value));
    }
  }

  /** @returns false when the value is too short or too long, or there are too many */
  add(value: string): boolean {
    if (this.#values.has(value)) return true;
    if (!isMaskable(value) || this.#values.size >= MAX_SECRETS) return false;
    if (this.#totalChars + value.length > MAX_TOTAL_CHARS) return false;
    this.#values.add(value);
    this.#totalChars += value.length;
    this.#patterns = undefined;
    this.#bytePatterns = undefined;
    return true;
  }

  /** @param isCut whether the text goes on and that is not shown: then the beginning of a secret at its end is masked too */
  mask(text: string, isCut = false): string {
    const patterns = this.#current();
    let isFound = false;
    const state = patterns.scan(text, 0, PatternSet.START, () => (isFound = true));
    if (!isFound && !(isCut && patterns.pending(state) > MAX_SHOWN_BEGINNING_CHARS)) return text;
    const stream = this.stream();
    const shown = stream.push(text);
    if (!isCut) return shown + stream.end();
    const short = stream.giveShort(MAX_SHOWN_BEGINNING_CHARS);
    return shown + (short === '' && stream.end() !== '' ? MASK : short);
  }

  /** A copy of a JSON value with secrets masked in each of its strings and names, or the value itself when nothing is secret. */
  maskValue<T>(value: T): T {
    return this.#current().isEmpty ? value : (this.#masked(value) as T);
  }

  /** Masks text that comes in pieces; a secret that is split over pieces is found too. */
  stream(): SecretStream {
    return new SecretStream(() => this.#current());
  }

  /** The same for bytes. */
  byteStream(): SecretByteStream {
    return new SecretByteStream(() => this.#currentBytes());
  }

  #current(): PatternSet {
    return (this.#patterns ??= new PatternSet(this.#allForms()));
  }

  #currentBytes(): PatternSet {
    if (this.#bytePatterns) return this.#bytePatterns;
    const forms = this.#allForms();
    const bytes = forms.map((value) => Buffer.from(value).toString('latin1'));
    const isSame = bytes.every((text, index) => text === forms[index]);
    return (this.#bytePatterns = isSame ? this.#current() : new PatternSet(bytes));
  }

  /** A terminal shows a line end of a value as two characters. */
  #allForms(): string[] {
    return [...this.#values].flatMap((value) =>
      value.includes('\n') ? [value, value.replaceAll(/\r?\n/g, '\r\n')] : [value],
    );
  }

  #masked(value: unknown): unknown {
    if (typeof value === 'string') return this.mask(value);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) {
      const items = value.map((item: unknown) => this.#masked(item));
      return items.every((item, index) => item === value[index]) ? value : items;
    }
    const before = Object.entries(value);
    const after = before.map(([key, item]): [string, unknown] => [this.mask(key), this.#masked(item)]);
    const isSame = after.every(([key, item], index) => key === before[index]?.[0] && item === before[index]?.[1]);
    return isSame ? value : Object.fromEntries(after);
  }
}

/** The secrets of a server: its keys, and those in the environment of its children. */
export function secretsOf(config: {
  readonly secretEnv: readonly string[];
  readonly childEnv: Readonly<Record<string, string | undefined>>;
  readonly apiKeys: readonly string[];
}): Secrets {
  const secrets = new Secrets(config.secretEnv);
  secrets.addEnvironment(config.childEnv);
  for (const key of config.apiKeys) secrets.add(key);
  return secrets;
}

/** What is part of the mask itself would be masked without end. */
function isMaskable(value: string): boolean {
  return value.length >= MIN_SECRET_CHARS && value.length <= MAX_SECRET_CHARS && !MASK.includes(value);
}

/** As it is written, with its quotes; undefined when there is none, or when it is longer than any secret. */
function assignedValue(text: string, start: number): string | undefined {
  const seen = text.slice(start, start + MAX_ASSIGNED_CHARS + 1);
  const value = ASSIGNED_VALUE.exec(seen)?.[0];
  return value === undefined || value.length > MAX_ASSIGNED_CHARS ? undefined : value;
}

function globPattern(glob: string): RegExp {
  return new RegExp(`^${glob.split('*').map(escaped).join('.*')}$`, 'i');
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}

function unquoted(value: string): string {
  const quote = value[0];
  if (quote === "'") return value.slice(1, -1);
  if (quote === '"') return value.slice(1, -1).replace(/\\(["\\$`])/g, '$1');
  return value;
}
