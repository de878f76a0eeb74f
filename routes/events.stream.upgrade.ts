import { EventEmitter } from 'node:events';
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';

/** Headers that ask for another protocol, on the one connection they came on. */
const UPGRADE_HEADERS: ReadonlySet<string> = new Set(['upgrade', 'connection', 'http2-settings']);

/**
 * The requests among those of a server that want a WebSocket. As soon as someone listens for upgrades, Node takes every request
 * that offers one out of HTTP, with its body: also those of clients that offer HTTP/2 with each request (Java's, `curl --http2`).
 * Those are put back, and answered as if they had not asked (RFC 9110 §7.8).
 */
export class WebSocketUpgrades extends EventEmitter {
  readonly #server: Server;
  readonly #requests = new WeakSet<IncomingMessage>();
  readonly #listener = (request: IncomingMessage, socket: Socket, head: Buffer): void =>
    this.#sort(request, socket, head);

  constructor(server: Server) {
    super();
    this.#server = server;
    server.on('upgrade', this.#listener);
  }

  /** Whether the request's connection has left HTTP. */
  has(request: IncomingMessage): boolean {
    return this.#requests.has(request);
  }

  stop(): void {
    this.#server.off('upgrade', this.#listener);
  }

  #sort(request: IncomingMessage, socket: Socket, head: Buffer): void {
    const isWebSocket = request.method === 'GET' && request.headers.upgrade?.toLowerCase() === 'websocket';
    if (!isWebSocket || this.listenerCount('upgrade') === 0) return this.#putBack(request, socket, head);
    this.#requests.add(request);
    this.emit('upgrade', request, socket, head);
  }

  #putBack(request: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.unshift(Buffer.concat([Buffer.from(requestWithoutUpgrade(request), 'latin1'), head]));
    this.#server.emit('connection', socket);
  }
}

function requestWithoutUpgrade({ method, url, httpVersion, rawHeaders, headers }: IncomingMessage): string {
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? '';
    if (!UPGRADE_HEADERS.has(name.toLowerCase())) lines.push(`${name}: ${rawHeaders[i + 1]}`);
  }
  if (/\bclose\b/i.test(headers.connection ?? '')) lines.push('Connection: close');
  return `${lines.join('\r\n')}\r\n\r\n`;
}
