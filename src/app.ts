import type { Socket } from 'node:net';
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { watchBody } from './body-idle.ts';
import { AppError } from './errors.ts';
import type { Guard } from './guard.ts';
import type { Logger } from './telemetry/logger.ts';

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
  readonly plugins: readonly ((app: FastifyInstance) => void)[];
}

/** A request line and headers must be here within this time. */
const HEADERS_LIMIT_MS = 60_000;

/** The HTTP application with all its routes; it does not listen. */
export function buildApp({
  guard,
  log,
  mask = (text) => text,
  maxBodyBytes,
  keepAliveMs,
  bodyIdleMs,
  maxConnections,
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
    http: { headersTimeout: HEADERS_LIMIT_MS },
  });
  app.server.maxConnections = maxConnections;
  // A form or a plain text could come from a page of another site without a preflight request.
  app.removeContentTypeParser('text/plain');
  takeEmptyBodies(app);
  app.addHook('onRequest', (request, _reply, done) => {
    watchBody(request.raw, bodyIdleMs, () => answerLate(request.raw.socket));
    guard.check(pathOf(request), request.headers);
    done();
  });
  app.setErrorHandler((error: FastifyError, request, reply) =>
    answer(fromFastify(error, maxBodyBytes), request, reply),
  );
  app.setNotFoundHandler((request, reply) => answer(unknownRoute(app, request), request, reply));
  for (const plugin of plugins) plugin(app);
  return app;
}

/** Many clients say that they send JSON and then send nothing: no body. A route that needs one says so itself. */
function takeEmptyBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('remove', 'remove');
  app.removeContentTypeParser('application/json');
  app.addContentTypeParser<string>('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body.trim() === '') done(null, undefined);
    else void parse(request, body, done);
  });
}

/** What is no HTTP has no reply object; the connection ends with the answer. */
function answerGarbage(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const isTooLarge = error.code === 'HPE_HEADER_OVERFLOW';
  const isLate = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  const status = isTooLarge
    ? '431 Request Header Fields Too Large'
    : isLate
      ? '408 Request Timeout'
      : '400 Bad Request';
  const detail = isTooLarge
    ? 'The headers are too large.'
    : isLate
      ? 'The request took too long.'
      : 'This is no valid HTTP request.';
  socket.end(lastAnswer(status, detail));
}

/** Nothing more comes from this client; a route that waits for it sees a body that breaks off. */
function answerLate(socket: Socket): void {
  socket.write(lastAnswer('408 Request Timeout', 'The body of the request stopped coming; send it again.'));
  socket.destroySoon();
}

function lastAnswer(status: string, detail: string): string {
  const body = JSON.stringify({ detail });
  const length = Buffer.byteLength(body);
  return `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\nconnection: close\r\n\r\n${body}`;
}

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
      return AppError.invalidBody('The body must be JSON: send Content-Type: application/json.');
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
