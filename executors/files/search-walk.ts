import { readdir } from 'node:fs/promises';
import type { SearchFilesRequest } from '../../src/protocol/http.ts';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import type { Pin } from '../../src/sandbox/pin.ts';
import { isBinary } from './binary.ts';
import { MAX_EDIT_BYTES, SNIFF_BYTES } from './limits.ts';
import type { Found } from './found.ts';
import { readBytes } from './text-file.ts';

export interface WalkSearch {
  readonly access: FileAccess;
  readonly root: string;
  readonly request: SearchFilesRequest;
  readonly signal: AbortSignal;
}

const MAX_COLUMNS = 1000;
/** Of a glob: with more, matching a single long name can take longer than anybody waits. */
const MAX_STARS = 6;
const MAX_STARS_IN_NAME = 3;

/** Where there is no ripgrep. @throws Error for what could keep this process busy for ever: a regular expression, many stars */
export async function* searchByWalking(search: WalkSearch): AsyncGenerator<Found> {
  const { access, root, request } = search;
  if (request.regex && request.pattern !== undefined)
    throw new Error('Regular expressions need ripgrep (rg), which is not installed. Use plain text.');
  const isWanted = await globMatcher(request);
  const pin = await access.pin(root);
  try {
    yield* below(search, pin, '', isWanted);
  } finally {
    await pin.close();
  }
}

async function* below(
  search: WalkSearch,
  directory: Pin,
  prefix: string,
  isWanted: (name: string) => boolean,
): AsyncGenerator<Found> {
  const { access, root, request, signal } = search;
  if (!access.allows(directory.stats, 'read')) return;
  for (const entry of await readdir(directory.link, { withFileTypes: true }).catch(() => [])) {
    signal.throwIfAborted();
    if (!request.hidden && entry.name.startsWith('.')) continue;
    const name = prefix + entry.name;
    if (!entry.isDirectory() && !(entry.isFile() && isWanted(name))) continue;
    const path = root === '/' ? `/${name}` : `${root}/${name}`;
    const pin = await access.pinChild(directory, entry.name, path).catch(() => undefined);
    if (!pin) continue;
    try {
      if (entry.isDirectory()) yield* below(search, pin, `${name}/`, isWanted);
      else if (request.pattern === undefined) yield { path };
      else yield* matchingLines(access, pin, path, request);
    } finally {
      await pin.close();
    }
  }
}

async function* matchingLines(
  access: FileAccess,
  pin: Pin,
  path: string,
  { pattern = '', ignore_case }: SearchFilesRequest,
): AsyncGenerator<Found> {
  const bytes = await readBytes(access, pin, path, MAX_EDIT_BYTES).catch(() => undefined);
  if (!bytes || (await isBinary(path, bytes.subarray(0, SNIFF_BYTES)))) return;
  const wanted = ignore_case ? pattern.toLowerCase() : pattern;
  let line = 0;
  for (const text of bytes.toString('utf8').split(/\r?\n/)) {
    line += 1;
    if ((ignore_case ? text.toLowerCase() : text).includes(wanted))
      yield { path, line, text: text.slice(0, MAX_COLUMNS) };
  }
}

/** As ripgrep takes globs: without a slash they are about the last name, with a leading `!` they leave out. */
async function globMatcher({ glob, hidden }: SearchFilesRequest): Promise<(name: string) => boolean> {
  const { default: picomatch } = await import('picomatch');
  for (const text of glob) {
    const names = text.split('/').map((name) => name.split(/\*+|\+\(/).length - 1);
    if (Math.max(...names) > MAX_STARS_IN_NAME || names.reduce((sum, stars) => sum + stars) > MAX_STARS)
      throw new Error(
        `A glob with more than ${MAX_STARS_IN_NAME} stars in a name, or ${MAX_STARS} in all, needs ripgrep (rg), which is not installed.`,
      );
  }
  const compile = (text: string): ((name: string) => boolean) =>
    picomatch(text.replace(/^\//, ''), { dot: hidden, basename: !text.includes('/') });
  const wanted = glob.filter((text) => !text.startsWith('!')).map(compile);
  const unwanted = glob.filter((text) => text.startsWith('!')).map((text) => compile(text.slice(1)));
  return (name) =>
    (wanted.length === 0 || wanted.some((matches) => matches(name))) && !unwanted.some((matches) => matches(name));
}
