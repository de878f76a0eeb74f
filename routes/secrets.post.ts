import type { FastifyInstance } from 'fastify';
import { AppError } from '../src/errors.ts';
import type { Secrets } from '../src/sandbox/secrets.ts';

/** `POST /secrets`: values to mask from now on in events, logs and observations. They are kept in memory only. */
export function registerSecretsRoute(secrets: Secrets) {
  return (app: FastifyInstance): void => {
    app.post('/secrets', (request, reply) => {
      const values = valuesOf(request.body);
      const accepted = values.filter((value) => secrets.add(value)).length;
      return reply.send({ accepted, refused: values.length - accepted });
    });
  };
}

function valuesOf(body: unknown): string[] {
  const values: unknown = typeof body === 'object' && body !== null && 'values' in body ? body.values : undefined;
  if (Array.isArray(values) && values.every((value): value is string => typeof value === 'string')) return values;
  throw AppError.invalidBody('body.values: expected a list of strings.');
}
