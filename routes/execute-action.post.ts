import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Dispatcher, Reply } from '../src/dispatch/dispatcher.ts';
import { AppError } from '../src/errors.ts';
import { parseAction } from '../src/protocol/actions.ts';
import { DEFAULT_METADATA, errorObservation, type Observation, runObservation } from '../src/protocol/observations.ts';

/** Counts what newer clients send and this server does not know. */
export type UnknownArgsCounter = (actionType: string, names: readonly string[]) => void;

/** `POST /execute_action`: one action in, one observation out (V0 §2.4). The action goes on when the client goes away. */
export function executeActionRoute(dispatcher: Dispatcher, countUnknownArgs: UnknownArgsCounter) {
  return (app: FastifyInstance): void => {
    app.post('/execute_action', (request, reply) => executeAction(request, reply, dispatcher, countUnknownArgs));
  };
}

async function executeAction(
  request: FastifyRequest,
  reply: FastifyReply,
  dispatcher: Dispatcher,
  countUnknownArgs: UnknownArgsCounter,
): Promise<object> {
  const parsed = parseAction(actionOf(request.body));
  if (!parsed.ok) return badAction(parsed.message, parsed.hidden);
  if (parsed.unknownArgs.length > 0) countUnknownArgs(parsed.action.action, parsed.unknownArgs);
  const answer = dispatcher.dispatch(parsed.action);
  if (answer === 'too-many') throw new AppError('TOO_MANY_ACTIONS');
  if (answer === 'shutting-down') throw new AppError('SHUTTING_DOWN');
  return replyBody(await answer);
}

function actionOf(body: unknown): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw AppError.invalidBody('body: expected an object {"action": {...}}.');
  }
  if (!('action' in body) || typeof body.action !== 'object' || body.action === null || Array.isArray(body.action)) {
    throw AppError.invalidBody('body.action: expected an object such as {"action": "run", "args": {"command": "ls"}}.');
  }
  return body.action;
}

/** An agent can provoke this, so it is an observation (V0, rule 2); for a hidden `run` the kind V0's client can take. */
function badAction(message: string, isHidden: boolean): Observation {
  if (!isHidden) return errorObservation(message);
  return runObservation({ command: '', content: `ERROR: ${message}`, metadata: DEFAULT_METADATA, hidden: true });
}

/** What is ours stands at the top level: V0's client passes `extras` to a constructor. */
function replyBody({ observation, ...extensions }: Reply): object {
  return { ...observation, ...extensions };
}
