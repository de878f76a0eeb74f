// A thread of its own for pdf.js, because it replaces built-in functions of the thread that it runs in with slow ones.

import { parentPort, workerData } from 'node:worker_threads';

/** pdf.js says only what is an error. */
const QUIET = 0;

/** What browsers have, and pdf.js makes at its start; only drawing uses them. */
for (const name of ['DOMMatrix', 'ImageData', 'Path2D']) globalThis[name] ??= Object;

async function textOf({ bytes, library, maxPages }) {
  const { getDocument, GlobalWorkerOptions } = await import(library);
  GlobalWorkerOptions.workerSrc = library.replace(/pdf\.min\.mjs$/, 'pdf.worker.min.mjs');
  const document = await getDocument({
    data: bytes,
    verbosity: QUIET,
    isEvalSupported: false,
    disableFontFace: true,
    useSystemFonts: false,
  }).promise;
  const pages = [];
  for (let number = 1; number <= Math.min(document.numPages, maxPages); number += 1) {
    const { items } = await (await document.getPage(number)).getTextContent();
    pages.push(items.map((item) => ('str' in item ? item.str + (item.hasEOL ? '\n' : '') : '')).join(''));
  }
  return pages.join('\n\n').trim();
}

async function answer() {
  try {
    return { text: await textOf(workerData) };
  } catch (error) {
    return { fault: error instanceof Error ? error.message : String(error) };
  }
}

parentPort.postMessage(await answer(), []);
