import type { FastifyInstance } from 'fastify';
import type { Actions } from '../src/dispatch/actions.ts';
import { AppError } from '../src/errors.ts';
import { CALL_STATUSES } from '../src/protocol/http.ts';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 500;
/** Longest `wait`, in seconds: below the idle limits of proxies. */
const MAX_WAIT_SECONDS = 300;

/** `GET /actions`: newest first. */
export function listActionsRoute(actions: Actions) {
  return (app: FastifyInstance): void => {
    app.get<{ Querystring: Record<string, string | undefined> }>('/actions', async ({ query }, reply) => {
      const { status } = query;
      if (status !== undefined && !(CALL_STATUSES as readonly string[]).includes(status)) {
        throw AppError.invalidBody(`query.status: expected one of ${CALL_STATUSES.join(', ')}.`);
      }
      const limit = integer('limit', query['limit'], 1, MAX_LIMIT) ?? DEFAULT_LIMIT;
      return reply.send({ actions: await actions.list({ status, limit }) });
    });
  };
}

/** `GET /actions/{id}`: one action with its observation; `?wait=SECONDS` waits for its end. */
export function getActionRoute(actions: Actions) {
  return (app: FastifyInstance): void => {
    app.get<{ Params: { id: string }; Querystring: Record<string, string | undefined> }>(
      '/actions/:id',
      async ({ params, query }, reply) => {
        const seconds = integer('wait', query['wait'], 0, MAX_WAIT_SECONDS) ?? 0;
        const record = await actions.get(params.id, seconds * 1000);
        if (record === undefined) throw new AppError('ACTION_NOT_FOUND');
        return reply.send(record);
      },
    );
  };
}

function integer(name: string, text: string | undefined, min: number, max: number): number | undefined {
  if (text === undefined) return undefined;
  const value = /^\d+$/.test(text) ? Number(text) : NaN;
  if (value >= min && value <= max) return value;
  throw AppError.invalidBody(`query.${name}: expected an integer from ${min} to ${max}, got ${JSON.stringify(text)}.`);
}
