import type { FileAccess } from '../../src/sandbox/file-access.ts';
import type { SearchFilesLine, SearchFilesRequest } from '../../src/protocol/http.ts';
import { codeOf, fault } from '../../src/sandbox/file-faults.ts';
import type { Found } from './found.ts';
import { searchWithRipgrep } from './search-ripgrep.ts';
import { httpError } from './serve.ts';

export interface SearchOptions {
  readonly access: FileAccess;
  /** Of the programs that are started. */
  readonly env: Readonly<Record<string, string>>;
}

/** A search that takes longer answers what it has found. */
const SEARCH_LIMIT_MS = 60_000;

/**
 * Files by name and content; the last line says whether that is all. With ripgrep, which leaves out what .gitignore names; without
 * it more slowly and without regular expressions. Stops when nobody takes the next line.
 * @throws AppError when the directory cannot be searched
 */
export async function searchFiles(
  { access, env }: SearchOptions,
  request: SearchFilesRequest,
): Promise<AsyncGenerator<SearchFilesLine>> {
  const root = await checkedRoot(access, request.path);
  const signal = AbortSignal.timeout(SEARCH_LIMIT_MS);
  return bounded(() => search({ access, env }, root, request, signal), request.limit, signal);
}

async function checkedRoot(access: FileAccess, path: string): Promise<string> {
  try {
    if (!path.startsWith('/')) throw fault('ENOENT', path);
    await using pin = await access.pin(path);
    if (!pin.stats.isDirectory()) throw fault('ENOTDIR', path);
    access.require(pin, 'read', path);
    return pin.path;
  } catch (error) {
    throw httpError(error, path);
  }
}

async function* search(
  { access, env }: SearchOptions,
  root: string,
  request: SearchFilesRequest,
  signal: AbortSignal,
): AsyncGenerator<Found> {
  try {
    // Checked again, and held: what has taken its place meanwhile is not searched.
    await using held = await access.pin(root);
    yield* searchWithRipgrep({ root: held, request, env, identity: access.identity, signal });
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    const { searchByWalking } = await import('./search-walk.ts');
    yield* searchByWalking({ access, root, request, signal });
  }
}

async function* bounded(
  start: () => AsyncGenerator<Found>,
  limit: number,
  signal: AbortSignal,
): AsyncGenerator<SearchFilesLine> {
  let count = 0;
  try {
    for await (const found of start()) {
      if (count === limit) return yield { done: true, truncated: true };
      yield found;
      count += 1;
    }
    yield { done: true, truncated: signal.aborted };
  } catch (error) {
    yield { done: true, truncated: true, error: signal.aborted ? 'The time for a search is over.' : messageOf(error) };
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
