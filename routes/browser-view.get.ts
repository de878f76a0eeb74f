import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../src/errors.ts';
import { BrowserQuery, BrowserScreenshotQuery } from '../src/protocol/http.ts';
import { describeProblems, expectation } from '../src/protocol/problems.ts';

/** What the routes that show a browser need. */
export interface BrowserViews {
  screenshot(session: string, isWholePage: boolean): Promise<Buffer>;
  snapshot(session: string): Promise<string>;
  tabs(session: string): Promise<object[]>;
}

/** `GET /browser/screenshot`, `/browser/snapshot`, `/browser/tabs`: what a person would see. */
export function browserViewRoutes(views: BrowserViews, mask: <T>(value: T) => T): (app: FastifyInstance) => void {
  return (app) => {
    app.get('/browser/screenshot', (request, reply) => sendScreenshot(request, reply, views));
    app.get('/browser/snapshot', (request, reply) => sendSnapshot(request, reply, views, mask));
    app.get('/browser/tabs', (request, reply) => sendTabs(request, reply, views, mask));
  };
}

async function sendScreenshot(
  request: FastifyRequest,
  reply: FastifyReply,
  views: BrowserViews,
): Promise<FastifyReply> {
  const { session, full_page: isWholePage } = parse(BrowserScreenshotQuery, request);
  const png = await views.screenshot(session, isWholePage);
  return reply
    .headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
    .type('image/png')
    .send(png);
}

async function sendSnapshot(
  request: FastifyRequest,
  reply: FastifyReply,
  views: BrowserViews,
  mask: (text: string) => string,
): Promise<FastifyReply> {
  const { session } = parse(BrowserQuery, request);
  const text = mask(await views.snapshot(session));
  return reply
    .headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
    .type('text/plain; charset=utf-8')
    .send(text);
}

async function sendTabs(
  request: FastifyRequest,
  reply: FastifyReply,
  views: BrowserViews,
  mask: (tabs: object[]) => object[],
): Promise<FastifyReply> {
  const { session } = parse(BrowserQuery, request);
  return reply.send({ tabs: mask(await views.tabs(session)) });
}

function parse<T extends typeof BrowserQuery | typeof BrowserScreenshotQuery>(
  schema: T,
  { query }: FastifyRequest,
): ReturnType<T['parse']> {
  const parsed = schema.safeParse(query, { error: expectation() });
  if (!parsed.success) throw AppError.invalidBody(describeProblems('query', parsed.error.issues).join('\n'));
  return parsed.data as ReturnType<T['parse']>;
}
