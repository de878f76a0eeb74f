import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../src/errors.ts';
import { DeleteFileQuery } from '../src/protocol/http.ts';
import { describeProblems, expectation } from '../src/protocol/problems.ts';
import { checkConditions, pathInAddress } from './files-path.ts';

export interface DeleteOptions {
  readonly isRecursive: boolean;
  readonly check: (current: { readonly etag: string; readonly mtime: Date } | undefined) => void;
}

export type FileRemover = (path: string, options: DeleteOptions) => Promise<void>;

/** `DELETE /files/{path}`: removes a file, a link or an empty directory; with `recursive` any directory. */
export function deleteFileRoute(remove: FileRemover) {
  return (app: FastifyInstance): void => {
    app.delete('/files/*', (request, reply) => deleteFile(request, reply, remove));
  };
}

async function deleteFile(request: FastifyRequest, reply: FastifyReply, remove: FileRemover): Promise<FastifyReply> {
  const query = DeleteFileQuery.safeParse(request.query, { error: expectation() });
  if (!query.success) throw AppError.invalidBody(describeProblems('query', query.error.issues).join('\n'));
  const path = pathInAddress(request);
  await remove(path, {
    isRecursive: query.data.recursive,
    check: (current) => checkConditions(request, current),
  });
  return reply.send({ deleted: path });
}
