import type { FastifyInstance } from 'fastify';

/** `GET /health`: 200 as long as the event loop runs. */
export function healthRoute(app: FastifyInstance): void {
  app.get('/health', (_request, reply) => reply.send({ status: 'ok' }));
}
