import type { FastifyInstance } from 'fastify';

/** Loaded on first use. */
export interface MetricsText {
  readonly contentType: string;
  text(): Promise<string>;
}

/** `GET /metrics`: Prometheus text format. */
export function metricsRoute(metrics: MetricsText) {
  return (app: FastifyInstance): void => {
    app.get('/metrics', async (_request, reply) => reply.type(metrics.contentType).send(await metrics.text()));
  };
}
