import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';
import { AppError } from '../src/errors.ts';

export interface MultipartFile {
  /** Last name of what the client sent; never empty, `.` or `..`, and without slashes. */
  readonly filename: string;
  /** Throws when the body breaks off; ends when all of the body has come. */
  readonly content: AsyncIterable<Uint8Array>;
}

/** Beside the file; nobody needs them, and they must not fill the memory. */
const FORM_LIMITS = { fields: 100, fieldSize: 64 * 1024, parts: 200, headerPairs: 100 };

/**
 * The file of a multipart form, as it comes.
 * @param name of the part
 * @throws AppError BODY_INVALID when the body is no such form, or has no such part
 */
export async function openMultipartFile(request: IncomingMessage, name: string): Promise<MultipartFile> {
  const contentType = request.headers['content-type'] ?? '';
  if (!/^multipart\/form-data\b/i.test(contentType))
    throw AppError.invalidBody('body: expected multipart/form-data with a part "file" that has a filename.');
  const { default: busboy } = await import('@fastify/busboy');
  const form = new busboy.Busboy({
    headers: { ...request.headers, 'content-type': contentType },
    preservePath: true,
    limits: FORM_LIMITS,
  });
  const file = new Promise<{ stream: Readable; given: string }>((resolve) => {
    form.on('file', (field, stream, given) => {
      if (field === name) resolve({ stream, given });
      else stream.resume();
    });
  });
  // A form that breaks must not take the connection along: the answer is owed.
  const ended = pipeline(request.iterator({ destroyOnReturn: false }), form);
  const found = await Promise.race([file, ended.then(() => undefined, badForm)]);
  if (!found) throw AppError.invalidBody(`body.${name}: expected a part with this name and a filename.`);
  return { filename: fileNameOf(found.given, name), content: contentOf(found.stream, ended) };
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
