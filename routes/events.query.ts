import type { z } from 'zod';
import { AppError } from '../src/errors.ts';
import type { EventFilter, SubscriptionRequest } from '../src/events/subscription.ts';
import { EventsQuery, EventStreamQuery } from '../src/protocol/http.ts';
import { describeProblems, expectation } from '../src/protocol/problems.ts';

type RawQuery = Readonly<Record<string, unknown>>;

const DEFAULT_LIMIT = 100;
const INTEGER = /^[+-]?\d+$/;

/** @throws AppError that names the parameter and what is allowed */
export function parseEventsQuery(query: unknown): EventFilter & { readonly after: number; readonly limit: number } {
  const { after = 0, limit = DEFAULT_LIMIT, ...filter } = parse(EventsQuery, query);
  return { after, limit, ...filterOf(filter) };
}

/**
 * @param lastEventId what an EventSource sends when it comes back to the same address; counts more than `after`
 * @throws AppError that names the parameter and what is allowed
 */
export function parseStreamQuery(query: unknown, lastEventId?: string): SubscriptionRequest {
  const given = lastEventId === undefined ? rawOf(query) : { ...rawOf(query), after: lastEventId };
  const { after, stream, ...filter } = parse(EventStreamQuery, given);
  return {
    ...(after === undefined ? {} : { after }),
    ...(stream === undefined ? {} : { stream }),
    ...filterOf(filter),
  };
}

/** The key in a query; it must not get into logs or answers. */
export function keyInQuery(query: unknown): string | undefined {
  const { session_api_key: key } = rawOf(query);
  return typeof key === 'string' && key !== '' ? key : undefined;
}

function filterOf({ kind, action_id: actionId }: Pick<EventsQuery, 'kind' | 'action_id'>): EventFilter {
  return {
    ...(kind === undefined ? {} : { kinds: new Set(kind) }),
    ...(actionId === undefined ? {} : { actionId }),
  };
}

function parse<T>(schema: z.ZodType<T>, query: unknown): T {
  const { session_api_key: _key, ...raw } = rawOf(query);
  const values = { ...raw, ...integers(raw), ...(raw['kind'] === undefined ? {} : { kind: listOf(raw['kind']) }) };
  const parsed = schema.safeParse(values, { error: expectation() });
  if (parsed.success) return parsed.data;
  throw AppError.invalidBody(describeProblems('query', parsed.error.issues).join('\n'));
}

function rawOf(query: unknown): RawQuery {
  return typeof query === 'object' && query !== null ? (query as RawQuery) : {};
}

function integers({ after, limit }: RawQuery): RawQuery {
  return {
    ...(after === undefined ? {} : { after: integerOf(after) }),
    ...(limit === undefined ? {} : { limit: integerOf(limit) }),
  };
}

/** A number that is too large to be exact is ahead of everything, however large; what is not an integer stays as it is. */
function integerOf(value: unknown): unknown {
  if (typeof value !== 'string' || !INTEGER.test(value)) return value;
  return Math.max(-Number.MAX_SAFE_INTEGER, Math.min(Number.MAX_SAFE_INTEGER, Number(value)));
}

function listOf(value: unknown): unknown[] {
  return [value].flat().flatMap((item: unknown) => (typeof item === 'string' ? item.split(',') : [item]));
}
