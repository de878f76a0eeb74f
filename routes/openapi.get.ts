import type { FastifyInstance } from 'fastify';

/** `GET /openapi.json`: made on first use, it costs more than a start may. */
export function openApiRoute(load: () => Promise<object>) {
  return (app: FastifyInstance): void => {
    app.get('/openapi.json', load);
  };
}
