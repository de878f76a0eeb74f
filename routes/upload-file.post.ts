import type { FastifyInstance, FastifyRequest } from 'fastify';
import { AppError } from '../src/errors.ts';
import { UploadFileQuery, type UploadFileReply } from '../src/protocol/http.ts';
import { describeProblems, expectation } from '../src/protocol/problems.ts';
import { openMultipartFile } from './multipart-file.ts';

export interface UploadRequest {
  readonly destination: string;
  readonly isRecursive: boolean;
  readonly filename: string;
}

/** Takes a file that comes in pieces; throws what to answer. */
export type UploadReceiver = (request: UploadRequest, content: AsyncIterable<Uint8Array>) => Promise<void>;

/** `POST /upload_file`: one file to a directory, or a zip archive unpacked there (V0 §2.5). Of any size; `bodyLimit` does not apply. */
export function uploadFileRoute(receive: UploadReceiver) {
  return (app: FastifyInstance): void => {
    app.register((scope, _options, done) => {
      scope.addContentTypeParser('multipart/form-data', (_request, _payload, parsed) => parsed(null));
      scope.post('/upload_file', (request) => uploadFile(request, receive));
      done();
    });
  };
}

async function uploadFile(request: FastifyRequest, receive: UploadReceiver): Promise<UploadFileReply> {
  const { destination, recursive } = parseQuery(request.query);
  const { filename, content, discard } = await openMultipartFile(request.raw, 'file');
  try {
    await receive({ destination, isRecursive: recursive, filename }, content);
  } finally {
    discard();
  }
  return { filename, destination, recursive };
}

function parseQuery(query: unknown): UploadFileQuery {
  const result = UploadFileQuery.safeParse(query, { error: expectation() });
  if (result.success) return result.data;
  throw AppError.invalidBody(describeProblems('query', result.error.issues).join('\n'));
}
