import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { pdfjsDirectory } from '../../src/util/pdfjs.ts';
import { readInThread } from './reader-thread.ts';

/** Pages of a PDF that are looked at. */
const MAX_PAGES = 500;

/**
 * The text of an office file or PDF as Markdown.
 * @param extension lower case, with the dot
 * @throws Error that says what is wrong, or what this server has no means for
 */
export function toMarkdown(bytes: Buffer, extension: string, signal: AbortSignal): Promise<string> {
  switch (extension) {
    case '.docx':
    case '.xlsx':
    case '.pptx':
      return readInThread('office-worker.mjs', { bytes: new Uint8Array(bytes), extension }, signal);
    case '.pdf':
      return pdfToText(bytes, signal);
    default:
      return Promise.reject(new Error(`this server has no speech recognition for ${extension} files`));
  }
}

function pdfToText(bytes: Buffer, signal: AbortSignal): Promise<string> {
  const pdfjs = pdfjsDirectory();
  if (pdfjs === undefined) return Promise.reject(new Error('this server has no reader of PDF files'));
  const library = pathToFileURL(join(pdfjs, 'legacy/build/pdf.min.mjs')).href;
  return readInThread('pdf-worker.mjs', { bytes: new Uint8Array(bytes), library, maxPages: MAX_PAGES }, signal);
}
