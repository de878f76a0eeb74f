import { CONTEXT_LINES, invalidParameter, numberedOutput, pythonList, REVIEW_INSERTED } from './editor-texts.ts';
import { countLines, endOfRawLine, linesBetween, withEndsOf, withPlainEnds } from './lines.ts';
import type { TextEdit } from './str-replace.ts';

/**
 * Puts lines after a line, from 1, or at the start for 0 (V0 §7.5). A last line without an end gets one first.
 * @throws EditorError when there is no such line
 */
export function insertLines(content: string, line: number, newStr: string, path: string): TextEdit {
  const plain = withPlainEnds(content);
  const total = countLines(plain);
  if (line < 0 || line > total)
    throw invalidParameter(
      'insert_line',
      String(line),
      `It should be within the range of allowed values: ${pythonList([0, total])}`,
    );
  const offset = endOfRawLine(content, line);
  const before = content.slice(0, offset);
  const isOpen = before !== '' && !/[\r\n]$/.test(before);
  const put = withEndsOf(content, Math.max(0, offset - 1), `${isOpen ? '\n' : ''}${newStr}\n`);
  const text = before + put + content.slice(offset);
  return { text, output: describe(text, line, newStr.split('\n').length, total, path) };
}

function describe(text: string, line: number, added: number, total: number, path: string): string {
  const first = Math.max(0, line - CONTEXT_LINES) + 1;
  const last = Math.min(total + added, line + CONTEXT_LINES + added);
  const snippet = linesBetween(withPlainEnds(text), first, last);
  return `The file ${path} has been edited. ${numberedOutput(snippet, 'a snippet of the edited file', first)}${REVIEW_INSERTED}`;
}
