import type { FastifyInstance } from 'fastify';
import type { ReadyReply } from '../src/protocol/http.ts';

/** `GET /ready`: every subsystem's state; 503 while one that is needed is not ready. */
export function readyRoute(readiness: () => ReadyReply) {
  return (app: FastifyInstance): void => {
    app.get('/ready', (_request, reply) => {
      const body = readiness();
      return reply.code(body.status === 'ready' ? 200 : 503).send(body);
    });
  };
}
