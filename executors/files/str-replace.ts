import { CONTEXT_LINES, EditorError, numberedOutput, pythonList, REVIEW_REPLACED } from './editor-texts.ts';
import { countEnds, linesBetween, withEndsOf, withPlainEnds } from './lines.ts';

/** Line numbers in one message. */
const MAX_NAMED_LINES = 1000;

export interface TextEdit {
  readonly text: string;
  /** What the agent is told. */
  readonly output: string;
}

/**
 * Replaces the only occurrence of a text, byte for byte; everything else stays as it is. In a file with CR LF a text with LF matches
 * too, and what is put in gets the line ends around it.
 * @throws EditorError when there is no occurrence, or more than one (V0 §7.5)
 */
export function replaceOnce(content: string, oldStr: string, newStr: string, path: string): TextEdit {
  const plain = withPlainEnds(content);
  const isPlain = plain.length === content.length && plain === content;
  const wanted = isPlain ? oldStr : withPlainEnds(oldStr);
  const found = findOnce(plain, wanted, newStr, path);
  const start = isPlain ? found.start : offsetIn(content, found.start);
  const end = isPlain ? start + found.length : offsetIn(content, found.start + found.length);
  const put = withEndsOf(content, start, found.newStr);
  const text = content.slice(0, start) + put + content.slice(end);
  return { text, output: describe(text, plain, found, path) };
}

interface Match {
  readonly start: number;
  readonly length: number;
  readonly newStr: string;
}

function findOnce(plain: string, oldStr: string, newStr: string, path: string): Match {
  const exact = matchOnce(plain, oldStr);
  if (exact !== undefined) return { start: exact, length: oldStr.length, newStr };
  const stripped = oldStr.trim();
  const start = matchOnce(plain, stripped);
  if (start === undefined)
    throw new EditorError(`No replacement was performed, old_str \`${stripped}\` did not appear verbatim in ${path}.`);
  return { start, length: stripped.length, newStr: newStr.trim() };
}

function matchOnce(plain: string, text: string): number | undefined {
  const first = plain.indexOf(text);
  if (first < 0) return undefined;
  const lines = text === '' ? allLines(plain) : matchLines(plain, text, first);
  if (lines === undefined) return first;
  const list = lines.length > MAX_NAMED_LINES ? lines.slice(0, MAX_NAMED_LINES) : lines;
  throw new EditorError(
    `No replacement was performed. Multiple occurrences of old_str \`${text}\` in lines ${pythonList(list)}. Please ensure it is unique.`,
  );
}

/** Nothing is everywhere. undefined: only once, in an empty file. */
function allLines(plain: string): number[] | undefined {
  if (plain === '') return undefined;
  return Array.from({ length: countEnds(plain, 0, plain.length) + 1 }, (_, index) => index + 1);
}

/** Lines where a text begins that is there more than once. */
function matchLines(plain: string, text: string, first: number): number[] | undefined {
  if (plain.indexOf(text, first + text.length) < 0) return undefined;
  const lines: number[] = [];
  let line = 1;
  let counted = 0;
  for (let at = first; at >= 0 && lines.length <= MAX_NAMED_LINES;) {
    line += countEnds(plain, counted, at);
    counted = at;
    if (lines.at(-1) !== line) lines.push(line);
    // A line is named once: a million matches in it are one step, not a million.
    const from = text.includes('\n') ? at + text.length : endOfLine(plain, at);
    at = from < plain.length ? plain.indexOf(text, from) : -1;
  }
  return lines;
}

function endOfLine(plain: string, at: number): number {
  const end = plain.indexOf('\n', at);
  return end < 0 ? plain.length : end;
}

/** Where in a text with its own line ends the place is that `plainOffset` names in the same text with plain ones. */
function offsetIn(content: string, plainOffset: number): number {
  let offset = plainOffset;
  for (let at = content.indexOf('\r\n'); at >= 0 && at < offset; at = content.indexOf('\r\n', at + 2)) offset += 1;
  return offset;
}

function describe(text: string, plainBefore: string, { start, newStr }: Match, path: string): string {
  const line = countEnds(plainBefore, 0, start) + 1;
  const first = Math.max(0, line - CONTEXT_LINES) + 1;
  const last = line + CONTEXT_LINES + countEnds(newStr, 0, newStr.length);
  const snippet = linesBetween(withPlainEnds(text), first, last);
  return `The file ${path} has been edited. ${numberedOutput(snippet, `a snippet of ${path}`, first)}${REVIEW_REPLACED}`;
}
