import type { FastifyInstance } from 'fastify';
import type { SessionInfo } from '../src/protocol/http.ts';

/** `GET /sessions`: the shells, kernels and browser contexts there are. */
export function listSessionsRoute(list: () => SessionInfo[]) {
  return (app: FastifyInstance): void => {
    app.get('/sessions', (_request, reply) => reply.send({ sessions: list() }));
  };
}
