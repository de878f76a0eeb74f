import type { FastifyInstance } from 'fastify';
import { AppError } from '../src/errors.ts';

/** `DELETE /sessions/{lane}`: ends a session and everything started from it; the next action makes a new one. */
export function closeSessionRoute(close: (lane: string) => Promise<boolean>, mask: (text: string) => string) {
  return (app: FastifyInstance): void => {
    app.delete<{ Params: { lane: string } }>('/sessions/:lane', async (request, reply) => {
      const { lane } = request.params;
      if (!(await close(lane)))
        throw new AppError(
          'SESSION_NOT_FOUND',
          `There is no session ${JSON.stringify(lane)}: GET /sessions lists them.`,
        );
      return reply.send({ closed: mask(lane) });
    });
  };
}
