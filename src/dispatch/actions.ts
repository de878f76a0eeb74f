import { type Call, isOver } from './call.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { ActionRecord, History } from './history.ts';
import { keptObservation } from './journal.ts';
import type { Secrets } from '../sandbox/secrets.ts';

export interface ListRequest {
  readonly status?: string | undefined;
  readonly limit: number;
}

/** Actions looked at for one list with a `status`: finding rare ones must not read the whole log. */
const MAX_SCANNED = 2000;

/** Actions as resources: those in flight and those the event log keeps. */
export class Actions {
  readonly #dispatcher: Dispatcher;
  readonly #history: History;
  readonly #secrets: Secrets;

  constructor(dispatcher: Dispatcher, history: History, secrets: Secrets) {
    this.#dispatcher = dispatcher;
    this.#history = history;
    this.#secrets = secrets;
  }

  /**
   * @param waitMs how long to wait for the end of an action in flight
   * @returns undefined when there is no such action
   */
  async get(actionId: string, waitMs: number): Promise<ActionRecord | undefined> {
    const call = this.#dispatcher.find(actionId);
    if (call === undefined) return this.#over(actionId);
    if (waitMs > 0) await within(this.#dispatcher.replyOf(actionId), waitMs);
    return isOver(call) && this.#dispatcher.find(actionId) === undefined ? this.#over(actionId) : this.#live(call);
  }

  /** Newest first, without observations. */
  async list({ status, limit }: ListRequest): Promise<ActionRecord[]> {
    const live = this.#dispatcher.calls().toReversed();
    const records = live
      .map((call) => this.#live(call))
      .filter((record) => status === undefined || record.status === status);
    const seen = new Set(live.map(({ id }) => id));
    let scanned = 0;
    for (const id of this.#history.newest()) {
      if (records.length >= limit || scanned >= MAX_SCANNED) break;
      if (seen.has(id)) continue;
      scanned += 1;
      const record = await this.#over(id);
      if (record && (status === undefined || record.status === status)) records.push(withoutObservation(record));
    }
    return records.slice(0, limit);
  }

  async #over(actionId: string): Promise<ActionRecord | undefined> {
    const unrecorded = this.#history.unrecorded(actionId);
    if (unrecorded === undefined) return this.#history.record(actionId);
    const { call, reply } = unrecorded;
    return { ...this.#live(call), observation: keptObservation(call, reply) };
  }

  #live(call: Call): ActionRecord {
    const { id, action, status, lane, created, started, finished } = call;
    return {
      action_id: id,
      action: call.isHidden ? { action: action.action, args: { hidden: true } } : this.#secrets.maskValue(action),
      status,
      lane: lane === undefined ? null : this.#secrets.mask(lane),
      created: created.toISOString(),
      started: started?.toISOString() ?? null,
      finished: finished?.toISOString() ?? null,
    };
  }
}

function withoutObservation(record: ActionRecord): ActionRecord {
  const { observation: _, ...rest } = record;
  return rest;
}

async function within(promise: Promise<unknown>, ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await Promise.race([promise, new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)))]);
  clearTimeout(timer);
}
