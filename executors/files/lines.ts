/** A line with its end, by Python's universal newlines: LF, CR LF or CR (V0 §7.2). */
const LINE = /[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+$/g;
const FOREIGN_END = /\r\n?/g;
const ANY_END = /\r\n?|\n/;

/** Lines with their ends; the last one may have none. */
export function splitLines(text: string): string[] {
  return text.match(LINE) ?? [];
}

/** All line ends as LF. */
export function withPlainEnds(text: string): string {
  return text.includes('\r') ? text.replaceAll(FOREIGN_END, '\n') : text;
}

/** How many lines there are; an unfinished last one counts. */
export function countLines(plainText: string): number {
  const ends = countEnds(plainText, 0, plainText.length);
  return plainText === '' || plainText.endsWith('\n') ? ends : ends + 1;
}

/** LFs from `start` up to `end`. */
export function countEnds(text: string, start: number, end: number): number {
  let count = 0;
  for (let at = text.indexOf('\n', start); at >= 0 && at < end; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}

/** Lines `first` to `last`, from 1, with their ends, of a text with plain ends. */
export function linesBetween(plainText: string, first: number, last: number): string {
  const start = startOfLine(plainText, first);
  const end = start + startOfLine(plainText.slice(start), last - first + 2);
  return plainText.slice(start, end);
}

/** Where a line begins, from 1; the end of the text when there is none. */
export function startOfLine(plainText: string, line: number): number {
  let start = 0;
  for (let current = 1; current < line; current += 1) {
    const end = plainText.indexOf('\n', start);
    if (end < 0) return plainText.length;
    start = end + 1;
  }
  return start;
}

/** Behind so many lines of a text with any line ends; the end of the text when it has fewer. */
export function endOfRawLine(text: string, lines: number): number {
  const ends = new RegExp(ANY_END, 'g');
  for (let count = 0; count < lines; count += 1) if (!ends.test(text)) return text.length;
  return ends.lastIndex;
}

/** What `text` puts into a file at `offset` of `content`: bare LFs become CR LF where the lines around end so. */
export function withEndsOf(content: string, offset: number, text: string): string {
  if (!text.includes('\n') || !content.includes('\r\n')) return text;
  const after = content.indexOf('\n', offset);
  const end = after >= 0 ? after : content.lastIndexOf('\n');
  return content[end - 1] === '\r' ? text.replaceAll(/(?<!\r)\n/g, '\r\n') : text;
}

/**
 * The range of lines that V0's `read` answers (V0 §7.3), from 0, end exclusive, exact at the end of the file too.
 * @param end -1: all the rest
 */
export function lineRange(start: number, end: number): { first: number; last: number } {
  const first = Math.max(0, start);
  return { first, last: end === -1 ? Infinity : Math.max(first + 1, end) };
}
