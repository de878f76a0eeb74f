import type { PDFDocumentProxy } from 'pdfjs-dist/legacy/build/pdf.mjs';

/** Says only what is an error. */
const QUIET = 0;

/** Opens a PDF for its text. To be given back with `loadingTask.destroy()`. */
export async function openPdf(bytes: Buffer): Promise<PDFDocumentProxy> {
  // Found there, the worker runs in this thread; else pdf.js would look for a file beside itself.
  // @ts-expect-error -- the package has no types for its worker
  const worker: unknown = await import('pdfjs-dist/legacy/build/pdf.worker.mjs');
  Object.assign(globalThis, { pdfjsWorker: worker });
  const { getDocument } = await import('pdfjs-dist/legacy/build/pdf.mjs');
  return getDocument({
    data: new Uint8Array(bytes),
    verbosity: QUIET,
    isEvalSupported: false,
    disableFontFace: true,
    useSystemFonts: false,
  }).promise;
}
