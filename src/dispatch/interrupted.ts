import type { LoggedEvent, NewEvent } from '../events/types.ts';
import { DEFAULT_METADATA, errorObservation, type Observation, runObservation } from '../protocol/observations.ts';

/** The log of the last run, and of this one. */
export interface InterruptedLog {
  load(seq: number): Promise<LoggedEvent | undefined>;
  append(event: NewEvent): number;
}

const TEXT = 'The server ended while this action ran or waited: it was interrupted, and how far it came is not known.';

/**
 * Gives every action that the last run left open its observation: `interrupted`. It is never run again. What is appended waits where the disk
 * takes nothing now.
 */
export async function closeInterrupted(
  open: readonly { readonly action_id: string; readonly seq: number }[],
  log: InterruptedLog,
): Promise<void> {
  for (const { action_id: actionId, seq } of open) {
    const begun = await log.load(seq);
    log.append({
      kind: 'observation',
      action_id: actionId,
      ...(begun?.lane === undefined ? {} : { lane: begun.lane }),
      status: 'interrupted',
      observation: observationFor(begun?.['action']),
      duration_ms: 0,
    });
  }
}

/** A `run` gets its own kind: an `error` in answer to a hidden one would crash V0's client (V0 §4.1). */
function observationFor(action: unknown): Observation {
  const { action: type, args } = action as { action?: unknown; args?: { command?: unknown; hidden?: unknown } };
  if (type !== 'run') return errorObservation(TEXT);
  const command = typeof args?.command === 'string' ? args.command : '';
  const metadata = { ...DEFAULT_METADATA, suffix: `\n[${TEXT}]` };
  return runObservation({ command, content: '', metadata, hidden: args?.hidden === true });
}
