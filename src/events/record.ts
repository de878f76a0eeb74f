import { createHash } from 'node:crypto';
import { cutPayload, cutString, MAX_RECORD_JSON_BYTES } from './cut.ts';
import type { EventKind, NewEvent } from './types.ts';

/** Larger events are cut in the log and kept whole beside it. Live output has twice as much: it comes often, and 64 KiB of text are a little more as JSON. */
const MAX_INLINE_BYTES = 64 * 1024;
const MAX_INLINE_OUTPUT_BYTES = MAX_RECORD_JSON_BYTES;

/** Beyond this nothing is kept beside the log: the event is only cut. */
export const MAX_BLOB_BYTES = 64 * 1024 * 1024;

/** For fields of the envelope when they alone would not fit. */
const MAX_ENVELOPE_STRING = 1024;

/** What the log itself needs to know of an event; all of it stands at the beginning of the JSON. */
export interface RecordHead {
  readonly seq: number;
  readonly time: string;
  readonly kind: EventKind;
  readonly actionId: string | undefined;
  /** Size of the whole event beside the log; 0 when the record is whole. */
  readonly blobBytes: number;
  readonly hasKey: boolean;
  readonly isRefused: boolean;
}

export interface IdempotencyKey {
  readonly key: string;
  readonly hash: string;
}

export interface Stamp {
  readonly seq: number;
  readonly id: string;
  readonly time: string;
}

export interface EncodedEvent {
  readonly head: RecordHead;
  readonly key: IdempotencyKey | undefined;
  readonly json: Buffer;
  /** The JSON of the whole event when `json` is cut. */
  readonly blob: Buffer | undefined;
  /** Why the payload could not become JSON; the event then says so itself. */
  readonly problem: unknown;
}

// The envelope's order is that of `envelopeOf`. Strings with anything but plain ASCII take the slow way.
const HEAD =
  /^\{"seq":(\d{1,16}),"id":"[ !#-[\]-~]*","time":"([-+\d:.TZ]*)","kind":"(\w+)"(?:,"action_id":"([ !#-[\]-~]*)")?(?!,"action_id")(?:,"payload_ref":\{"bytes":(\d+),"sha256":"\w*"\})?(?:,"refused":(true))?(,"idempotency":)?/;
const HEAD_BYTES = 1024;

/** Reads the head of a record written by {@link encodeEvent}; undefined when it is none. */
export function parseHead(json: Buffer): RecordHead | undefined {
  const match = HEAD.exec(json.toString('latin1', 0, HEAD_BYTES));
  if (match === null) return parseWhole(json);
  return {
    seq: Number(match[1]),
    time: match[2] ?? '',
    kind: match[3] as EventKind,
    actionId: match[4],
    blobBytes: Number(match[5] ?? 0),
    isRefused: match[6] !== undefined,
    hasKey: match[7] !== undefined && match[3] === 'action',
  };
}

function parseWhole(json: Buffer): RecordHead | undefined {
  try {
    const event = JSON.parse(json.toString()) as Record<string, unknown>;
    if (typeof event !== 'object' || event === null) return undefined;
    if (typeof event['seq'] !== 'number' || typeof event['kind'] !== 'string') return undefined;
    const reference = event['payload_ref'] as { bytes?: unknown } | undefined;
    return {
      seq: event['seq'],
      time: String(event['time']),
      kind: event['kind'] as EventKind,
      actionId: typeof event['action_id'] === 'string' ? event['action_id'] : undefined,
      blobBytes: Number(reference?.bytes ?? 0),
      hasKey: event['kind'] === 'action' && event['idempotency'] !== undefined,
      isRefused: event['refused'] === true,
    };
  } catch {
    return undefined;
  }
}

/** The idempotency key of a stored action event. */
export function parseKey(json: Buffer): IdempotencyKey | undefined {
  return keyOf((JSON.parse(json.toString()) as Record<string, unknown>)['idempotency']);
}

function keyOf(value: unknown): IdempotencyKey | undefined {
  const { key, hash } = (value ?? {}) as { key?: unknown; hash?: unknown };
  return typeof key === 'string' && typeof hash === 'string' ? { key, hash } : undefined;
}

/** Never throws. Without `mayKeepBlob` a large event is only cut. */
export function encodeEvent(event: NewEvent, stamp: Stamp, mayKeepBlob: boolean): EncodedEvent {
  let text: string;
  let problem: unknown;
  try {
    text = stringify(event, stamp);
  } catch (error) {
    problem = error;
    const { kind, action_id, lane, source } = event;
    text = stringify(
      { kind, action_id, lane, source, problem: `cannot be stored: ${String(error)}` } as NewEvent,
      stamp,
    );
  }
  const whole = Buffer.from(text);
  const limit = event.kind === 'output' ? MAX_INLINE_OUTPUT_BYTES : MAX_INLINE_BYTES;
  if (whole.length <= limit) return { ...describe(event, stamp, 0), json: whole, blob: undefined, problem };
  const blob = mayKeepBlob && whole.length <= MAX_BLOB_BYTES ? whole : undefined;
  return { ...describe(event, stamp, blob?.length ?? 0), json: cut(text, blob), blob, problem };
}

function describe(event: NewEvent, stamp: Stamp, blobBytes: number): Pick<EncodedEvent, 'head' | 'key'> {
  const key = event.kind === 'action' ? keyOf(event['idempotency']) : undefined;
  const hasKey = event.kind === 'action' && event['idempotency'] !== undefined;
  const isRefused = event['refused'] === true;
  const { seq, time } = stamp;
  const { kind, action_id: actionId } = event;
  return { head: { seq, time, kind, actionId, blobBytes, hasKey, isRefused }, key };
}

/** Fields that the log reads come first, whatever the order in the event; its own cannot be given from outside. */
function stringify(event: NewEvent, stamp: Stamp): string {
  const own = { ...stamp, payload_ref: undefined, refused: event['refused'] === true ? true : undefined };
  return JSON.stringify(Object.assign(envelopeOf(event, stamp, undefined), event, own));
}

interface PayloadReference {
  readonly bytes: number;
  readonly sha256: string;
}

function envelopeOf(event: Readonly<Record<string, unknown>>, stamp: Stamp, reference: PayloadReference | undefined) {
  return {
    seq: stamp.seq,
    id: stamp.id,
    time: stamp.time,
    kind: event['kind'],
    action_id: event['action_id'],
    payload_ref: reference,
    refused: event['refused'],
    idempotency: event['idempotency'],
    lane: event['lane'],
    source: event['source'],
  };
}

function cut(text: string, blob: Buffer | undefined): Buffer {
  const event = JSON.parse(text) as Record<string, unknown> & Stamp;
  const reference = blob && { bytes: blob.length, sha256: createHash('sha256').update(blob).digest('hex') };
  let envelope: Record<string, unknown> = envelopeOf(event, event, reference);
  if (Buffer.byteLength(JSON.stringify(envelope)) > MAX_INLINE_BYTES) {
    envelope = JSON.parse(JSON.stringify(envelope, shorten)) as Record<string, unknown>;
  }
  const payload = Object.fromEntries(Object.entries(event).filter(([key]) => !(key in envelope)));
  const envelopeBytes = Buffer.byteLength(JSON.stringify(envelope));
  return Buffer.from(JSON.stringify({ ...envelope, ...cutPayload(payload, envelopeBytes) }));
}

function shorten(_key: string, value: unknown): unknown {
  return typeof value === 'string' ? cutString(value, MAX_ENVELOPE_STRING) : value;
}
