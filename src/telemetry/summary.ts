import type { CallSummary } from '../dispatch/dispatcher.ts';
import type { Logger } from './logger.ts';

/** One line for each action. */
export function logSummary(log: Logger, { call, outcome, queuedMs, durationMs, cause }: CallSummary): void {
  const line = {
    action_id: call.id,
    type: call.action.action,
    lane: call.lane,
    outcome,
    queued_ms: Math.round(queuedMs),
    duration_ms: Math.round(durationMs * 10) / 10,
  };
  if (cause === undefined) log.info(line, 'action');
  else log.error({ ...line, err: cause }, 'action');
}
