import type { FastifyInstance } from 'fastify';
import type { Actions } from '../src/dispatch/actions.ts';
import type { Dispatcher } from '../src/dispatch/dispatcher.ts';
import { AppError } from '../src/errors.ts';

/** `POST /actions/{id}/cancel`: answers with the action as it is once it is over; an action that was over already is not changed. */
export function cancelActionRoute(dispatcher: Dispatcher, actions: Actions) {
  return (app: FastifyInstance): void => {
    app.post<{ Params: { id: string } }>('/actions/:id/cancel', async ({ params }, reply) => {
      await dispatcher.cancel(params.id);
      const record = await actions.get(params.id, 0);
      if (record === undefined) throw new AppError('ACTION_NOT_FOUND');
      return reply.send(record);
    });
  };
}
