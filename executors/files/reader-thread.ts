import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { Slots } from '../../src/util/slots.ts';

/** How long a file may take, in ms; 500 dense pages of a PDF are read in a fifth of it. */
const MAX_READ_MS = 30_000;

/** What its objects may take in memory, in MiB. */
const MAX_HEAP_MIB = 384;

/** By how much the server may grow meanwhile, in bytes: what is unpacked is outside the heap. */
const MAX_GROWTH_BYTES = 768 * 1024 * 1024;
const LOOK_EVERY_MS = 50;

/** Beside the sources, or where the build puts assets: beside the bundle, or above its chunks. */
const PLACES = ['.', 'executors/files', '../executors/files'];

type Answer = { readonly text: string } | { readonly fault: string };

/** One file at a time: the growth of the server is that one's. */
const turns = new Slots(1);

/**
 * What a reader of documents makes of one, in a thread of its own: the libraries replace built-in functions of the thread that they run
 * in, or hold it for a minute and take gigabytes for a file of 1 MB.
 * @param script of this folder: posts `{ text }` or `{ fault }`
 * @throws Error that says what is wrong with the file
 */
export async function readInThread(script: string, workerData: object, signal: AbortSignal): Promise<string> {
  const source = PLACES.map((place) => join(import.meta.dirname, place, script)).find((path) => existsSync(path));
  if (source === undefined) throw new Error(`this server lacks its ${script}`);
  const giveBack = await turns.take(signal, MAX_READ_MS);
  if (signal.aborted) {
    giveBack?.();
    throw new Error('cancelled');
  }
  if (!giveBack) throw new Error(`other files have been read for ${MAX_READ_MS / 1000} s: try again`);
  try {
    const answer = await answerFrom(source, workerData, signal);
    if ('fault' in answer) throw new Error(answer.fault);
    return answer.text;
  } finally {
    giveBack();
  }
}

/** @throws also when there can be no more threads */
async function answerFrom(source: string, workerData: object, signal: AbortSignal): Promise<Answer> {
  const worker = new Worker(source, {
    workerData,
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
    execArgv: [],
    env: {},
    stdout: true,
    stderr: true,
  });
  // They tell what is missing for drawing, and the like; nobody needs to know.
  worker.stdout.resume();
  worker.stderr.resume();
  try {
    return await untilAborted(answerOf(worker), signal);
  } finally {
    await worker.terminate();
  }
}

/** The promise, or a rejection when the signal aborts. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('cancelled')), { once: true });
  });
  return Promise.race([promise, aborted]);
}

function answerOf(worker: Worker): Promise<Answer> {
  const before = process.memoryUsage.rss();
  return new Promise<Answer>((resolve, reject) => {
    const watch = setInterval(() => {
      if (process.memoryUsage.rss() - before > MAX_GROWTH_BYTES) reject(tooMuchMemory());
    }, LOOK_EVERY_MS);
    const limit = setTimeout(() => {
      reject(new Error(`the file takes more than ${MAX_READ_MS / 1000} s to read`));
    }, MAX_READ_MS);
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
      reject(new Error(`the reader of the file ended with ${code}`));
    });
  });
}

function tooMuchMemory(): Error {
  return new Error('the file takes too much memory to read');
}
