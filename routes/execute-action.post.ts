import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Dispatcher, Refusal } from '../src/dispatch/dispatcher.ts';
import type { Reply } from '../src/dispatch/reply.ts';
import { idempotencyOf, MAX_KEY_CHARS } from '../src/dispatch/idempotency.ts';
import { AppError, type ErrorCode } from '../src/errors.ts';
import { type Action, type AddedActions, parseAction } from '../src/protocol/actions.ts';
import { refusalObservation } from '../src/protocol/observations.ts';

export interface ExecuteActionOptions {
  readonly dispatcher: Dispatcher;
  /** Action types that plugins serve. */
  readonly addedActions: AddedActions;
  /** Counts what newer clients send and this server does not know. */
  readonly countUnknownArgs: (actionType: string, names: readonly string[]) => void;
  /** Takes secrets out of a message that repeats what was sent. */
  readonly mask: (text: string) => string;
}

const REFUSALS: Readonly<Record<Refusal, ErrorCode>> = {
  'too-many': 'TOO_MANY_ACTIONS',
  overloaded: 'OVERLOADED',
  'shutting-down': 'SHUTTING_DOWN',
  'key-reused': 'IDEMPOTENCY_KEY_REUSED',
};

/**
 * `POST /execute_action`: one action in, one observation out (V0 §2.4); with `Prefer: respond-async` 202 and where to ask. The action goes
 * on when the client goes away.
 */
export function executeActionRoute(options: ExecuteActionOptions) {
  return (app: FastifyInstance): void => {
    app.post('/execute_action', (request, reply) => executeAction(request, reply, options));
  };
}

async function executeAction(
  request: FastifyRequest,
  reply: FastifyReply,
  { dispatcher, addedActions, countUnknownArgs, mask }: ExecuteActionOptions,
): Promise<object> {
  const parsed = parseAction(actionOf(request.body), addedActions);
  // An agent can provoke this, so it is an observation (V0, rule 2).
  if (!parsed.ok) return refusalObservation(mask(parsed.message), parsed.hidden);
  const { action, unknownArgs } = parsed;
  if (unknownArgs.length > 0) countUnknownArgs(action.action, unknownArgs);
  const outcome = dispatcher.dispatch({ action, idempotency: idempotencyIn(action, request) });
  if (outcome.kind === 'refused') throw new AppError(REFUSALS[outcome.why], outcome.detail);
  if (outcome.isReplay) void reply.header('idempotent-replay', 'true');
  if (!prefersAsync(request)) return replyBody(await outcome.reply);
  await outcome.accepted.catch(ignore);
  const location = `/actions/${outcome.id}`;
  return reply
    .code(202)
    .header('location', location)
    .header('preference-applied', 'respond-async')
    .send({
      action_id: outcome.id,
      status: dispatcher.find(outcome.id)?.status ?? 'finished',
    });
}

function actionOf(body: unknown): unknown {
  if (body === undefined) throw AppError.invalidBody('The body is empty: send a JSON object {"action": {...}}.');
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw AppError.invalidBody('body: expected an object {"action": {...}}.');
  }
  if (!('action' in body) || typeof body.action !== 'object' || body.action === null || Array.isArray(body.action)) {
    throw AppError.invalidBody('body.action: expected an object such as {"action": "run", "args": {"command": "ls"}}.');
  }
  return body.action;
}

function idempotencyIn(action: Action, request: FastifyRequest): ReturnType<typeof idempotencyOf> {
  try {
    return idempotencyOf(action, keyHeader(request));
  } catch (error) {
    if (error instanceof RangeError)
      throw AppError.invalidBody('body.action: values are nested too deep in each other.');
    throw error;
  }
}

function keyHeader({ headers }: FastifyRequest): string | undefined {
  const key = headers['idempotency-key'];
  if (key === undefined) return undefined;
  if (typeof key !== 'string' || key === '' || key.length > MAX_KEY_CHARS) {
    throw AppError.invalidBody(`Idempotency-Key: expected one value of 1 to ${MAX_KEY_CHARS} characters.`);
  }
  return key;
}

function prefersAsync({ headers }: FastifyRequest): boolean {
  const prefer = headers['prefer'];
  const text = Array.isArray(prefer) ? prefer.join(',') : (prefer ?? '');
  return text.split(/[,;]/).some((part) => part.trim().toLowerCase() === 'respond-async');
}

/** What is ours stands at the top level: V0's client passes `extras` to a constructor. */
function replyBody({ observation, ...extensions }: Reply): object {
  return { ...observation, ...extensions };
}

function ignore(): void {
  // The reply says what went wrong.
}
