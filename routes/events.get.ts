import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../src/errors.ts';
import { type EventPage, readPage } from '../src/events/subscription-page.ts';
import type { EventReader } from '../src/events/types.ts';
import type { Guard } from '../src/guard.ts';
import { keyInQuery, parseEventsQuery } from './events.query.ts';

const COMMA = Buffer.from(',');

/** `GET /events`: a page of the log (DESIGN §4). */
export function eventsRoute(reader: EventReader, guard: Guard) {
  return (app: FastifyInstance): void => {
    app.get('/events', (request, reply) => listEvents(request, reply, reader, guard));
  };
}

async function listEvents(
  request: FastifyRequest,
  reply: FastifyReply,
  reader: EventReader,
  guard: Guard,
): Promise<FastifyReply> {
  if (!guard.hasValidKey(request.headers, keyInQuery(request.query))) throw new AppError('AUTH_INVALID_KEY');
  const page = await readPage(reader, parseEventsQuery(request.query));
  return reply.type('application/json; charset=utf-8').send(bodyOf(page));
}

/** The events as they are stored: neither parsed nor written again. */
function bodyOf({ events, next, ...extent }: EventPage): Buffer {
  const head = JSON.stringify({ ...extent, events: [] }).slice(0, -2);
  const list = events.flatMap(({ json }, index) => (index === 0 ? [json] : [COMMA, json]));
  return Buffer.concat([Buffer.from(head), ...list, Buffer.from(`],"next":${next}}`)]);
}
