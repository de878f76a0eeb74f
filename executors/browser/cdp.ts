import type { Readable, Writable } from 'node:stream';
import type { ConnectOverCDPTransport } from 'playwright-core';
import { MAX_MESSAGE_BYTES } from './limits.ts';

/** A message of the Chrome DevTools Protocol. */
interface Message {
  readonly id?: number;
  readonly method?: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- what the browser sends; whoever asked knows its shape
  readonly params?: any;
  // oxlint-disable-next-line typescript/no-explicit-any -- likewise
  readonly result?: any;
  readonly error?: { readonly message: string };
  readonly sessionId?: string;
}

interface Pending {
  readonly resolve: (result: never) => void;
  readonly reject: (error: Error) => void;
}

export type EventListener = (method: string, params: Record<string, unknown>, sessionId: string) => void;

/** Our own requests count from here, the driver's from 1. */
const FIRST_OWN_ID = 1_000_000_000;

/** The connection to the browser is gone, or the page behind a session. */
export class DisconnectedError extends Error {
  override name = 'DisconnectedError';
}

/**
 * The one connection to a browser: pipes, so that nobody else can reach it and the browser ends when this process does. The driver
 * (Playwright) and our own observation share it, each with its own sessions: ours are all below one session of the browser itself.
 */
export class CdpConnection {
  readonly #output: Writable;
  readonly #pending = new Map<number, Pending & { readonly sessionId: string | undefined }>();
  readonly #sessions = new Set<string>();
  readonly #listeners = new Set<EventListener>();
  readonly #closed = new Set<() => void>();
  #chunks: Buffer[] = [];
  #chunkBytes = 0;
  #nextId = FIRST_OWN_ID;
  #isAttaching = false;
  #isClosed = false;
  #browserSession = '';

  /** For the driver. */
  readonly transport: ConnectOverCDPTransport;

  constructor(output: Writable, input: Readable) {
    this.#output = output;
    this.transport = { send: (message) => this.#write(message), close: () => {} };
    input.on('data', (chunk: Buffer) => this.#read(chunk));
    for (const event of ['close', 'error', 'end'] as const) input.once(event, () => this.#enqueue(() => this.#close()));
    output.on('error', () => this.#enqueue(() => this.#close()));
  }

  /** Before the driver connects. */
  async start(): Promise<void> {
    this.#isAttaching = true;
    const { sessionId } = await this.send<{ sessionId: string }>('Target.attachToBrowserTarget', {});
    this.#isAttaching = false;
    this.#browserSession = sessionId;
    // Tabs are known from the moment they begin to open.
    await this.send('Target.setDiscoverTargets', { discover: true, filter: [{ type: 'page' }] }, sessionId);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Our session of the browser itself. */
  get browserSession(): string {
    return this.#browserSession;
  }

  /** @returns what ends the listening */
  onClose(listener: () => void): () => void {
    if (this.#isClosed) listener();
    else this.#closed.add(listener);
    return () => this.#closed.delete(listener);
  }

  /** Events of our sessions. @returns what ends the listening */
  onEvent(listener: EventListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** @throws DisconnectedError, or the browser's complaint; waits as long as the browser does */
  send<T = object>(method: string, params: object, sessionId?: string): Promise<T> {
    if (this.#isClosed) return Promise.reject(new DisconnectedError('The browser has ended.'));
    const id = this.#nextId++;
    return new Promise<T>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, sessionId });
      this.#write({ id, method, params, ...(sessionId === undefined ? {} : { sessionId }) });
    });
  }

  #write(message: object): void {
    if (!this.#isClosed) this.#output.write(`${JSON.stringify(message)}\0`);
  }

  #read(chunk: Buffer): void {
    let from = 0;
    for (let end = chunk.indexOf(0); end >= 0; end = chunk.indexOf(0, from)) {
      this.#chunks.push(chunk.subarray(from, end));
      const whole = this.#chunks.length === 1 ? this.#chunks[0] : Buffer.concat(this.#chunks);
      const isTooLong = this.#chunkBytes + end - from > MAX_MESSAGE_BYTES;
      this.#chunks = [];
      this.#chunkBytes = 0;
      from = end + 1;
      if (isTooLong) this.#enqueue(() => this.#close());
      else if (whole) this.#enqueue(() => this.#receive(JSON.parse(whole.toString('utf8')) as Message));
    }
    if (from >= chunk.length) return;
    this.#chunkBytes += chunk.length - from;
    if (this.#chunkBytes <= MAX_MESSAGE_BYTES) this.#chunks.push(chunk.subarray(from));
    else this.#chunks = [];
  }

  /**
   * Each message has a task of its own: what a reply sets going must have run up to its next wait before the following message is
   * handled. Without that the driver misses events that came in one piece with a reply, such as the first document of a popup.
   */
  #enqueue(handle: () => void): void {
    setImmediate(handle);
  }

  #receive(message: Message): void {
    const { id, method, params, sessionId } = message;
    if (id !== undefined && id >= FIRST_OWN_ID) return this.#settle(id, message);
    const isOwn = sessionId !== undefined && this.#sessions.has(sessionId);
    if (method === 'Target.attachedToTarget' && (isOwn || (this.#isAttaching && sessionId === undefined)))
      this.#sessions.add(params.sessionId as string);
    else if (!isOwn) return this.transport.onmessage?.(message);
    if (method === 'Target.detachedFromTarget') this.#forget(params.sessionId as string);
    for (const listener of this.#listeners) listener(method ?? '', params ?? {}, sessionId ?? '');
  }

  #settle(id: number, { result, error }: Message): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (error) pending?.reject(new Error(error.message));
    else pending?.resolve(result as never);
  }

  /** The session's page is gone: nothing that it was asked is answered any more. */
  #forget(sessionId: string): void {
    this.#sessions.delete(sessionId);
    for (const [id, pending] of this.#pending) {
      if (pending.sessionId !== sessionId) continue;
      this.#pending.delete(id);
      pending.reject(new DisconnectedError('The page is gone.'));
    }
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const { reject } of this.#pending.values()) reject(new DisconnectedError('The browser has ended.'));
    this.#pending.clear();
    this.transport.onclose?.('The browser has ended.');
    for (const listener of this.#closed) listener();
    this.#closed.clear();
  }
}
