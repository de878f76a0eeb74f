/** A mistake on the command line or in the environment; the message is one line for the person who started us. */
export class UsageError extends Error {
  override name = 'UsageError';
}

/**
 * What an option takes and what repeating it means.
 * `switch`: nothing. `toggle`: nothing, and `--no-X` turns it off. `value`: one, the last wins.
 * `list`: all words up to the next option, the last list wins. `append`: one, and repeats add up.
 */
export type OptionKind = 'switch' | 'toggle' | 'value' | 'list' | 'append';

export interface OptionSpec {
  readonly flag: string;
  readonly kind: OptionKind;
  readonly short?: string;
}

export interface ParsedArgv {
  readonly positionals: readonly string[];
  /** By the option's full flag; a toggle holds `true` or `false`. */
  readonly options: ReadonlyMap<string, readonly string[]>;
}

interface Spelling {
  readonly spec: OptionSpec;
  readonly turnsOff: boolean;
}

/**
 * Reads a command line by the rules of Python's argparse (V0 §1.1): `--opt value`, `--opt=value`, unambiguous prefixes,
 * `--` before positionals.
 *
 * @throws {UsageError} unknown or ambiguous option, missing or superfluous value
 */
export function parseArgv(argv: readonly string[], specs: readonly OptionSpec[]): ParsedArgv {
  const spellings = spellingsOf(specs);
  const positionals: string[] = [];
  const options = new Map<string, readonly string[]>();
  let index = 0;
  while (index < argv.length) {
    const token = argv[index] ?? '';
    index += 1;
    if (token === '--') return { positionals: positionals.concat(argv.slice(index)), options };
    if (!isOptionLike(token)) {
      positionals.push(token);
      continue;
    }
    const { name, inline } = splitInlineValue(token);
    const { spec, turnsOff } = findSpelling(name, spellings);
    const following = inline === undefined ? followingValues(argv, index, spec.kind) : [];
    index += following.length;
    const values = takesNothing(spec.kind)
      ? switchValue(spec, turnsOff, inline)
      : requireValues(spec, inline === undefined ? following : [inline]);
    options.set(spec.flag, spec.kind === 'append' ? [...(options.get(spec.flag) ?? []), ...values] : values);
  }
  return { positionals, options };
}

function spellingsOf(specs: readonly OptionSpec[]): Map<string, Spelling> {
  const spellings = new Map<string, Spelling>();
  for (const spec of specs) {
    spellings.set(spec.flag, { spec, turnsOff: false });
    if (spec.short !== undefined) spellings.set(spec.short, { spec, turnsOff: false });
    if (spec.kind === 'toggle') spellings.set(negated(spec.flag), { spec, turnsOff: true });
  }
  return spellings;
}

export function negated(flag: string): string {
  return flag.replace(/^--/, '--no-');
}

/** A negative number is a value, as in argparse: its range check gives the better message. */
function isOptionLike(token: string): boolean {
  return token.startsWith('-') && token !== '-' && !/^-\d+(\.\d*)?$/.test(token);
}

function splitInlineValue(token: string): { name: string; inline: string | undefined } {
  const equals = token.indexOf('=');
  if (equals === -1) return { name: token, inline: undefined };
  return { name: token.slice(0, equals), inline: token.slice(equals + 1) };
}

function findSpelling(name: string, spellings: ReadonlyMap<string, Spelling>): Spelling {
  const exact = spellings.get(name);
  if (exact !== undefined) return exact;
  const matches = name.startsWith('--') ? [...spellings].filter(([spelling]) => spelling.startsWith(name)) : [];
  const [first] = matches;
  if (first === undefined) throw new UsageError(`Unknown option ${name}; --help lists all options`);
  if (matches.length === 1) return first[1];
  throw new UsageError(`Ambiguous option ${name}; write one of ${matches.map(([spelling]) => spelling).join(', ')}`);
}

function followingValues(argv: readonly string[], from: number, kind: OptionKind): string[] {
  const limit = takesNothing(kind) ? 0 : kind === 'list' ? Infinity : 1;
  const values: string[] = [];
  for (const token of argv.slice(from)) {
    if (values.length >= limit || isOptionLike(token)) break;
    values.push(token);
  }
  return values;
}

function takesNothing(kind: OptionKind): boolean {
  return kind === 'switch' || kind === 'toggle';
}

function switchValue(spec: OptionSpec, turnsOff: boolean, inline: string | undefined): readonly string[] {
  if (inline === undefined) return [String(!turnsOff)];
  const spelling = turnsOff ? negated(spec.flag) : spec.flag;
  throw new UsageError(`${spelling} takes no value; write it without "="`);
}

function requireValues(spec: OptionSpec, values: readonly string[]): readonly string[] {
  if (values.length > 0) return values;
  throw new UsageError(`${spec.flag} needs a value; write ${spec.flag} VALUE or ${spec.flag}=VALUE`);
}
