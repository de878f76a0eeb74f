import { type EventFilter, matchesFilter } from './subscription.ts';
import type { EventReader, LogExtent, StoredEvent } from './types.ts';

export interface PageRequest extends EventFilter {
  readonly after: number;
  /** Events on one page at most. */
  readonly limit: number;
}

export interface EventPage extends LogExtent {
  readonly events: readonly StoredEvent[];
  /** The cursor to go on from: everything up to it was looked at. */
  readonly next: number;
}

/** JSON on one page; one event may always be there. */
export const MAX_PAGE_BYTES = 4 * 1024 * 1024;

/** What one request reads to find events that a filter wants; with `next` the search goes on. */
export const MAX_SCANNED_BYTES = 64 * 1024 * 1024;

const BATCH = { maxEvents: 2048, maxBytes: 1024 * 1024 } as const;

/**
 * One page of the log. It is empty, with `next` at the beginning of the log, when the cursor is ahead of everything: it belongs
 * to another generation.
 */
export async function readPage(reader: EventReader, { after, limit, ...filter }: PageRequest): Promise<EventPage> {
  const { latest, oldest } = reader.extent;
  if (after > latest) return { ...extentOf(reader), events: [], next: Math.max(0, oldest - 1) };
  const isFiltered = filter.kinds !== undefined || filter.actionId !== undefined;
  const events: StoredEvent[] = [];
  let next = after;
  let bytes = 0;
  let scannedBytes = 0;
  while (next < latest && events.length < limit && scannedBytes < MAX_SCANNED_BYTES) {
    const maxEvents = isFiltered ? BATCH.maxEvents : limit - events.length;
    const batch = await reader.read(next, { ...BATCH, maxEvents });
    if (batch.length === 0) break;
    for (const event of batch) {
      if (matchesFilter(filter, event.kind, event.actionId)) {
        const isFull = events.length === limit || (events.length > 0 && bytes + event.json.length > MAX_PAGE_BYTES);
        if (isFull) return { ...extentOf(reader), events, next };
        events.push(event);
        bytes += event.json.length;
      }
      scannedBytes += event.json.length;
      next = event.seq;
    }
  }
  return { ...extentOf(reader), events, next };
}

function extentOf(reader: EventReader): LogExtent {
  const { stream, oldest, latest } = reader.extent;
  return { stream, oldest, latest };
}
