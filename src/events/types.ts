/** The kinds of events in the log (DESIGN: action, live output, observation, server transition). */
export const EVENT_KINDS = ['action', 'output', 'observation', 'server'] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

/** What the one writer hands over; the log adds `seq`, `id` and `time`. Payload keys stand beside these at the top level. */
export interface NewEvent {
  readonly kind: EventKind;
  readonly action_id?: string;
  readonly lane?: string;
  readonly source?: string;
  readonly [payload: string]: unknown;
}

/** An event as it is stored and sent. */
export interface LoggedEvent extends NewEvent {
  /** Contiguous from 1 within a generation. */
  readonly seq: number;
  readonly id: string;
  /** ISO 8601, UTC. */
  readonly time: string;
}

/** One event in its stored form, ready to be sent as it is; at most 256 KiB. */
export interface StoredEvent {
  readonly seq: number;
  readonly kind: EventKind;
  readonly actionId: string | undefined;
  /** The JSON text in UTF-8, without a line end. */
  readonly json: Buffer;
}

/** The extent of what can be read; both 0 while the log is empty. */
export interface LogExtent {
  /** Generation: changes when a log begins anew. */
  readonly stream: string;
  readonly oldest: number;
  /** The newest event that is on disk: readers see no other. */
  readonly latest: number;
}

/** Reads events in order; never past `latest`. */
export interface EventReader {
  readonly extent: LogExtent;
  /**
   * Events with `seq > after`, oldest first, up to a number or a size, at least one if there is any. Empty when caught up.
   * When `after` lies before what retention has kept, it begins with the oldest: the caller compares with `extent`.
   */
  read(
    after: number,
    limits: { readonly maxEvents: number; readonly maxBytes: number },
  ): Promise<readonly StoredEvent[]>;
  /** Calls back, not more than once per change of `latest`, until disposed. */
  onAppend(listener: (extent: LogExtent) => void): { dispose(): void };
  /** The whole event of a seq, with cut strings put back from beside the log; undefined when it is no longer kept. */
  load(seq: number): Promise<LoggedEvent | undefined>;
}
