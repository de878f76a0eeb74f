/** Stands where the text of a frame belongs, with the id of its element between. */
export declare const FRAME_MARK = '\uE000';
/**
 * The document as text, in the form of html2text without line wrapping (V0 §8.4): headings, lists, links, tables, code; images by their
 * alternative text. Runs inside the page, in a world of its own.
 */
export declare function pageText({
  maxChars,
  frameMark,
}: {
  readonly maxChars: number;
  readonly frameMark: string;
}): string;
