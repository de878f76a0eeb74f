import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../src/errors.ts';
import { type SearchFilesLine, SearchFilesRequest } from '../src/protocol/http.ts';
import { describeProblems, expectation } from '../src/protocol/problems.ts';

/** Starts a search, which stops when nobody takes the next line; throws what to answer. */
export type FileSearcher = (request: SearchFilesRequest) => Promise<AsyncGenerator<SearchFilesLine>>;

/** `POST /files/search`: files by name and content, one JSON object a line, as they are found. */
export function searchFilesRoute(search: FileSearcher) {
  return (app: FastifyInstance): void => {
    app.post('/files/search', (request, reply) => searchFiles(request, reply, search));
  };
}

async function searchFiles(request: FastifyRequest, reply: FastifyReply, search: FileSearcher): Promise<FastifyReply> {
  const body = SearchFilesRequest.safeParse(request.body, { error: expectation() });
  if (!body.success) throw AppError.invalidBody(describeProblems('body', body.error.issues).join('\n'));
  const lines = await search(body.data);
  return reply.type('application/x-ndjson; charset=utf-8').send(Readable.from(asText(lines), { objectMode: false }));
}

async function* asText(lines: AsyncGenerator<SearchFilesLine>): AsyncGenerator<string> {
  for await (const line of lines) yield `${JSON.stringify(line)}\n`;
}
