import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Worker } from 'node:worker_threads';
import { pdfjsDirectory } from '../../src/util/pdfjs.ts';

/** Pages that are looked at. */
const MAX_PAGES = 500;

/** How long one may take, in ms; 500 dense pages are read in a fifth of it. */
const MAX_PDF_MS = 30_000;

/** What its objects may take in memory, in MiB. */
const MAX_HEAP_MIB = 256;

/** By how much the server may grow meanwhile, in bytes: what pages unpack to is outside the heap. */
const MAX_GROWTH_BYTES = 768 * 1024 * 1024;
const LOOK_EVERY_MS = 50;

/** Beside the sources, or where the build puts assets: beside the bundle, or above its chunks. */
const PLACES = ['.', 'executors/files', '../executors/files'];

type Answer = { readonly text: string } | { readonly fault: string };

/**
 * The text of a PDF, page by page, read in a thread of its own: pdf.js replaces `JSON.parse`, `Array.prototype.push` and others by
 * slow ones wherever it is loaded, and a hostile file must not hold up the server.
 * @throws Error that says what is wrong with it
 */
export async function pdfToText(bytes: Buffer): Promise<string> {
  const pdfjs = pdfjsDirectory();
  const source = PLACES.map((place) => join(import.meta.dirname, place, 'pdf-worker.mjs')).find((path) =>
    existsSync(path),
  );
  if (pdfjs === undefined || source === undefined) throw new Error('this server has no reader of PDF files');
  const worker = new Worker(source, {
    workerData: {
      bytes: new Uint8Array(bytes),
      library: pathToFileURL(join(pdfjs, 'legacy/build/pdf.min.mjs')).href,
      maxPages: MAX_PAGES,
    },
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
    execArgv: [],
    env: {},
    stdout: true,
    stderr: true,
  });
  // It is told what is missing for drawing; nobody needs to know.
  worker.stdout.resume();
  worker.stderr.resume();
  try {
    const answer = await answerOf(worker);
    if ('fault' in answer) throw new Error(answer.fault);
    return answer.text;
  } finally {
    await worker.terminate();
  }
}

function answerOf(worker: Worker): Promise<Answer> {
  const before = process.memoryUsage.rss();
  return new Promise<Answer>((resolve, reject) => {
    const watch = setInterval(() => {
      if (process.memoryUsage.rss() - before > MAX_GROWTH_BYTES) reject(tooMuchMemory());
    }, LOOK_EVERY_MS);
    const limit = setTimeout(() => {
      reject(new Error(`the file takes more than ${MAX_PDF_MS / 1000} s to read`));
    }, MAX_PDF_MS);
    const stop = (): void => {
      clearInterval(watch);
      clearTimeout(limit);
    };
    worker.once('message', (answer: Answer) => resolve(answer));
    worker.once('error', (error: NodeJS.ErrnoException) => {
      reject(error.code === 'ERR_WORKER_OUT_OF_MEMORY' ? tooMuchMemory() : error);
    });
    // Also after `terminate`, which everything else leads to.
    worker.once('exit', (code) => {
      stop();
      reject(new Error(`the reader of PDF files ended with ${code}`));
    });
  });
}

function tooMuchMemory(): Error {
  return new Error('the file takes too much memory to read');
}
