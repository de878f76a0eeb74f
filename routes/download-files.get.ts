import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../src/errors.ts';
import { DownloadFilesQuery } from '../src/protocol/http.ts';
import { describeProblems, expectation } from '../src/protocol/problems.ts';
import { attachment } from './content-disposition.ts';

/** Opens a file or directory as a zip archive; throws what to answer. */
export type DownloadOpener = (path: string) => Promise<{ readonly name: string; readonly stream: Readable }>;

/** `GET /download_files`: a zip archive that is made while it is sent (V0 §2.6). */
export function downloadFilesRoute(open: DownloadOpener) {
  return (app: FastifyInstance): void => {
    app.get('/download_files', (request, reply) => downloadFiles(request, reply, open));
  };
}

async function downloadFiles(
  request: FastifyRequest,
  reply: FastifyReply,
  open: DownloadOpener,
): Promise<FastifyReply> {
  const result = DownloadFilesQuery.safeParse(request.query, { error: expectation() });
  if (!result.success) throw AppError.invalidBody(describeProblems('query', result.error.issues).join('\n'));
  const { name, stream } = await open(result.data.path);
  void reply.header('content-disposition', attachment(`${name || 'root'}.zip`)).type('application/zip');
  return reply.send(stream);
}
