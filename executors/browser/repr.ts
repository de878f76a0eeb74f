import { pythonFloat } from '../../src/protocol/observations.ts';

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['\\', '\\\\'],
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

/** What Python does not print as it is: everything invisible but the blank. */
const INVISIBLE = /[\\\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

/** Python's `repr` of a text: the form of names and values in the tree (V0 §8.4). */
export function reprText(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replace(INVISIBLE, escape);
  return `${quote}${quote === "'" ? escaped.replaceAll("'", "\\'") : escaped}${quote}`;
}

function escape(character: string): string {
  const known = ESCAPES.get(character);
  if (known !== undefined) return known;
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x100) return `\\x${hex(code, 2)}`;
  return code < 0x10000 ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, '0');
}

/** Python's `repr` of what JSON can hold. */
export function repr(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return reprText(value);
    case 'boolean':
      return value ? 'True' : 'False';
    case 'number':
      return Number.isInteger(value) ? String(value) : pythonFloat(value);
    default:
      break;
  }
  if (value === null || value === undefined) return 'None';
  if (Array.isArray(value)) return `[${value.map(repr).join(', ')}]`;
  const entries = Object.entries(value).map(([key, item]) => `${reprText(key)}: ${repr(item)}`);
  return `{${entries.join(', ')}}`;
}
