import { StringDecoder } from 'node:string_decoder';
import type { NewEvent } from '../events/types.ts';
import type { Action } from '../protocol/actions.ts';
import type { Observation } from '../protocol/observations.ts';
import type { SecretStream } from '../sandbox/secret-stream.ts';
import type { Secrets } from '../sandbox/secrets.ts';
import { type Call, isOver } from './call.ts';
import type { ActionResult } from './executor.ts';

/** The part of the event log that is written to. */
export interface EventWriter {
  /** @returns the event's seq; -1 when live output cannot be kept because the disk is full */
  append(event: NewEvent): number;
  /** Resolves when everything up to `seq`, or all so far, is on disk; rejects with the disk's error, and for -1. */
  flush(seq?: number): Promise<void>;
}

export interface JournalOptions {
  readonly writer: EventWriter;
  readonly secrets: Secrets;
  /** Live output of one action that is kept, in bytes of UTF-8; the rest is only in the output file. */
  readonly maxOutputBytes: number;
  /** Called with the characters of each piece of live output. */
  readonly onOutput?: (bytes: number) => void;
}

/** An `output` event holds at most this much text: 64 KiB in UTF-8 even if each character takes three bytes. */
const MAX_OUTPUT_EVENT_CHARS = 21_000;
/** Live output waits so long for more of it, so that short commands make one write. */
const OUTPUT_DELAY_MS = 15;

interface LiveOutput {
  readonly call: Call;
  readonly mask: SecretStream;
  text: string;
  totalBytes: number;
  timer: NodeJS.Timeout | undefined;
}

/** Records every call in the event log, in order, without secrets. The only place that appends events. */
export class Journal {
  readonly #options: JournalOptions;
  readonly #outputs = new Map<string, LiveOutput>();
  /** Actions that the log did not take: their ends would be of nothing, and with a disk that takes nothing they add up. */
  readonly #untaken = new WeakSet<Call>();

  constructor(options: JournalOptions) {
    this.#options = options;
  }

  /** Resolves when the action is on disk: only then may it start. */
  async started(call: Call): Promise<void> {
    const { writer, secrets } = this.#options;
    const { action } = call;
    if (action.action === 'run') secrets.addAssignments(action.args.command);
    const seq = writer.append({
      kind: 'action',
      action_id: call.id,
      ...this.#laneOf(call),
      source: typeof action.source === 'string' ? secrets.mask(action.source) : 'agent',
      action: call.isHidden ? withoutText(action) : secrets.maskValue(action),
      ...(call.idempotency === undefined ? {} : { idempotency: call.idempotency }),
    });
    if (seq < 0) this.#untaken.add(call);
    await writer.flush(seq);
  }

  /** As {@link Secrets.mask}. */
  mask(text: string, isCut = false): string {
    return this.#options.secrets.mask(text, isCut);
  }

  /** Live output, also of an action that is over, as of a thread that goes on printing; never waits. */
  output(call: Call, text: string): void {
    const known = this.#outputs.get(call.id);
    if (known === undefined && isOver(call)) {
      this.#late(call, text);
      return;
    }
    const live = known ?? this.#open(call);
    const room = this.#options.maxOutputBytes - live.totalBytes;
    if (room <= 0) return;
    const bytes = Buffer.byteLength(text);
    this.#options.onOutput?.(bytes);
    live.totalBytes += bytes;
    live.text += live.mask.push(bytes <= room ? text : firstBytes(text, room));
    if (bytes >= room) {
      // What waits may be the beginning of a secret, and its rest will not be seen.
      this.#emit(live);
      this.#append(call, { text: '', truncated: true });
      return;
    }
    if (live.text.length >= MAX_OUTPUT_EVENT_CHARS) this.#emit(live);
    else live.timer ??= setTimeout(() => this.#emit(live), OUTPUT_DELAY_MS);
  }

  /** A result as it may be answered and recorded: without secrets. Throws for one that cannot be looked through. */
  masked(result: ActionResult): ActionResult {
    return this.#options.secrets.maskValue(result);
  }

  /**
   * Resolves when the observation is on disk: only then may it be answered.
   * @param result as `masked` made it
   * @param durationMs milliseconds at work
   */
  async finished(call: Call, result: ActionResult, durationMs: number): Promise<void> {
    this.#close(call);
    const { writer } = this.#options;
    await writer.flush(this.#untaken.has(call) ? -1 : writer.append(this.#ending(call, result, durationMs)));
  }

  /** Resolves when all that was recorded is on disk. */
  async flush(): Promise<void> {
    await this.#options.writer.flush();
  }

  /** Something about the server itself that nobody waits for. */
  note(event: string, details: Readonly<Record<string, unknown>> = {}): void {
    this.#options.writer.append({ kind: 'server', event, ...details });
  }

  /** A transition of the server itself; resolves when it is on disk. */
  async server(event: string, details: Readonly<Record<string, unknown>> = {}): Promise<void> {
    this.note(event, details);
    await this.flush();
  }

  #ending(call: Call, result: ActionResult, durationMs: number): NewEvent {
    const { observation: _, ...extensions } = result;
    return {
      kind: 'observation',
      action_id: call.id,
      ...this.#laneOf(call),
      status: call.status,
      started: (call.started ?? call.created).toISOString(),
      observation: keptObservation(call, result),
      duration_ms: durationMs,
      ...extensions,
    };
  }

  #laneOf({ lane }: Call): { readonly lane?: string } {
    return lane === undefined ? {} : { lane: this.mask(lane) };
  }

  /** Nothing is kept in memory for an action that is over. */
  #late(call: Call, text: string): void {
    this.#options.onOutput?.(Buffer.byteLength(text));
    this.#appendPieces(call, this.mask(text));
  }

  #open(call: Call): LiveOutput {
    const live: LiveOutput = { call, mask: this.#options.secrets.stream(), text: '', totalBytes: 0, timer: undefined };
    this.#outputs.set(call.id, live);
    return live;
  }

  #close(call: Call): void {
    const live = this.#outputs.get(call.id);
    if (!live) return;
    if (live.totalBytes < this.#options.maxOutputBytes) live.text += live.mask.end();
    this.#emit(live);
    this.#outputs.delete(call.id);
  }

  #emit(live: LiveOutput): void {
    clearTimeout(live.timer);
    live.timer = undefined;
    const { text } = live;
    live.text = '';
    this.#appendPieces(live.call, text);
  }

  #appendPieces(call: Call, text: string): void {
    for (let at = 0; at < text.length;) {
      const end = pieceEnd(text, at);
      this.#append(call, { text: text.slice(at, end) });
      at = end;
    }
  }

  #append(call: Call, payload: { readonly text: string; readonly truncated?: true }): void {
    this.#options.writer.append({
      kind: 'output',
      action_id: call.id,
      ...this.#laneOf(call),
      ...payload,
    });
  }
}

/** The observation as it is kept: of a hidden action without text. */
export function keptObservation({ isHidden }: Call, { observation, hidden }: ActionResult): Observation {
  if (!isHidden && !hidden) return observation;
  const { extras } = observation;
  return { ...observation, message: '', content: '', extras: { ...extras, command: '' } } as Observation;
}

/** The end of a piece that does not split a surrogate pair. */
function pieceEnd(text: string, from: number): number {
  return wholeCharacters(text, from + MAX_OUTPUT_EVENT_CHARS);
}

/** The last place up to `limit` that is not within a surrogate pair. */
function wholeCharacters(text: string, limit: number): number {
  const end = Math.min(text.length, limit);
  const isPairSplit = end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800;
  return isPairSplit ? end - 1 : end;
}

/** Whole characters of at most so many bytes. */
function firstBytes(text: string, bytes: number): string {
  return new StringDecoder('utf8').write(Buffer.from(text).subarray(0, bytes));
}

function withoutText(action: Action): object {
  return { action: action.action, args: { hidden: true } };
}
