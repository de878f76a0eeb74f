import { crc32 } from 'node:zlib';
import type { IdempotencyKey, RecordHead } from './record.ts';
import { FRAME_BYTES, HEADER_BYTES } from './segment.ts';

/** Bytes between two remembered offsets: what a reader skips at most. */
export const OFFSET_INTERVAL_BYTES = 64 * 1024;
const INDEX_VERSION = 1;

/** Seqs of one kind of event with their action ids, side by side. */
interface Marks {
  readonly seqs: number[];
  readonly ids: string[];
}

interface KeyMark extends IdempotencyKey {
  readonly action_id: string;
}

/** What is known of a segment without reading it; kept in memory, and beside a sealed segment as its `.idx`. */
interface SegmentFields {
  readonly first: number;
  /** `first - 1` while there is no record. */
  last: number;
  /** Of the file, up to the end of the last record. */
  bytes: number;
  firstTime: string;
  lastTime: string;
  /** Sparse: seq and offset of some records, ascending. */
  readonly seqs: number[];
  readonly offsets: number[];
  readonly actions: Marks;
  readonly observations: Marks;
  /** Observations that say that their action was never begun. */
  readonly refused: number[];
  readonly keys: KeyMark[];
  /** Whole events beside the log: seq and size. */
  readonly blobs: [number, number][];
}

export class Segment {
  readonly fields: SegmentFields;
  #blobBytes: number;

  constructor(first: number, fields?: SegmentFields) {
    this.fields = fields ?? {
      first,
      last: first - 1,
      bytes: HEADER_BYTES,
      firstTime: '',
      lastTime: '',
      seqs: [],
      offsets: [],
      actions: { seqs: [], ids: [] },
      observations: { seqs: [], ids: [] },
      refused: [],
      keys: [],
      blobs: [],
    };
    this.#blobBytes = this.fields.blobs.reduce((sum, [, bytes]) => sum + bytes, 0);
  }

  get first(): number {
    return this.fields.first;
  }

  get last(): number {
    return this.fields.last;
  }

  get bytes(): number {
    return this.fields.bytes;
  }

  get isEmpty(): boolean {
    return this.last < this.first;
  }

  /** What it takes on disk, whole events beside it included. */
  get weight(): number {
    return this.bytes + this.#blobBytes;
  }

  /** Notes the record that was written at the end. */
  add(head: RecordHead, key: IdempotencyKey | undefined, payloadBytes: number): void {
    const { fields } = this;
    if (this.isEmpty) fields.firstTime = head.time;
    const lastOffset = fields.offsets.at(-1);
    if (lastOffset === undefined || fields.bytes - lastOffset >= OFFSET_INTERVAL_BYTES) {
      fields.seqs.push(head.seq);
      fields.offsets.push(fields.bytes);
    }
    fields.last = head.seq;
    fields.lastTime = head.time;
    fields.bytes += FRAME_BYTES + payloadBytes;
    if (head.blobBytes > 0) {
      fields.blobs.push([head.seq, head.blobBytes]);
      this.#blobBytes += head.blobBytes;
    }
    if (head.actionId === undefined) return;
    if (head.kind === 'action') {
      fields.actions.seqs.push(head.seq);
      fields.actions.ids.push(head.actionId);
      if (key) fields.keys.push({ ...key, action_id: head.actionId });
    } else if (head.kind === 'observation') {
      fields.observations.seqs.push(head.seq);
      fields.observations.ids.push(head.actionId);
      if (head.isRefused) fields.refused.push(head.seq);
    }
  }

  /** A remembered record at or before a seq of this segment. */
  floor(seq: number): { readonly seq: number; readonly offset: number } {
    const { seqs, offsets } = this.fields;
    let low = 0;
    let high = seqs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((seqs[middle] ?? Infinity) <= seq) low = middle + 1;
      else high = middle;
    }
    return { seq: seqs[low - 1] ?? this.first, offset: offsets[low - 1] ?? HEADER_BYTES };
  }
}

/** The text of an `.idx`: its checksum on a line, then JSON. */
export function encodeIndex(segment: Segment, generation: string): string {
  const text = JSON.stringify({ version: INDEX_VERSION, generation, ...segment.fields });
  return `${crc32(text)}\n${text}`;
}

/** Undefined when it is damaged, of another version, or of another segment; the segment may have changed since. */
export function decodeIndex(
  text: string,
  first: number,
): { readonly segment: Segment; readonly generation: string } | undefined {
  const lineEnd = text.indexOf('\n');
  const body = text.slice(lineEnd + 1);
  if (lineEnd < 0 || text.slice(0, lineEnd) !== String(crc32(body))) return undefined;
  const { version, generation, ...fields } = JSON.parse(body) as SegmentFields & {
    version: unknown;
    generation: string;
  };
  if (version !== INDEX_VERSION || fields.first !== first) return undefined;
  return { segment: new Segment(fields.first, fields), generation };
}
