/** What stands in place of a secret. */
const MASK = '<secret_hidden>';

/** Shorter values would blot out ordinary text. */
const MIN_SECRET_CHARS = 8;
/** Longer values are no keys; a pattern of them would not compile. */
const MAX_SECRET_CHARS = 4096;
/** Values that can be registered; clients could go on without end. */
const MAX_SECRETS = 10_000;

/** `NAME=value` in shell text: an assignment, with or without `export`. */
const ASSIGNMENT = /(?:^|[\s;&|(])([A-Za-z_]\w*)=("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;&|)]+)/g;

/**
 * Knows values that must never be shown and takes them out of text. Values come from the environment, from assignments in commands, and
 * from whoever registers them.
 */
export class Secrets {
  readonly #namePatterns: readonly RegExp[];
  readonly #values = new Set<string>();
  #plain: RegExp | undefined;
  #longest = 0;
  #firstChars = new Set<string>();

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
      if (value !== undefined && isMaskable(value) && this.isSecretName(name)) this.#values.add(value);
    this.#compile();
  }

  /** Takes secrets out of shell text that is about to run, such as `export API_TOKEN="…"`. */
  addAssignments(command: string): void {
    if (!command.includes('=')) return;
    for (const [, name = '', value = ''] of command.matchAll(ASSIGNMENT)) {
      if (this.isSecretName(name)) this.add(unquoted(value));
    }
  }

  /** @returns false when the value is too short or there are too many */
  add(value: string): boolean {
    if (this.#values.has(value)) return true;
    if (!isMaskable(value) || this.#values.size >= MAX_SECRETS) return false;
    this.#values.add(value);
    this.#compile();
    return true;
  }

  mask(text: string): string {
    return this.#plain === undefined ? text : text.replace(this.#plain, MASK);
  }

  /** A copy of a JSON value with secrets masked in each of its strings, or the value itself when nothing is secret. */
  maskValue<T>(value: T): T {
    return this.#plain === undefined ? value : (this.#masked(value) as T);
  }

  /** Masks text that comes in pieces; a secret that is split over pieces is found too. */
  stream(): SecretStream {
    return new SecretStream(this);
  }

  /** How many characters at the end of the text may be the beginning of a secret. */
  pendingChars(text: string): number {
    const from = Math.max(0, text.length - this.#longest + 1);
    for (let at = from; at < text.length; at += 1) {
      if (!this.#firstChars.has(text[at] ?? '')) continue;
      const tail = text.slice(at);
      for (const value of this.#values) if (value.length > tail.length && value.startsWith(tail)) return tail.length;
    }
    return 0;
  }

  #masked(value: unknown): unknown {
    if (typeof value === 'string') return this.mask(value);
    if (Array.isArray(value)) return value.map((item) => this.#masked(item));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, this.#masked(item)]));
  }

  #compile(): void {
    const values = [...this.#values].toSorted((a, b) => b.length - a.length);
    this.#longest = values[0]?.length ?? 0;
    this.#firstChars = new Set(values.map((value) => value[0] ?? ''));
    this.#plain = alternation(values);
  }
}

/** One text in pieces: what may be the beginning of a secret waits for the next piece. */
export class SecretStream {
  readonly #secrets: Secrets;
  #held = '';

  constructor(secrets: Secrets) {
    this.#secrets = secrets;
  }

  push(piece: string): string {
    const text = this.#secrets.mask(this.#held + piece);
    const pending = this.#secrets.pendingChars(text);
    this.#held = pending > 0 ? text.slice(-pending) : '';
    return pending > 0 ? text.slice(0, -pending) : text;
  }

  /** What was still waiting, when no more comes. */
  end(): string {
    const rest = this.#held;
    this.#held = '';
    return rest;
  }
}

function isMaskable({ length }: string): boolean {
  return length >= MIN_SECRET_CHARS && length <= MAX_SECRET_CHARS;
}

function globPattern(glob: string): RegExp {
  return new RegExp(`^${glob.split('*').map(escaped).join('.*')}$`, 'i');
}

function alternation(values: readonly string[]): RegExp | undefined {
  return values.length === 0 ? undefined : new RegExp(values.map(escaped).join('|'), 'g');
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
