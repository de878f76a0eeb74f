import type { FastifyInstance } from 'fastify';
import { AppError } from '../src/errors.ts';

/** Names in a directory; `[]` when it cannot be listed. */
export type DirectoryLister = (path: string | undefined) => Promise<string[]>;

/** `POST /list_files`: a JSON array of names (V0 §2.7). */
export function listFilesRoute(list: DirectoryLister) {
  return (app: FastifyInstance): void => {
    app.post('/list_files', async ({ body }, reply) => reply.send(await list(pathOf(body))));
  };
}

function pathOf(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw AppError.invalidBody('body: expected an object {} or {"path": "..."}.');
  const path = 'path' in body ? body.path : undefined;
  if (path === undefined || path === null) return undefined;
  if (typeof path !== 'string') throw AppError.invalidBody('body.path: expected a string or null.');
  return path;
}
