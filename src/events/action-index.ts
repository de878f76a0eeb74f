import type { IdempotencyKey, RecordHead } from './record.ts';
import type { Segment } from './segment-index.ts';

/** Where an action is in the log; a seq is missing when there is no such event (yet, or no longer). */
export interface ActionEntry {
  readonly actionSeq?: number;
  readonly observationSeq?: number;
}

export interface KeyEntry {
  readonly action_id: string;
  readonly hash: string;
}

interface MutableEntry {
  actionSeq?: number;
  observationSeq?: number;
}

/** Actions and idempotency keys of all that the log keeps: a function of its records, the same after a restart. */
export class ActionIndex {
  readonly #entries = new Map<string, MutableEntry>();
  readonly #keys = new Map<string, KeyEntry>();
  /** So that a refused action gives its key back. */
  readonly #keyOfAction = new Map<string, string>();

  get entries(): ReadonlyMap<string, ActionEntry> {
    return this.#entries;
  }

  find(actionId: string): ActionEntry | undefined {
    return this.#entries.get(actionId);
  }

  byKey(key: string): KeyEntry | undefined {
    return this.#keys.get(key);
  }

  /** Actions that began and have no end, oldest first. */
  open(): { readonly action_id: string; readonly seq: number }[] {
    const result: { action_id: string; seq: number }[] = [];
    for (const [action_id, { actionSeq, observationSeq }] of this.#entries) {
      if (actionSeq !== undefined && observationSeq === undefined) result.push({ action_id, seq: actionSeq });
    }
    return result.toSorted((a, b) => a.seq - b.seq);
  }

  add(head: RecordHead, key: IdempotencyKey | undefined): void {
    if (head.actionId === undefined) return;
    if (head.kind === 'action') {
      this.#addAction(head.actionId, head.seq);
      if (key) this.#addKey(key.key, { action_id: head.actionId, hash: key.hash });
    } else if (head.kind === 'observation') {
      this.#addObservation(head.actionId, head.seq, head.isRefused);
    }
  }

  addSegment({ fields }: Segment): void {
    for (const [at, seq] of fields.actions.seqs.entries()) this.#addAction(fields.actions.ids[at] ?? '', seq);
    for (const { key, hash, action_id } of fields.keys) this.#addKey(key, { action_id, hash });
    const refused = new Set(fields.refused);
    for (const [at, seq] of fields.observations.seqs.entries()) {
      this.#addObservation(fields.observations.ids[at] ?? '', seq, refused.has(seq));
    }
  }

  /** Forgets what a segment held; an action stays as long as one of its two events does, its key as long as the first. */
  removeSegment({ fields }: Segment): void {
    for (const [at, seq] of fields.actions.seqs.entries())
      this.#removeSeq(fields.actions.ids[at] ?? '', 'actionSeq', seq);
    for (const [at, seq] of fields.observations.seqs.entries()) {
      this.#removeSeq(fields.observations.ids[at] ?? '', 'observationSeq', seq);
    }
    for (const { action_id } of fields.keys) this.#removeKeyOf(action_id);
  }

  #addAction(actionId: string, seq: number): void {
    this.#entry(actionId).actionSeq = seq;
  }

  #addObservation(actionId: string, seq: number, isRefused: boolean): void {
    this.#entry(actionId).observationSeq = seq;
    if (isRefused) this.#removeKeyOf(actionId);
  }

  #addKey(key: string, entry: KeyEntry): void {
    this.#keys.set(key, entry);
    this.#keyOfAction.set(entry.action_id, key);
  }

  #entry(actionId: string): MutableEntry {
    let entry = this.#entries.get(actionId);
    if (!entry) {
      entry = {};
      this.#entries.set(actionId, entry);
    }
    return entry;
  }

  #removeSeq(actionId: string, which: 'actionSeq' | 'observationSeq', seq: number): void {
    const entry = this.#entries.get(actionId);
    if (entry?.[which] !== seq) return;
    delete entry[which];
    if (entry.actionSeq === undefined && entry.observationSeq === undefined) this.#entries.delete(actionId);
  }

  #removeKeyOf(actionId: string): void {
    const key = this.#keyOfAction.get(actionId);
    if (key === undefined) return;
    this.#keyOfAction.delete(actionId);
    if (this.#keys.get(key)?.action_id === actionId) this.#keys.delete(key);
  }
}
