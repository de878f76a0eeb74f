import { get, type IncomingMessage, type RequestOptions } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { pino } from 'pino';
import { WebSocket } from 'ws';
import { eventsRoute } from '../../routes/events.get.ts';
import { eventStreamRoute } from '../../routes/events.stream.get.ts';
import { EventStreams, type EventStreamOptions } from '../../routes/events.stream.peers.ts';
import { healthRoute } from '../../routes/health.get.ts';
import { buildApp } from '../../src/app.ts';
import type { EventReader } from '../../src/events/types.ts';
import { Guard } from '../../src/guard.ts';

export interface ServerOptions extends Partial<Omit<EventStreamOptions, 'guard' | 'log'>> {
  readonly reader: EventReader;
  readonly apiKeys?: readonly string[];
  readonly allowOrigins?: readonly string[];
}

/** The real application with the event routes, on a port of its own; `await using` closes it. */
export class StreamServer implements AsyncDisposable {
  readonly streams: EventStreams;
  readonly logged: string[] = [];
  readonly #app: ReturnType<typeof buildApp>;

  private constructor({ apiKeys = [], allowOrigins = [], ...options }: ServerOptions) {
    const log = pino({ level: 'trace' }, { write: (line: string) => void this.logged.push(line) });
    const guard = new Guard({ apiKeys, allowOrigins, isLoopback: true });
    this.streams = new EventStreams({ guard, log, ...options });
    this.#app = buildApp({
      guard,
      log,
      maxBodyBytes: 1024 * 1024,
      keepAliveMs: 60_000,
      bodyIdleMs: 60_000,
      maxConnections: 1000,
      plugins: [
        healthRoute,
        (app) => app.post('/echo', (request) => ({ got: request.body })),
        eventsRoute(options.reader, guard),
        eventStreamRoute(this.streams),
      ],
    });
  }

  static async start(options: ServerOptions): Promise<StreamServer> {
    const server = new StreamServer(options);
    await server.#app.listen({ port: 0, host: '127.0.0.1' });
    return server;
  }

  get port(): number {
    return (this.#app.server.address() as AddressInfo).port;
  }

  url(path: string): string {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  connections(): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#app.server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
    });
  }

  close(): Promise<void> {
    return this.#app.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#app.close();
  }
}

export interface Frame {
  readonly kind: string;
  readonly seq?: number;
  readonly [key: string]: unknown;
}

/** The server answered the handshake with something else than 101. */
export class Refused extends Error {
  readonly status: number;
  readonly body: string;

  constructor(status: number, body: string) {
    super(`HTTP ${status}: ${body}`);
    this.status = status;
    this.body = body;
  }
}

export interface ClientOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly autoPong?: boolean;
  readonly path?: string;
}

/** A WebSocket client that keeps what it gets. */
export class StreamClient implements Disposable {
  readonly socket: WebSocket;
  readonly frames: Frame[] = [];
  readonly largest = { bytes: 0 };
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
  #waiters: (() => void)[] = [];

  private constructor(url: string, { headers = {}, autoPong = true }: ClientOptions) {
    this.socket = new WebSocket(url, { headers, autoPong });
    this.socket.on('message', (data: Buffer, isBinary) => {
      if (isBinary) throw new Error('a binary frame');
      this.largest.bytes = Math.max(this.largest.bytes, data.length);
      this.frames.push(JSON.parse(data.toString()) as Frame);
      this.#wake();
    });
    this.closed = new Promise((resolve) => {
      this.socket.once('close', (code: number, reason: Buffer) => {
        resolve({ code, reason: reason.toString() });
        this.#wake();
      });
    });
  }

  /** @param query after the `?` */
  static async connect(server: StreamServer, query = '', options: ClientOptions = {}): Promise<StreamClient> {
    const path = options.path ?? `/events/stream?${query}`;
    const client = new StreamClient(server.url(path).replace('http', 'ws'), options);
    await new Promise<void>((resolve, reject) => {
      client.socket.once('open', resolve);
      client.socket.once('unexpected-response', (_request, response) => {
        let body = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (body += chunk));
        response.on('end', () => reject(new Refused(response.statusCode ?? 0, body)));
      });
      client.socket.once('error', reject);
    });
    client.socket.on('error', () => {});
    return client;
  }

  /** The TCP connection under it. */
  get transport(): Socket {
    return (this.socket as unknown as { readonly _socket: Socket })._socket;
  }

  get seqs(): number[] {
    return this.frames.flatMap(({ kind, seq }) => (kind === 'caught_up' || seq === undefined ? [] : [seq]));
  }

  get control(): Frame[] {
    return this.frames.filter(({ kind }) => ['hello', 'resync', 'caught_up'].includes(kind));
  }

  sendRaw(hex: string): void {
    this.transport.write(Buffer.from(hex, 'hex'));
  }

  /** Rejects when the connection is closed before the condition holds. */
  async until(condition: (client: this) => boolean): Promise<void> {
    while (!condition(this)) {
      if (this.socket.readyState === WebSocket.CLOSED) throw new Error(`closed with ${this.frames.length} frames`);
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  [Symbol.dispose](): void {
    this.socket.terminate();
  }

  #wake(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}

/** The handshake's refusal, or an error when there was none. */
export async function refusal(server: StreamServer, query: string, options: ClientOptions = {}): Promise<Refused> {
  try {
    using client = await StreamClient.connect(server, query, options);
    throw new Error(`not refused: ${client.socket.url}`);
  } catch (error) {
    if (error instanceof Refused) return error;
    throw error;
  }
}

export interface SseMessage {
  readonly id?: string;
  readonly event?: string;
  readonly data?: Frame;
  readonly comment?: string;
}

/** A reader of Server-Sent Events, on a connection of its own. */
export class SseClient implements AsyncDisposable {
  readonly response: IncomingMessage;
  readonly messages: SseMessage[] = [];
  /** Resolves true when the server ended the response properly, false when it broke off. */
  readonly ended: Promise<boolean>;
  #rest = '';
  #waiters: (() => void)[] = [];

  private constructor(response: IncomingMessage) {
    this.response = response;
    this.ended = new Promise((resolve) => {
      response.once('end', () => resolve(true));
      response.once('close', () => resolve(response.complete));
      response.on('error', () => resolve(false));
      response.once('close', () => this.#wake());
    });
  }

  static async connect(
    server: StreamServer,
    query = '',
    { isPaused = false, ...headers }: { readonly isPaused?: boolean; readonly [header: string]: unknown } = {},
  ): Promise<SseClient> {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const options = { agent: false, headers: { accept: 'text/event-stream', ...headers } } as RequestOptions;
      get(server.url(`/events/stream?${query}`), options, resolve).once('error', reject);
    });
    if (response.statusCode !== 200) throw new Refused(response.statusCode ?? 0, await textOf(response));
    const client = new SseClient(response);
    if (!isPaused) client.read();
    return client;
  }

  /** Begins to read, unless that was done from the start. */
  read(): void {
    this.response.setEncoding('utf8');
    this.response.on('data', (chunk: string) => {
      const blocks = (this.#rest + chunk).split('\n\n');
      this.#rest = blocks.pop() ?? '';
      this.messages.push(...blocks.map(parseBlock));
      this.#wake();
    });
  }

  get seqs(): number[] {
    return this.messages.flatMap(({ id }) => (id === undefined ? [] : [Number(id)]));
  }

  /** Rejects when the response ends before the condition holds. */
  async until(condition: (client: this) => boolean): Promise<void> {
    while (!condition(this)) {
      if (this.response.closed) throw new Error(`ended with ${this.messages.length} messages`);
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.response.destroy();
    await this.ended;
  }

  #wake(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}

async function textOf(response: IncomingMessage): Promise<string> {
  response.setEncoding('utf8');
  let text = '';
  for await (const chunk of response) text += String(chunk);
  return text;
}

function parseBlock(block: string): SseMessage {
  if (block.startsWith(':')) return { comment: block.slice(1).trim() };
  const fields = Object.fromEntries(
    block.split('\n').map((line) => /^(\w+): (.*)$/.exec(line)!.slice(1) as [string, string]),
  );
  return { ...fields, ...(fields['data'] === undefined ? {} : { data: JSON.parse(fields['data']) as Frame }) };
}
