import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { watchBody } from './body-idle.ts';
import { Connections } from './connections.ts';
import { allowPages } from './cors.ts';
import { AppError } from './errors.ts';
import type { Guard } from './guard.ts';
import { LINGER_LIMITS, type LingerLimits, lingerOn } from './lingering.ts';
import { answerGarbage, answerLate, refuseOddRequests } from './refusals.ts';
import type { Logger } from './telemetry/logger.ts';
import { hasMoreValues } from './util/json-size.ts';

export interface AppOptions {
  readonly guard: Guard;
  readonly log: Logger;
  /** Takes secrets out of an error that repeats what was sent. */
  readonly mask?: (text: string) => string;
  readonly maxBodyBytes: number;
  readonly keepAliveMs: number;
  /** How long a request's body may stand still. */
  readonly bodyIdleMs: number;
  readonly maxConnections: number;
  /** A request line and its headers must be here within this time. */
  readonly headersLimitMs?: number;
  readonly lingerLimits?: LingerLimits;
  readonly plugins: readonly ((app: FastifyInstance) => void)[];
}

const HEADERS_LIMIT_MS = 10_000;
/** Connections are looked at so many times within the limit for headers: that much later they may be closed. */
const CHECKS_PER_HEADERS_LIMIT = 4;

/** The HTTP application with all its routes; it does not listen. */
export function buildApp({
  guard,
  log,
  mask = (text) => text,
  maxBodyBytes,
  keepAliveMs,
  bodyIdleMs,
  maxConnections,
  headersLimitMs = HEADERS_LIMIT_MS,
  lingerLimits = LINGER_LIMITS,
  plugins,
}: AppOptions): FastifyInstance {
  const answer = (error: AppError, request: FastifyRequest, reply: FastifyReply): void =>
    answerError(error, request, reply, { log, mask });
  const app = Fastify({
    logger: false,
    bodyLimit: maxBodyBytes,
    keepAliveTimeout: keepAliveMs,
    // A body may be of any size; see watchBody.
    requestTimeout: 0,
    forceCloseConnections: 'idle',
    onProtoPoisoning: 'remove',
    onConstructorPoisoning: 'remove',
    routerOptions: { ignoreTrailingSlash: true },
    frameworkErrors: (error, request, reply) => answer(fromFastify(error, maxBodyBytes), request, reply),
    clientErrorHandler: answerGarbage,
    http: {
      headersTimeout: headersLimitMs,
      connectionsCheckingInterval: headersLimitMs / CHECKS_PER_HEADERS_LIMIT,
      // Node's own refusal has no body.
      requireHostHeader: false,
    },
  });
  const connections = new Connections(app.server, maxConnections, headersLimitMs);
  lingerOn(app.server, lingerLimits);
  refuseOddRequests(app.server, lingerLimits);
  // A form or a plain text could come from a page of another site without a preflight request.
  app.removeContentTypeParser('text/plain');
  takeJson(app);
  app.addHook('onRequest', ({ raw, headers }, reply, done) => {
    connections.begin(raw);
    reply.raw.once('close', () => connections.end(raw.socket));
    watchBody(raw, bodyIdleMs, () => answerLate(raw.socket));
    if (headers.host === undefined && raw.httpVersion === '1.1') throw new AppError('HOST_MISSING');
    guard.checkSource(headers);
    done();
  });
  allowPages(app, guard.allowOrigins);
  // After that: a preflight has no key, and a page may read why it is refused.
  app.after(() => {
    app.addHook('onRequest', (request, _reply, done) => {
      guard.checkKey(pathOf(request), request.headers);
      done();
    });
  });
  app.setErrorHandler((error: FastifyError, request, reply) =>
    answer(fromFastify(error, maxBodyBytes), request, reply),
  );
  app.setNotFoundHandler((request, reply) => answer(unknownRoute(app, request), request, reply));
  for (const plugin of plugins) plugin(app);
  return app;
}

/** Values in a JSON body: millions of them would hold up the server for seconds while they are parsed. */
const MAX_JSON_VALUES = 250_000;
/** A shorter body cannot have so many. */
const MAX_UNCOUNTED_CHARS = MAX_JSON_VALUES;

/** Many clients say that they send JSON and then send nothing: no body. A route that needs one says so itself. */
function takeJson(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('remove', 'remove');
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body.trim() === '') done(null, undefined);
    else if (body.length > MAX_UNCOUNTED_CHARS && hasMoreValues(body, MAX_JSON_VALUES))
      done(new AppError('BODY_TOO_LARGE', `The body has more than ${MAX_JSON_VALUES} values: send fewer at a time.`));
    else void parse(request, body, done);
  });
  // As `curl -X POST -d ''` does with a type for forms.
  app.addContentTypeParser('*', ({ headers }, _payload, done) => {
    const isEmpty = headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0;
    done(isEmpty ? null : AppError.invalidBody(NOT_JSON), undefined);
  });
}

const NOT_JSON = 'The body must be JSON: send Content-Type: application/json.';

function pathOf({ url }: FastifyRequest): string {
  const end = url.indexOf('?');
  const path = end < 0 ? url : url.slice(0, end);
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}

function answerError(
  error: AppError,
  request: FastifyRequest,
  reply: FastifyReply,
  { log, mask }: Required<Pick<AppOptions, 'log' | 'mask'>>,
): void {
  if (error.status >= 500)
    log.error({ err: error.cause ?? error, method: request.method, route: request.routeOptions.url }, 'request failed');
  if (error.retryable) void reply.header('retry-after', '1');
  const { detail, errors } = error.toBody();
  void reply
    .code(error.status)
    .headers(error.headers)
    .send({ detail: mask(detail), ...(errors === undefined ? {} : { errors: mask(errors) }) });
}

const METHODS = ['GET', 'POST', 'PUT', 'DELETE'] as const;

function unknownRoute(app: FastifyInstance, request: FastifyRequest): AppError {
  const url = pathOf(request);
  const allowed = METHODS.filter((method) => method !== request.method && app.findRoute({ method, url }) !== null);
  return new AppError(allowed.length > 0 ? 'METHOD_NOT_ALLOWED' : 'ROUTE_NOT_FOUND');
}

/** Fastify's own complaints in the words of the contract (V0 §2.1). */
function fromFastify(error: FastifyError, maxBodyBytes: number): AppError {
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new AppError('BODY_TOO_LARGE', `The body is larger than ${maxBodyBytes} bytes (--max-body-bytes).`);
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return AppError.invalidBody(NOT_JSON);
    case 'FST_ERR_BAD_URL':
      return AppError.invalidBody('path: this is no valid percent-encoding.');
    case 'FST_ERR_CTP_INVALID_JSON_BODY':
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return AppError.invalidBody(error.message);
    default:
      return error instanceof SyntaxError
        ? AppError.invalidBody(`The body is not valid JSON: ${error.message}`)
        : AppError.from(error);
  }
}
