import type { Segment } from './segment-index.ts';

export interface RetentionLimits {
  readonly maxBytes: number;
  readonly maxAgeMs: number;
}

/** How many segments, from the oldest, are to go. The one with the newest event stays, and so does the one in use. */
export function countExpired(segments: readonly Segment[], limits: RetentionLimits, now: number): number {
  let total = segments.reduce((sum, { weight }) => sum + weight, 0);
  const newest = segments.findLastIndex(({ isEmpty }) => !isEmpty);
  let count = 0;
  for (const segment of segments.slice(0, Math.max(0, newest))) {
    const isTooOld = now - Date.parse(segment.fields.lastTime) > limits.maxAgeMs;
    if (total <= limits.maxBytes && !isTooOld) break;
    total -= segment.weight;
    count += 1;
  }
  return count;
}
