import type { OutgoingHttpHeaders } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { AppError } from '../src/errors.ts';
import type { Guard } from '../src/guard.ts';
import { type WatchEvent, WatchFilesQuery } from '../src/protocol/http.ts';
import { describeProblems, expectation } from '../src/protocol/problems.ts';
import { keyInQuery } from './events.query.ts';
import { type Line, socketLine, streamLine, WatchOutlet } from './files-watch.outlet.ts';

export interface Watch {
  onEvent(listener: (event: WatchEvent) => void): void;
  close(): Promise<void>;
}

export type FileWatcher = (path: string) => Promise<Watch>;

/** Watches at a time; each takes a kernel watch for every directory below it. */
const MAX_WATCHES = 64;

/** `GET /files/watch`: changes below a directory over a WebSocket, a JSON text frame each, or as Server-Sent Events. */
export function watchFilesRoute(watch: FileWatcher, guard: Guard) {
  return (app: FastifyInstance): void => {
    const watches = new Watches(watch);
    app.addHook('preClose', (done) => {
      watches.end();
      done();
    });
    // After the plugin that knows about WebSockets.
    void app.register((scope, _options, done) => {
      scope.route({
        method: 'GET',
        url: '/files/watch',
        exposeHeadRoute: false,
        // Before a connection is made of it, so that what is wrong is said in HTTP.
        preValidation: (request) => begin(request, watches, guard),
        handler: (request, reply) => serveStream(request, reply, watches),
        wsHandler: (socket, request) => serveSocket(socket, request, watches),
      });
      done();
    });
  };
}

async function begin(request: FastifyRequest, watches: Watches, guard: Guard): Promise<void> {
  if (!guard.hasValidKey(request.headers, keyInQuery(request.query))) throw new AppError('AUTH_INVALID_KEY');
  const query = WatchFilesQuery.safeParse(request.query, { error: expectation() });
  if (!query.success) throw AppError.invalidBody(describeProblems('query', query.error.issues).join('\n'));
  await watches.begin(request, query.data.path);
}

function serveStream(request: FastifyRequest, reply: FastifyReply, watches: Watches): FastifyReply {
  void reply.hijack();
  watches.serve(request, streamLine(reply.raw, reply.getHeaders() as OutgoingHttpHeaders));
  return reply;
}

function serveSocket(socket: WebSocket, request: FastifyRequest, watches: Watches): void {
  watches.serve(request, socketLine(socket, request.raw.socket));
}

/** Those that are open; each goes with its connection. */
class Watches {
  readonly #start: FileWatcher;
  readonly #open = new Map<FastifyRequest, Watch>();
  readonly #lines = new Set<Line>();
  /** Also those that are being opened. */
  #count = 0;

  constructor(start: FileWatcher) {
    this.#start = start;
  }

  /** @throws AppError OVERLOADED, and why there is nothing to watch */
  async begin(request: FastifyRequest, path: string): Promise<void> {
    if (this.#count >= MAX_WATCHES)
      throw new AppError('OVERLOADED', `${MAX_WATCHES} watches are open already; close one and try again.`);
    this.#count += 1;
    try {
      const watch = await this.#start(path);
      this.#open.set(request, watch);
      const { socket } = request.raw;
      socket.once('close', () => this.#close(request, watch));
      if (socket.destroyed) this.#close(request, watch);
    } catch (error) {
      this.#count -= 1;
      throw error;
    }
  }

  serve(request: FastifyRequest, line: Line): void {
    const watch = this.#open.get(request);
    if (!watch) return line.end();
    this.#lines.add(line);
    line.onClose(() => {
      this.#lines.delete(line);
      this.#close(request, watch);
    });
    const outlet = new WatchOutlet(line);
    watch.onEvent((event) => outlet.send(event));
  }

  end(): void {
    for (const line of this.#lines) line.end();
  }

  #close(request: FastifyRequest, watch: Watch): void {
    if (!this.#open.delete(request)) return;
    this.#count -= 1;
    void watch.close();
  }
}
