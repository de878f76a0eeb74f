import type { FastifyInstance } from 'fastify';
import { AppError } from '../src/errors.ts';

export interface SessionControl {
  /** @returns whether anything ran; undefined when there is no such session */
  readonly interrupt: (lane: string) => Promise<boolean | undefined>;
  /** @returns false when there is no such session */
  readonly restart: (lane: string) => Promise<boolean>;
}

/** `POST /sessions/{lane}/interrupt` and `/restart`: for sessions that know these, which are kernels. */
export function controlSessionRoutes({ interrupt, restart }: SessionControl) {
  return (app: FastifyInstance): void => {
    app.post<{ Params: { lane: string } }>('/sessions/:lane/interrupt', async ({ params }, reply) => {
      const interrupted = await interrupt(params.lane);
      if (interrupted === undefined) throw unknownSession(params.lane);
      return reply.send({ interrupted });
    });
    app.post<{ Params: { lane: string } }>('/sessions/:lane/restart', async ({ params }, reply) => {
      if (!(await restart(params.lane))) throw unknownSession(params.lane);
      return reply.send({ restarted: params.lane });
    });
  };
}

function unknownSession(lane: string): AppError {
  return new AppError(
    'SESSION_NOT_FOUND',
    `There is no kernel session ${JSON.stringify(lane)}: GET /sessions lists them.`,
  );
}
