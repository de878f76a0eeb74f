import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../src/errors.ts';
import { type WatchEvent, WatchFilesQuery } from '../src/protocol/http.ts';
import { describeProblems, expectation } from '../src/protocol/problems.ts';

export interface Watch {
  onEvent(listener: (event: WatchEvent) => void): void;
  close(): Promise<void>;
}

export type FileWatcher = (path: string) => Promise<Watch>;

/** What may wait for a client that reads slowly, in bytes; after that it gets `resync` in place of what it missed. */
const MAX_WAITING_BYTES = 1024 * 1024;

const PING_MS = 20_000;

/** `GET /files/watch`: changes below a directory as Server-Sent Events. */
export function watchFilesRoute(watch: FileWatcher) {
  return (app: FastifyInstance): void => {
    app.get('/files/watch', (request, reply) => watchFiles(request, reply, watch));
  };
}

async function watchFiles(request: FastifyRequest, reply: FastifyReply, start: FileWatcher): Promise<void> {
  const query = WatchFilesQuery.safeParse(request.query, { error: expectation() });
  if (!query.success) throw AppError.invalidBody(describeProblems('query', query.error.issues).join('\n'));
  const watch = await start(query.data.path);
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(200, {
    ...(reply.getHeaders() as OutgoingHttpHeaders),
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  });
  raw.flushHeaders();
  const ping = setInterval(() => raw.write(': ping\n\n'), PING_MS);
  raw.once('close', () => {
    clearInterval(ping);
    void watch.close();
  });
  if (raw.destroyed) raw.emit('close');
  const outlet = new Outlet(raw);
  watch.onEvent((event) => outlet.send(event));
}

/** Never lets more wait than the limit. */
class Outlet {
  readonly #response: ServerResponse;
  #isBehind = false;

  constructor(response: ServerResponse) {
    this.#response = response;
    response.on('drain', () => this.#catchUp());
  }

  send(event: WatchEvent): void {
    if (this.#isBehind) return;
    this.#isBehind = this.#response.writableLength > MAX_WAITING_BYTES;
    if (!this.#isBehind) this.#write(event);
  }

  #catchUp(): void {
    if (!this.#isBehind) return;
    this.#isBehind = false;
    this.#write({ kind: 'resync', reason: 'Changes were dropped because they were not read in time; look again.' });
  }

  #write(event: WatchEvent): void {
    this.#response.write(`event: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`);
  }
}
