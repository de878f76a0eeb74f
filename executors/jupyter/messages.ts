import { randomUUID } from 'node:crypto';

/** What goes over a kernel's socket, in the Jupyter messaging protocol 5.3; of what arrives only what is used here. */
export interface KernelMessage {
  readonly type: string;
  /** `msg_id` of the request it belongs to; empty when it belongs to none. */
  readonly parent: string;
  readonly content: JsonObject;
}

export type JsonObject = Readonly<Record<string, unknown>>;

export interface ExecuteRequest {
  readonly code: string;
  /** Nothing is announced to other clients, and `post_run_cell` hooks stay quiet. */
  readonly silent: boolean;
  /** Evaluated after the code, without being part of it; by name. */
  readonly userExpressions?: Readonly<Record<string, string>>;
}

export interface OutgoingMessage {
  readonly id: string;
  /** One text frame. */
  readonly frame: string;
}

/** V0 §6.2: nothing of a cell goes into the history, and nobody can answer a question. */
export function executeRequest(request: ExecuteRequest, session: string): OutgoingMessage {
  return outgoing('execute_request', session, {
    code: request.code,
    silent: request.silent,
    store_history: false,
    user_expressions: request.userExpressions ?? {},
    allow_stdin: false,
    stop_on_error: true,
  });
}

export function kernelInfoRequest(session: string): OutgoingMessage {
  return outgoing('kernel_info_request', session, {});
}

function outgoing(type: string, session: string, content: JsonObject): OutgoingMessage {
  const id = randomUUID().replaceAll('-', '');
  const header = { msg_id: id, msg_type: type, session, username: '', version: '5.3', date: new Date().toISOString() };
  return {
    id,
    frame: JSON.stringify({ channel: 'shell', header, parent_header: {}, metadata: {}, content, buffers: [] }),
  };
}

/** Bytes before the first part of a binary frame: the number of parts, then where each begins. */
const OFFSET_BYTES = 4;

/** @returns undefined for a frame that is no message of the protocol */
export function readMessage(frame: Buffer, isBinary: boolean): KernelMessage | undefined {
  try {
    return checked(JSON.parse((isBinary ? firstPart(frame) : frame).toString('utf8')));
  } catch {
    return undefined;
  }
}

/** A message with binary buffers, as widgets send them: the message is the first part. */
function firstPart(frame: Buffer): Buffer {
  const parts = frame.readUInt32BE(0);
  const start = frame.readUInt32BE(OFFSET_BYTES);
  const end = parts > 1 ? frame.readUInt32BE(2 * OFFSET_BYTES) : frame.length;
  return frame.subarray(start, end);
}

function checked(message: unknown): KernelMessage | undefined {
  if (!isObject(message) || !isObject(message['header']) || !isObject(message['content'])) return undefined;
  const type = message['header']['msg_type'];
  const parent = isObject(message['parent_header']) ? message['parent_header']['msg_id'] : undefined;
  if (typeof type !== 'string') return undefined;
  return { type, parent: typeof parent === 'string' ? parent : '', content: message['content'] };
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A field that should be a string. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
