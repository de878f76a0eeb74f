import type { FastifyInstance } from 'fastify';

/** What a page may read of an answer beside its body and type. */
const EXPOSED_HEADERS = [
  'Accept-Ranges',
  'Content-Disposition',
  'Content-Range',
  'ETag',
  'Idempotent-Replay',
  'Location',
  'Preference-Applied',
  'Retry-After',
];
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'];
/** How long a browser may keep the answer to a preflight. */
const PREFLIGHT_SECONDS = 600;

/**
 * Lets pages of these origins call and read the answers, errors too; their preflights need no key. The library is not loaded without them.
 * @param origins in lower case
 */
export function allowPages(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  void app.register(import('@fastify/cors'), {
    origin: (origin, decide) => {
      const isAllowed = origin !== undefined && origins.includes(origin.toLowerCase());
      decide(null, isAllowed ? origin : false);
    },
    methods: METHODS,
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_SECONDS,
    strictPreflight: false,
  });
}
