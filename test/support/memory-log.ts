import type { EventIndex } from '../../src/dispatch/history.ts';
import type { EventWriter } from '../../src/dispatch/journal.ts';
import type { LoggedEvent, NewEvent } from '../../src/events/types.ts';

type Entry = NonNullable<ReturnType<EventIndex['find']>>;

/** An event log in memory; `flush` waits while `isHeld`, and fails with `fault`. */
export class MemoryLog implements EventWriter, EventIndex {
  readonly events: LoggedEvent[] = [];
  readonly #waiting: (() => void)[] = [];
  isHeld = false;
  fault: Error | undefined;

  append(event: NewEvent): number {
    const seq = this.events.length + 1;
    this.events.push({ ...event, seq, id: `event-${seq}`, time: new Date().toISOString() });
    return seq;
  }

  async flush(): Promise<void> {
    if (this.isHeld) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (this.fault) throw this.fault;
  }

  /** Lets go what waits now. */
  release(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** `kind: command`, or the text or the content of an event, in order. */
  story(): string[] {
    return this.events.map((event) => {
      const { action, observation, text } = event as { action?: { args: { command?: string } }; observation?: { content: string }; text?: string };
      return `${event.kind}: ${action?.args.command ?? observation?.content ?? text ?? ''}`;
    });
  }

  find(actionId: string): Entry | undefined {
    return this.actions().get(actionId);
  }

  byKey(key: string): { readonly action_id: string; readonly hash: string } | undefined {
    for (const { action_id: id, idempotency } of this.events as (LoggedEvent & { idempotency?: { key: string; hash: string } })[]) {
      if (id !== undefined && idempotency?.key === key) return { action_id: id, hash: idempotency.hash };
    }
    return undefined;
  }

  actions(): ReadonlyMap<string, Entry> {
    const entries = new Map<string, Entry>();
    for (const { kind, action_id: id, seq } of this.events) {
      if (id === undefined) continue;
      if (kind === 'action') entries.set(id, { ...entries.get(id), actionSeq: seq });
      if (kind === 'observation') entries.set(id, { ...entries.get(id), observationSeq: seq });
    }
    return entries;
  }

  load(seq: number): Promise<LoggedEvent | undefined> {
    return Promise.resolve(this.events[seq - 1]);
  }
}
