import type { ActionEntry } from '../events/action-index.ts';
import type { LoggedEvent, NewEvent } from '../events/types.ts';
import { DEFAULT_METADATA, errorObservation, type Observation, runObservation } from '../protocol/observations.ts';

/** The log of the last run, and of this one. */
export interface InterruptedLog {
  load(seq: number): Promise<LoggedEvent | undefined>;
  actions(): ReadonlyMap<string, ActionEntry>;
  append(event: NewEvent): number;
}

const BEGUN = 'The server ended while this action ran: it was interrupted, and how far it came is not known.';
const WAITED =
  'The server ended while this action waited for an earlier one of its session: it was interrupted before it began.';

/**
 * Gives every action that the last run left open its observation: `interrupted`. It is never run again. What is appended waits where the disk
 * takes nothing now.
 *
 * Of each lane only the first had begun: the next one begins when the observation of the one before is on the disk.
 *
 * @param open in the order in which they were taken
 */
export async function closeInterrupted(
  open: readonly { readonly action_id: string; readonly seq: number }[],
  log: InterruptedLog,
): Promise<void> {
  const busy = new Set<string>();
  for (const { action_id: actionId, seq } of open) {
    const taken = await log.load(seq);
    const lane = taken?.lane;
    const hasBegun = lane === undefined || !busy.has(lane);
    if (lane !== undefined) busy.add(lane);
    const started = hasBegun && taken ? await startOf(taken, log) : undefined;
    log.append({
      kind: 'observation',
      action_id: actionId,
      ...(lane === undefined ? {} : { lane }),
      status: 'interrupted',
      ...(started === undefined ? {} : { started }),
      observation: observationFor(taken?.['action'], hasBegun ? BEGUN : WAITED),
      duration_ms: 0,
    });
  }
}

/** When it began: when it was taken, or when the last of those ended that it had to wait for. */
async function startOf({ seq, time, lane }: LoggedEvent, log: InterruptedLog): Promise<string> {
  let start = time;
  if (lane === undefined) return start;
  for (const { actionSeq = seq, observationSeq = 0 } of log.actions().values()) {
    if (actionSeq >= seq || observationSeq < seq) continue;
    const ended = await log.load(observationSeq);
    if (ended?.lane === lane && ended.time > start) start = ended.time;
  }
  return start;
}

/**
 * A `run` gets its own kind: an `error` in answer to a hidden one would crash V0's client (V0 §4.1).
 * @param action undefined when it cannot be read any more
 */
function observationFor(action: unknown, text: string): Observation {
  const { action: type, args } = (action ?? {}) as { action?: unknown; args?: { command?: unknown; hidden?: unknown } };
  if (type !== 'run') return errorObservation(text);
  const command = typeof args?.command === 'string' ? args.command : '';
  const metadata = { ...DEFAULT_METADATA, suffix: `\n[${text}]` };
  return runObservation({ command, content: '', metadata, hidden: args?.hidden === true });
}
