import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { FastifyReply } from 'fastify';
import { type ControlFrame, type Sink, Subscription, type SubscriptionRequest } from '../src/events/subscription.ts';
import type { StoredEvent } from '../src/events/types.ts';
import { Outlet } from './events.stream.outlet.ts';
import type { EventStreams, Peer } from './events.stream.peers.ts';

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  // A proxy that collects the stream before it passes it on defeats it.
  'x-accel-buffering': 'no',
} as const;

/** How long the kernel waits before it asks whether the other side is still there. */
const KEEP_ALIVE_MS = 20_000;

/** A response of Server-Sent Events: `id` is the seq, `event` the kind, `data` the JSON; frames that are no events have no id. */
export class SsePeer implements Peer, Sink {
  readonly #response: ServerResponse;
  readonly #headers: OutgoingHttpHeaders;
  readonly #streams: EventStreams;
  readonly #request: SubscriptionRequest;
  readonly #outlet: Outlet;
  readonly #gone = new AbortController();
  #subscription: Subscription | undefined;

  constructor(reply: FastifyReply, streams: EventStreams, request: SubscriptionRequest) {
    const { raw } = reply;
    const { raw: incoming } = reply.request;
    this.#response = raw;
    this.#headers = { ...(reply.getHeaders() as OutgoingHttpHeaders), ...HEADERS };
    this.#streams = streams;
    this.#request = request;
    this.#outlet = new Outlet(incoming.socket, raw);
    incoming.socket.setKeepAlive(true, KEEP_ALIVE_MS);
  }

  /** After the reply was hijacked. */
  start(): void {
    const { feed, options } = this.#streams;
    this.#response.once('close', () => this.#end());
    this.#response.on('error', () => this.cut());
    this.#response.writeHead(200, this.#headers);
    this.#streams.add(this);
    this.#subscription = new Subscription(feed, this.#request, this, this.#gone.signal, options);
    void this.#streams.follow(this.#subscription).then((end) => {
      if (end !== 'gone') this.cut();
    });
  }

  get bufferedBytes(): number {
    return this.#response.writableLength;
  }

  get flushedBytes(): number {
    return this.#outlet.flushedBytes;
  }

  drained(): Promise<void> {
    return this.#outlet.drained();
  }

  sendEvent({ seq, kind, json }: StoredEvent): void {
    this.#write(`id: ${seq}\nevent: ${kind}\ndata: `, json, '\n\n');
  }

  sendControl(frame: ControlFrame): void {
    this.#write(`event: ${frame.kind}\ndata: ${JSON.stringify(frame)}\n\n`);
  }

  beat(): void {
    this.#subscription?.poke();
    if (this.bufferedBytes === 0) this.#write(': ping\n\n');
  }

  leave(): void {
    this.#gone.abort();
    this.#response.end();
  }

  /** The client sees a response that breaks off, and comes back with the last id. */
  cut(): void {
    this.#response.destroy();
  }

  #write(...parts: readonly (Buffer | string)[]): void {
    if (this.#response.writableEnded || this.#response.destroyed) return;
    this.#outlet.gather();
    for (const part of parts) this.#response.write(part);
  }

  #end(): void {
    this.#gone.abort();
    this.#streams.remove(this);
  }
}
