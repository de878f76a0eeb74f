import type { FastifyRequest } from 'fastify';
import type { RawData, WebSocket } from 'ws';
import { type ControlFrame, type Sink, Subscription, type SubscriptionRequest } from '../src/events/subscription.ts';
import type { StoredEvent } from '../src/events/types.ts';
import { keyInQuery } from './events.query.ts';
import { Outlet } from './events.stream.outlet.ts';
import type { EventStreams, Peer } from './events.stream.peers.ts';

/** Why the server closes (RFC 6455 §7.4, and DESIGN §4). */
export const CLOSE = {
  goingAway: 1001,
  unsupportedData: 1003,
  policyViolation: 1008,
  internal: 1011,
  tryAgainLater: 1013,
  refused: 4001,
} as const;

const AUTH_HINT = 'Send {"type":"auth","session_api_key":"..."} first, or the key in a header or in the query';

/** Answers to pings that wait for a client which pings and does not read. */
const MAX_PONGS_UNDER_WAY = 64;

/** A WebSocket that is open: asks for its key if that is not there yet, then follows the log until one side goes. */
export class SocketPeer implements Peer, Sink {
  readonly #socket: WebSocket;
  readonly #streams: EventStreams;
  readonly #request: SubscriptionRequest;
  readonly #outlet: Outlet;
  readonly #gone = new AbortController();
  #authTimer: NodeJS.Timeout | undefined;
  #subscription: Subscription | undefined;
  /** Pings: how many were sent, which of them left last, and which was answered last. */
  #pinged = 0;
  #pingLeft = 0;
  #ponged = 0;
  /** Answers to the client's pings that have not left yet, and the newest ping that has to wait for that. */
  #pongsUnderWay = 0;
  #unanswered: Buffer | undefined;

  constructor(socket: WebSocket, { raw }: FastifyRequest, streams: EventStreams, request: SubscriptionRequest) {
    this.#socket = socket;
    this.#streams = streams;
    this.#request = request;
    this.#outlet = new Outlet(raw.socket);
  }

  start({ headers, query }: FastifyRequest): void {
    const { options } = this.#streams;
    const key = keyInQuery(query);
    this.#socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
    this.#socket.on('ping', (data) => this.#pong(data));
    this.#socket.on('pong', () => (this.#ponged = this.#pinged));
    this.#socket.once('close', () => this.#end());
    if (this.#streams.isClosing) return this.cut();
    const { isCrowded } = this.#streams;
    this.#streams.add(this);
    if (isCrowded) return this.#close(CLOSE.tryAgainLater, 'Too many connections');
    if (options.guard.hasValidKey(headers, key)) return this.#follow();
    if (key !== undefined || options.guard.hasKeyHeader(headers)) return this.#close(CLOSE.refused, 'Invalid API Key');
    this.#authTimer = setTimeout(() => this.#close(CLOSE.refused, AUTH_HINT), options.authLimitMs);
  }

  get bufferedBytes(): number {
    return this.#socket.bufferedAmount;
  }

  get flushedBytes(): number {
    return this.#outlet.flushedBytes;
  }

  drained(): Promise<void> {
    return this.#outlet.drained();
  }

  sendEvent({ json }: StoredEvent): void {
    this.#send(json);
  }

  sendControl(frame: ControlFrame): void {
    this.#send(JSON.stringify(frame));
  }

  /** A ping that is still behind other data says nothing about the other side; its progress does. */
  beat(): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    this.#subscription?.poke();
    if (this.#pingLeft < this.#pinged) return;
    if (this.#ponged < this.#pinged) {
      this.#socket.terminate();
      return;
    }
    const ping = ++this.#pinged;
    this.#socket.ping(undefined, undefined, (error?: Error) => {
      if (!error) this.#pingLeft = ping;
    });
  }

  leave(): void {
    this.#close(CLOSE.goingAway, 'The server is shutting down');
  }

  cut(): void {
    this.#socket.terminate();
  }

  #send(data: Buffer | string): void {
    this.#outlet.gather();
    this.#socket.send(data, { binary: false });
  }

  /** Of pings that come faster than answers leave only the newest is answered, which is enough (RFC 6455 §5.5.3). */
  #pong(data: Buffer): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    if (this.#pongsUnderWay >= MAX_PONGS_UNDER_WAY) {
      this.#unanswered = data;
      return;
    }
    this.#pongsUnderWay += 1;
    this.#outlet.gather();
    this.#socket.pong(data, false, () => {
      this.#pongsUnderWay -= 1;
      const next = this.#unanswered;
      this.#unanswered = undefined;
      if (next) this.#pong(next);
    });
  }

  #follow(): void {
    if (this.#streams.isFull) return this.#close(CLOSE.tryAgainLater, 'Too many subscribers');
    const { feed, options } = this.#streams;
    this.#subscription = new Subscription(feed, this.#request, this, this.#gone.signal, options);
    void this.#streams.follow(this.#subscription).then((end) => {
      if (end === 'slow') this.#close(CLOSE.tryAgainLater, 'Too slow: come back with after=<the last seq you got>');
      if (end === 'failed') this.#close(CLOSE.internal, 'The events could not be read');
    });
  }

  /** Nothing but a key is expected; other JSON is left alone, clients send their own kinds of pings. */
  #receive(data: RawData, isBinary: boolean): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return;
    if (isBinary) return this.#close(CLOSE.unsupportedData, 'Only text frames with JSON are taken');
    const message = parseJson(data);
    if (this.#authTimer !== undefined) this.#authenticate(message);
    else if (message === undefined) this.#close(CLOSE.policyViolation, 'Only JSON is taken');
  }

  #authenticate(message: unknown): void {
    clearTimeout(this.#authTimer);
    this.#authTimer = undefined;
    const key = keyInMessage(message);
    if (key === undefined) this.#close(CLOSE.refused, AUTH_HINT);
    else if (this.#streams.options.guard.hasValidKey({}, key)) this.#follow();
    else this.#close(CLOSE.refused, 'Invalid API Key');
  }

  /** @param reason at most 123 bytes */
  #close(code: number, reason: string): void {
    this.#gone.abort();
    clearTimeout(this.#authTimer);
    this.#socket.close(code, reason);
  }

  #end(): void {
    this.#gone.abort();
    clearTimeout(this.#authTimer);
    this.#streams.remove(this);
  }
}

function parseJson(data: RawData): unknown {
  try {
    // oxlint-disable-next-line typescript/no-base-to-string -- a Buffer, as long as binaryType is left alone
    return JSON.parse(data.toString());
  } catch {
    return undefined;
  }
}

function keyInMessage(message: unknown): string | undefined {
  if (typeof message !== 'object' || message === null) return undefined;
  if (!('type' in message) || message.type !== 'auth' || !('session_api_key' in message)) return undefined;
  return typeof message.session_api_key === 'string' ? message.session_api_key : undefined;
}
