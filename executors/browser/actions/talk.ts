import type { CallArgs } from '../calls.ts';
import type { Scope } from '../scope.ts';
import { OBSERVATION_RESERVE_MS } from '../limits.ts';
import { ifWithin, OutOfTimeError } from '../within.ts';

/** Waits; what the page does meanwhile is seen afterwards. */
export async function noop({ deadline }: Scope, { wait_ms: ms }: CallArgs<'noop'>): Promise<void> {
  const leftMs = deadline.left(ms, OBSERVATION_RESERVE_MS);
  await ifWithin(leftMs, new Promise<never>(() => {}), deadline.signal);
  if (deadline.signal.aborted || leftMs < ms) throw new OutOfTimeError('over');
}

/** V0 records the text and shows it nowhere (V0 §8.2); here it is in the event log with the action. */
export async function sendMsgToUser(_scope: Scope, _args: CallArgs<'send_msg_to_user'>): Promise<void> {}

export async function reportInfeasible(_scope: Scope, _args: CallArgs<'report_infeasible'>): Promise<void> {}
