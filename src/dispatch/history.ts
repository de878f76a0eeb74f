import type { LoggedEvent } from '../events/types.ts';
import type { Call, CallStatus } from './call.ts';
import type { Reply } from './reply.ts';

interface IndexEntry {
  readonly actionSeq?: number;
  readonly observationSeq?: number;
}

/** Where past actions are found. */
export interface EventIndex {
  find(actionId: string): IndexEntry | undefined;
  byKey(key: string): { readonly action_id: string; readonly hash: string } | undefined;
  /** In the order of their first event. */
  actions(): ReadonlyMap<string, IndexEntry>;
  load(seq: number): Promise<LoggedEvent | undefined>;
}

/** An action as `GET /actions/{id}` shows it. */
export interface ActionRecord {
  readonly action_id: string;
  readonly action: unknown;
  readonly status: CallStatus;
  readonly lane: string | null;
  readonly created: string;
  readonly started: string | null;
  readonly finished: string | null;
  readonly observation?: unknown;
}

/** Replies kept in memory: clients ask again soon or hardly ever. */
const MAX_REMEMBERED = 64;

interface Remembered {
  readonly reply: Reply;
  /** Of an action whose end could not be recorded; it may be later. */
  readonly unrecorded: Call | undefined;
}

/** What is known of actions that are over: the last ones from memory, all others from the event log. */
export class History {
  readonly #index: EventIndex;
  readonly #recent = new Map<string, Remembered>();

  constructor(index: EventIndex) {
    this.#index = index;
  }

  byKey(key: string): { readonly id: string; readonly hash: string } | undefined {
    const found = this.#index.byKey(key);
    return found && { id: found.action_id, hash: found.hash };
  }

  /** @param unrecorded the call, when its end could not be recorded */
  remember(reply: Reply, unrecorded?: Call): void {
    this.#recent.set(reply.action_id, { reply, unrecorded });
    const [oldest] = this.#recent.keys();
    if (this.#recent.size > MAX_REMEMBERED && oldest !== undefined) this.#recent.delete(oldest);
  }

  /** An action that is over, as far as is remembered, although the log does not say so. */
  unrecorded(actionId: string): { readonly call: Call; readonly reply: Reply } | undefined {
    const { reply, unrecorded: call } = this.#recent.get(actionId) ?? {};
    return reply && call && this.#index.find(actionId)?.observationSeq === undefined ? { call, reply } : undefined;
  }

  async reply(actionId: string): Promise<Reply | undefined> {
    const recent = this.#recent.get(actionId);
    if (recent) return recent.reply;
    const event = await this.#observationEvent(actionId);
    if (!event) return undefined;
    const { observation, duration_ms: durationMs, truncated, output_file: outputFile } = event;
    return {
      observation: observation as Reply['observation'],
      ...(truncated === true ? { truncated } : {}),
      ...(typeof outputFile === 'string' ? { output_file: outputFile } : {}),
      action_id: actionId,
      duration_ms: typeof durationMs === 'number' ? durationMs : 0,
    };
  }

  /** @returns undefined when the log does not keep it (any more) */
  async record(actionId: string): Promise<ActionRecord | undefined> {
    const entry = this.#index.find(actionId);
    const begun = entry?.actionSeq === undefined ? undefined : await this.#index.load(entry.actionSeq);
    if (!begun) return undefined;
    const ended = await this.#observationEvent(actionId);
    return {
      action_id: actionId,
      action: begun['action'],
      status: ended ? (ended['status'] as CallStatus) : 'interrupted',
      lane: begun.lane ?? null,
      created: begun.time,
      started: ended ? ((ended['started'] as string | undefined) ?? null) : null,
      finished: ended?.time ?? null,
      ...(ended ? { observation: ended['observation'] } : {}),
    };
  }

  /** Ids of recorded actions, newest first; the copy is as large as the log has actions. */
  newest(): string[] {
    return [...this.#index.actions().keys()].toReversed();
  }

  async #observationEvent(actionId: string): Promise<LoggedEvent | undefined> {
    const seq = this.#index.find(actionId)?.observationSeq;
    return seq === undefined ? undefined : this.#index.load(seq);
  }
}
