import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import type { WatchEvent } from '../src/protocol/http.ts';

/** What may wait for a client that reads slowly, in bytes; after that it gets `resync` in place of what it missed. */
const MAX_WAITING_BYTES = 1024 * 1024;

const PING_MS = 20_000;

/** The server goes (RFC 6455 §7.4). */
const GOING_AWAY = 1001;

/** A connection that events are written to. */
export interface Line {
  /** Bytes that the system has not taken yet. */
  readonly waiting: number;
  write(event: WatchEvent): void;
  onDrain(listener: () => void): void;
  onClose(listener: () => void): void;
  /** From this side. */
  end(): void;
}

/**
 * Server-Sent Events: `event` is the kind, `data` the JSON.
 * @param headers beside those of the stream
 */
export function streamLine(response: ServerResponse, headers: OutgoingHttpHeaders): Line {
  response.on('error', () => response.destroy());
  response.writeHead(200, {
    ...headers,
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  });
  response.flushHeaders();
  const ping = setInterval(() => response.write(': ping\n\n'), PING_MS);
  response.once('close', () => clearInterval(ping));
  return {
    get waiting() {
      return response.writableLength;
    },
    write: (event) => void response.write(`event: ${event.kind}\ndata: ${JSON.stringify(event)}\n\n`),
    onDrain: (listener) => void response.on('drain', listener),
    onClose: (listener) => void response.once('close', listener),
    end: () => void response.end(),
  };
}

/** A text frame with JSON for each event. What the client says is not listened to. */
export function socketLine(socket: WebSocket, connection: Socket): Line {
  socket.on('error', () => socket.terminate());
  let isAnswered = true;
  const ping = setInterval(() => {
    // A client that reads slowly has not seen the ping yet; one that has read all and says nothing is gone.
    if (!isAnswered && socket.bufferedAmount === 0) return socket.terminate();
    isAnswered = false;
    socket.ping();
  }, PING_MS);
  socket.on('pong', () => (isAnswered = true));
  socket.once('close', () => clearInterval(ping));
  return {
    get waiting() {
      return socket.bufferedAmount;
    },
    write: (event) => {
      if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(event));
    },
    onDrain: (listener) => void connection.on('drain', listener),
    onClose: (listener) => void socket.once('close', listener),
    end: () => socket.close(GOING_AWAY, 'The server is shutting down'),
  };
}

/** Never lets more wait than the limit. */
export class WatchOutlet {
  readonly #line: Line;
  #isBehind = false;

  constructor(line: Line) {
    this.#line = line;
    line.onDrain(() => this.#catchUp());
  }

  send(event: WatchEvent): void {
    if (this.#isBehind) return;
    this.#isBehind = this.#line.waiting > MAX_WAITING_BYTES;
    if (!this.#isBehind) this.#line.write(event);
  }

  #catchUp(): void {
    if (!this.#isBehind) return;
    this.#isBehind = false;
    this.#line.write({
      kind: 'resync',
      reason: 'Changes were dropped because they were not read in time; look again.',
    });
  }
}
