/** The editor's answers, word for word (V0 §7.5). */
import { MAX_EDIT_BYTES, MAX_SNIPPET_CODE_POINTS } from './limits.ts';

/** What the agent did wrong; the answer is `ERROR:` and this text. */
export class EditorError extends Error {
  override readonly name = 'EditorError';
}

export const TEXT_NOTICE =
  '<response clipped><NOTE>Due to the max output limit, only part of this file has been shown to you. You should retry this tool after you have searched inside the file with `grep -n` in order to find the line numbers of what you are looking for.</NOTE>';
export const MARKDOWN_NOTICE =
  '<response clipped><NOTE>Due to the max output limit, only part of this file has been shown to you. Please use Python libraries to view the entire file or search for specific content within the file.</NOTE>';
export const DIRECTORY_NOTICE =
  '<response clipped><NOTE>Due to the max output limit, only part of this directory has been shown to you. You should use `ls -la` instead to view large directories incrementally.</NOTE>';
const NOTICES = [TEXT_NOTICE, MARKDOWN_NOTICE, DIRECTORY_NOTICE];

const REVIEW = 'Review the changes and make sure they are as expected';
export const REVIEW_REPLACED = `${REVIEW}. Edit the file again if necessary.`;
export const REVIEW_INSERTED = `${REVIEW} (correct indentation, no duplicate lines, etc). Edit the file again if necessary.`;

export const BINARY_REASON = 'File appears to be binary and this file type cannot be read or edited by this tool.';

/** Lines shown before and after a change. */
export const CONTEXT_LINES = 4;

const NUMBER_WIDTH = 6;
const MIB = 1024 * 1024;

export function invalidParameter(name: string, value: string, hint: string): EditorError {
  return new EditorError(`Invalid \`${name}\` parameter: ${value}. ${hint}`);
}

export function missingParameter(name: string, command: string): EditorError {
  return new EditorError(`Parameter \`${name}\` is required for command: ${command}.`);
}

export function failedValidation(path: string, reason: string): EditorError {
  return new EditorError(`File validation failed for ${path}: ${reason}`);
}

export function tooLargeReason(bytes: number): string {
  return `File is too large (${(bytes / MIB).toFixed(1)}MB). Maximum allowed size is ${MAX_EDIT_BYTES / MIB}MB.`;
}

/** As `cat -n` prints it. @param firstLine number of the first line */
export function numberedOutput(snippet: string, what: string, firstLine = 1): string {
  const numbered = clip(snippet, TEXT_NOTICE)
    .split('\n')
    .map((line, index) => `${String(firstLine + index).padStart(NUMBER_WIDTH)}\t${line}`);
  return `Here's the result of running \`cat -n\` on ${what}:\n${numbered.join('\n')}\n`;
}

export function markdownOutput(markdown: string, path: string): string {
  return `Here's the content of the file ${path} displayed in Markdown format:\n${clip(markdown, MARKDOWN_NOTICE)}\n`;
}

/** The first 16 000 code points, with a notice that they are not all. */
export function clip(text: string, notice: string): string {
  if (text.length <= MAX_SNIPPET_CODE_POINTS) return text;
  let end = 0;
  for (let passed = 0; passed < MAX_SNIPPET_CODE_POINTS && end < text.length; passed += 1)
    end += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
  return end >= text.length ? text : text.slice(0, end) + notice;
}

/** Takes secrets out of what stands before the notice of a cut: one may have been cut in two. */
export function maskBeforeNotice(output: string, mask: (text: string, isCut: boolean) => string): string {
  const at = NOTICES.map((notice) => output.lastIndexOf(notice)).find((found) => found >= 0);
  return at === undefined ? output : mask(output.slice(0, at), true) + output.slice(at);
}

/** A list as Python prints it. */
export function pythonList(items: readonly number[]): string {
  return `[${items.join(', ')}]`;
}

/** A path as Python's `Path` spells it: no doubled slashes, no `.` parts, no slash at the end. */
export function pythonPath(path: string): string {
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  const root = path.startsWith('/') ? (/^\/\/(?!\/)/.test(path) ? '//' : '/') : '';
  return root + parts.join('/') || '.';
}
