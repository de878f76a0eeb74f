import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parsePythonLiteral, type PythonValue } from '../../src/protocol/python-literal.ts';

test.each<[string, PythonValue]>([
  ['{}', {}],
  [' { } ', {}],
  ["{'a': 1, 'b': -20, 'c': None, 'd': True, 'e': False,}", { a: 1, b: -20, c: null, d: true, e: false }],
  [
    "{'range': [1, 10], 'empty': [], 'deep': [[1], {'x': 'y'}]}",
    { range: [1, 10], empty: [], deep: [[1], { x: 'y' }] },
  ],
  [`{"it's": 'say "hi"'}`, { "it's": 'say "hi"' }],
  [String.raw`'a\nb\tc\\d\'e\"f\rg'`, 'a\nb\tc\\d\'e"f\rg'],
  [String.raw`'\x41\u00e9\U0001f600\101\0'`, 'A\u00e9😀A\0'],
  [String.raw`'\d\.'`, String.raw`\d\.`],
  ["'joined\\\nline'", 'joinedline'],
  ["'é😀'", 'é😀'],
  ["{'__proto__': 1}", JSON.parse('{"__proto__": 1}') as PythonValue],
])('%s', (text, expected) => {
  expect(parsePythonLiteral(text)).toEqual(expected);
});

test.each([
  '',
  '{',
  "{'a'}",
  "{'a': }",
  "{'a': 1 'b': 2}",
  '{1: 2}',
  '{**x}',
  '[1,, 2]',
  '[,]',
  '1.5',
  '1e5',
  '1_0',
  '12345678901234567890',
  "'open",
  "'a\nb'",
  String.raw`'\x4'`,
  String.raw`'\N{BULLET}'`,
  String.raw`'\Uffffffff'`,
  "b'x'",
  "f'x'",
  "'''x'''",
  '(1, 2)',
  'none',
  'Nones',
  "__import__('os')",
  "'a' + 'b'",
  "{'a': 1} extra",
])('is not a literal: %s', (text) => {
  expect(parsePythonLiteral(text)).toBeUndefined();
});

test('nesting is bounded', () => {
  expect(parsePythonLiteral('['.repeat(32) + ']'.repeat(32))).toBeDefined();
  expect(parsePythonLiteral('['.repeat(100_000))).toBeUndefined();
});

test('reads back what repr writes', () => {
  const value = fc.letrec((tie) => ({
    any: fc.oneof(
      { maxDepth: 3 },
      fc.string({ unit: 'binary' }),
      fc.maxSafeInteger(),
      fc.boolean(),
      fc.constant(null),
      tie('list'),
      tie('dict'),
    ),
    list: fc.array(tie('any'), { maxLength: 4 }),
    dict: fc.dictionary(fc.string(), tie('any'), { maxKeys: 4, noNullPrototype: true }),
  })).any;
  fc.assert(
    fc.property(value, (v) => {
      expect(parsePythonLiteral(repr(v))).toEqual(v);
    }),
  );
});

test('never throws', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.constantFrom(...Array.from('{}[]\'"\\,: \nNx0-1uTrue')) }),
      (text) => void parsePythonLiteral(text),
    ),
  );
});

function repr(value: unknown): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string') return reprString(value);
  if (Array.isArray(value)) return `[${value.map(repr).join(', ')}]`;
  return `{${Object.entries(value as object)
    .map(([key, item]) => `${reprString(key)}: ${repr(item)}`)
    .join(', ')}}`;
}

function reprString(text: string): string {
  const escaped = text.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\n', '\\n').replaceAll('\r', '\\r');
  return `'${escaped}'`;
}
