import type { FastifyInstance } from 'fastify';

/** `GET /alive`: 200 once actions can be taken, 503 before that and while shutting down (V0 §2.2). */
export function aliveRoute(isServing: () => boolean) {
  return (app: FastifyInstance): void => {
    app.get('/alive', (_request, reply) => {
      if (isServing()) return reply.send({ status: 'ok' });
      return reply.code(503).send({ status: 'not initialized' });
    });
  };
}
