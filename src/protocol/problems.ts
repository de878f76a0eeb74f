import type { z } from 'zod';

/** Longest piece of a wrong value that a message repeats, in UTF-16 units. */
const MAX_QUOTED = 40;

/** Lines of one answer; a list of a million wrong items is no reason for a million lines. */
const MAX_PROBLEMS = 10;

/** Names of zod's types for people. */
const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a finite number',
  int: 'an integer',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

/**
 * One line for each problem: the field with its path, what was expected and what came, for example
 * `action.args.command: expected a string, got null`.
 */
export function describeProblems(root: string, issues: readonly z.core.$ZodIssue[]): string[] {
  const lines = issues.slice(0, MAX_PROBLEMS).map((issue) => `${pathOf(root, issue.path)}: ${issue.message}`);
  const more = issues.length - lines.length;
  return more > 0 ? [...lines, `${root}: ${more} more problems`] : lines;
}

/** The `error` of a parse (or of one schema, with its own words for what is expected). */
export function expectation(expected?: string): (issue: z.core.$ZodRawIssue) => string {
  return (issue) => `expected ${expected ?? expectedBy(issue)}, got ${describeValue(issue.input)}`;
}

/** A value as a message shows it: short, on one line, never a whole object. */
export function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (typeof value === 'string') return `the string ${quote(value)}`;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return Array.isArray(value) ? `a list of ${value.length}` : 'an object';
}

/** A string in JSON's quotes, cut to a length that fits a message. */
export function quote(text: string): string {
  return text.length > MAX_QUOTED ? `${JSON.stringify(text.slice(0, MAX_QUOTED))}…` : JSON.stringify(text);
}

function expectedBy(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return TYPE_NAMES[issue.expected] ?? issue.expected;
    case 'invalid_value':
      return `one of ${issue.values.map((value) => JSON.stringify(value)).join(', ')}`;
    case 'invalid_format':
      return `text like ${issue.pattern ?? issue.format}`;
    case 'too_small':
      return sizeWords(issue.origin, 'at least', issue.minimum) ?? `a number >= ${issue.minimum}`;
    case 'too_big':
      return sizeWords(issue.origin, 'at most', issue.maximum) ?? `a number <= ${issue.maximum}`;
    default:
      return 'another value';
  }
}

/** undefined: what is limited is no size. */
function sizeWords(origin: string, limit: string, size: number | bigint): string | undefined {
  if (origin === 'array') return `a list of ${limit} ${size}`;
  return origin === 'string' ? `a string of ${limit} ${size} character${Number(size) === 1 ? '' : 's'}` : undefined;
}

function pathOf(root: string, path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : `${text}.${String(key)}`),
    root,
  );
}
