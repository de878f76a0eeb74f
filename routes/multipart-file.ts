import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';
import type { BusboyInstance } from '@fastify/busboy';
import { AppError } from '../src/errors.ts';

export interface MultipartFile {
  /** Last name of what the client sent; never empty, `.` or `..`, and without slashes. */
  readonly filename: string;
  /** Throws when the body breaks off; ends when all of the body has come. */
  readonly content: AsyncIterable<Uint8Array>;
  /** Reads what is left of the body and forgets it; to be called when `content` is not read to its end. */
  readonly discard: () => void;
}

/** Beside the file; nobody needs them, and they must not fill the memory. */
const FORM_LIMITS = { fields: 100, fieldSize: 64 * 1024, parts: 200, headerPairs: 100 };

/**
 * The file of a multipart form, as it comes.
 * @param name of the part
 * @throws AppError BODY_INVALID when the body is no such form, or has no such part; `content` also when there are several
 */
export async function openMultipartFile(request: IncomingMessage, name: string): Promise<MultipartFile> {
  const form = await openForm(request);
  let count = 0;
  const file = new Promise<{ stream: Readable; given: string }>((resolve) => {
    form.on('file', (field, stream, given) => {
      // A part that breaks off says so at any time, also when nobody reads it; `ended` tells whoever does.
      stream.on('error', () => {});
      if (field === name) count += 1;
      // What nobody reads would hold up the rest of the body.
      if (field === name && count === 1) resolve({ stream, given });
      else stream.resume();
    });
  });
  const ended = pipeline(request, form).then(() => {
    if (count > 1) throw new Error(`expected one part "${name}", got ${count}. Send one request for each file.`);
  });
  // The rest of the body is read in any case: a client that is still sending would wait for ever, and not see the answer.
  const discard = (): void => {
    request.unpipe(form);
    request.resume();
  };
  try {
    const found = await Promise.race([file, ended.then(() => undefined, badForm)]);
    if (!found) throw AppError.invalidBody(`body.${name}: expected a part with this name and a filename.`);
    return { filename: fileNameOf(found.given, name), content: contentOf(found.stream, ended), discard };
  } catch (error) {
    discard();
    throw error;
  }
}

/** @throws AppError BODY_INVALID for another content type, or one without a boundary */
async function openForm(request: IncomingMessage): Promise<BusboyInstance> {
  const contentType = request.headers['content-type'] ?? '';
  if (!/^multipart\/form-data\b/i.test(contentType))
    throw AppError.invalidBody('body: expected multipart/form-data with a part "file" that has a filename.');
  const { default: busboy } = await import('@fastify/busboy');
  try {
    return new busboy.Busboy({
      headers: { ...request.headers, 'content-type': contentType },
      preservePath: true,
      limits: FORM_LIMITS,
    });
  } catch (error) {
    return badForm(error);
  }
}

function badForm(error: unknown): never {
  throw AppError.invalidBody(`body: ${error instanceof Error ? error.message : String(error)}`);
}

async function* contentOf(stream: Readable, ended: Promise<void>): AsyncGenerator<Uint8Array> {
  // A form that breaks off does not end the streams of its parts.
  ended.catch((error: Error) => stream.destroy(error));
  try {
    for await (const chunk of stream) yield chunk as Uint8Array;
    await finished(stream);
    await ended;
  } catch (error) {
    throw AppError.invalidBody(`body: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    stream.resume();
  }
}

/** Browsers and libraries send quotes and line ends in names as `%22`, `%0D` and `%0A`. */
const ESCAPES: readonly (readonly [string, string])[] = [
  ['%22', '"'],
  ['%0D', '\r'],
  ['%0A', '\n'],
];

function fileNameOf(given: string, part: string): string {
  const whole = ESCAPES.reduce((text, [escape, character]) => text.replaceAll(escape, character), given);
  const name = whole.slice(whole.lastIndexOf('/') + 1);
  if (name === '' || name === '.' || name === '..' || name.includes('\0'))
    throw AppError.invalidBody(`body.${part}: expected a filename, got ${JSON.stringify(whole)}.`);
  return name;
}
