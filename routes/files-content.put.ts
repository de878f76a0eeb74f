import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../src/errors.ts';
import { PutFileQuery } from '../src/protocol/http.ts';
import { describeProblems, expectation } from '../src/protocol/problems.ts';
import { checkConditions, pathInAddress } from './files-path.ts';

export interface StoredFile {
  readonly path: string;
  readonly size: number;
  readonly mtime: Date;
  readonly etag: string;
}

export interface PutRequest {
  readonly path: string;
  readonly mode?: number | undefined;
  readonly check: (current: StoredFile | undefined) => void;
}

export type FileStorer = (
  request: PutRequest,
  content: AsyncIterable<Uint8Array>,
) => Promise<{ readonly info: StoredFile; readonly isNew: boolean }>;

/** `PUT /files/{path}`: the body, of any type and size, becomes the file; readers see the old or the new one, whole. */
export function putFileRoute(store: FileStorer) {
  return (app: FastifyInstance): void => {
    app.register((scope, _options, done) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser('*', (_request, _payload, parsed) => parsed(null));
      scope.put('/files/*', (request, reply) => putFile(request, reply, store));
      done();
    });
  };
}

async function putFile(request: FastifyRequest, reply: FastifyReply, store: FileStorer): Promise<FastifyReply> {
  const query = PutFileQuery.safeParse(request.query, { error: expectation() });
  if (!query.success) throw AppError.invalidBody(describeProblems('query', query.error.issues).join('\n'));
  const check = (current: StoredFile | undefined): void => checkConditions(request, current);
  const { info, isNew } = await store(
    { path: pathInAddress(request), mode: query.data.mode, check },
    // A store that fails must not take the connection along: the answer is owed.
    request.raw.iterator({ destroyOnReturn: false }),
  );
  const { path, size, etag } = info;
  return reply
    .code(isNew ? 201 : 200)
    .header('etag', etag)
    .send({ path, size, etag });
}
