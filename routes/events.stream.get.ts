import type { Server } from 'node:http';
import websocket from '@fastify/websocket';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { WebSocket } from 'ws';
import { AppError } from '../src/errors.ts';
import { keyInQuery, parseStreamQuery } from './events.query.ts';
import type { EventStreams } from './events.stream.peers.ts';
import { SsePeer } from './events.stream.sse.ts';
import { WebSocketUpgrades } from './events.stream.upgrade.ts';
import { SocketPeer } from './events.stream.ws.ts';

/** A client has nothing to say but its key. */
const MAX_MESSAGE_BYTES = 64 * 1024;

/** `GET /events/stream`: the log as it grows, over a WebSocket or as Server-Sent Events (DESIGN §4). */
export function eventStreamRoute(streams: EventStreams) {
  return (app: FastifyInstance): void => {
    const upgrades = new WebSocketUpgrades(app.server);
    void app.register(websocket, {
      options: {
        // An emitter of upgrades is all that is used of it.
        server: upgrades as unknown as Server,
        maxPayload: MAX_MESSAGE_BYTES,
        perMessageDeflate: false,
        // The library ends a connection without a word when many pings come at once.
        autoPong: false,
        closeTimeout: streams.options.closeLimitMs,
      } as object,
      // ws has sent its close code already when it reports what a client did wrong.
      errorHandler: () => {},
      preClose: async () => {
        upgrades.stop();
        await streams.closeAll();
      },
    });
    // The plugin does this only for requests that were let in.
    app.addHook('onResponse', ({ raw }, _reply, done) => {
      if (upgrades.has(raw)) raw.socket.destroySoon();
      done();
    });
    void app.register((scope, _options, done) => {
      scope.route({
        method: 'GET',
        url: '/events/stream',
        exposeHeadRoute: false,
        preValidation: (request, _reply, next) => {
          checkBeforeUpgrade(request, streams);
          next();
        },
        handler: (request, reply) => serveHttp(request, reply, streams),
        wsHandler: (socket, request) => serveSocket(socket, request, streams),
      });
      done();
    });
  };
}

/** What is wrong with the request itself is said in HTTP; a key may still come in the first frame. */
function checkBeforeUpgrade(request: FastifyRequest, { isClosing }: EventStreams): void {
  if (!request.ws) return;
  if (isClosing) throw new AppError('SHUTTING_DOWN');
  parseStreamQuery(request.query);
}

function serveSocket(socket: WebSocket, request: FastifyRequest, streams: EventStreams): void {
  new SocketPeer(socket, request, streams, parseStreamQuery(request.query)).start(request);
}

function serveHttp(request: FastifyRequest, reply: FastifyReply, streams: EventStreams): FastifyReply {
  const { headers, query } = request;
  if (!streams.options.guard.hasValidKey(headers, keyInQuery(query))) throw new AppError('AUTH_INVALID_KEY');
  const isEventSource = /\btext\/event-stream\b/i.test(headers.accept ?? '');
  if (!isEventSource) {
    void reply.headers({ upgrade: 'websocket', connection: 'upgrade' });
    throw new AppError('UPGRADE_REQUIRED');
  }
  const subscription = parseStreamQuery(query, lastEventId(headers['last-event-id']));
  if (streams.isClosing) throw new AppError('SHUTTING_DOWN');
  if (streams.isFull) throw new AppError('TOO_MANY_SUBSCRIBERS');
  void reply.hijack();
  new SsePeer(reply, streams, subscription).start();
  return reply;
}

/** An EventSource that has not got an id yet sends none, or an empty one. */
function lastEventId(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && header !== '' ? header : undefined;
}
