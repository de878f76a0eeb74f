/** Pages of the file viewer (V0 §2.11). Everything that comes from outside is escaped. */

/** CSS pixels for each point of a PDF (V0 §2.11). */
const PDF_SCALE = 1.5;

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ESCAPES[character] ?? character);
}

export function errorPage(heading: string, ...lines: readonly string[]): string {
  const paragraphs = lines.map((line) => `<p>${escapeHtml(line)}</p>`).join('');
  return `<h1>${escapeHtml(heading)}</h1>${paragraphs}`;
}

export function imagePage(name: string, type: string, bytes: Buffer): string {
  const source = `data:${type};base64,${bytes.toString('base64')}`;
  return page(name, `<img src="${source}" alt="${escapeHtml(name)}">`);
}

/** One canvas for each page of the document, drawn by the pdf.js that this server has. */
export function pdfPage(name: string, bytes: Buffer): string {
  return page(
    name,
    `<div id="viewer-container" aria-busy="true"></div>
<script id="document" type="text/plain">${bytes.toString('base64')}</script>
<script type="module">
import { getDocument, GlobalWorkerOptions } from '/pdfjs/legacy/build/pdf.min.mjs';
GlobalWorkerOptions.workerSrc = '/pdfjs/legacy/build/pdf.worker.min.mjs';
const container = document.getElementById('viewer-container');
try {
  const text = atob(document.getElementById('document').textContent);
  const pdf = await getDocument({
    data: Uint8Array.from(text, (character) => character.charCodeAt(0)),
    cMapUrl: '/pdfjs/cmaps/', cMapPacked: true, standardFontDataUrl: '/pdfjs/standard_fonts/',
    wasmUrl: '/pdfjs/wasm/', iccUrl: '/pdfjs/iccs/', isEvalSupported: false,
  }).promise;
  for (let number = 1; number <= pdf.numPages; number += 1) {
    const page = await pdf.getPage(number);
    const viewport = page.getViewport({ scale: ${PDF_SCALE} });
    const canvas = document.createElement('canvas');
    canvas.className = 'page';
    // With a name it is in the accessibility tree, where agents look for it.
    canvas.setAttribute('aria-label', 'Page ' + number + ' of ' + pdf.numPages);
    canvas.width = viewport.width;
    canvas.height = viewport.height;
    container.append(canvas);
    await page.render({ canvasContext: canvas.getContext('2d'), canvas, viewport }).promise;
    // The first page is what there is to see.
    container.removeAttribute('aria-busy');
  }
} catch (error) {
  container.textContent = 'The PDF cannot be shown: ' + error.message;
}
container.removeAttribute('aria-busy');
</script>`,
  );
}

function page(name: string, body: string): string {
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>File Viewer - ${escapeHtml(name)}</title>
<style>
body { margin: 0; background: #eee; text-align: center; }
img, .page { display: block; max-width: 100%; margin: 8px auto; background: #fff; box-shadow: 0 1px 4px #0004; }
</style>
</head>
<body>
${body}
</body>
</html>
`;
}
