import type { IncomingMessage, Server, ServerResponse } from 'node:http';

/** What is read of a body that nobody wants. A client that still sends after that has its connection cut. */
export interface LingerLimits {
  readonly maxBytes: number;
  readonly maxMs: number;
}

export const LINGER_LIMITS: LingerLimits = { maxBytes: 256 * 1024 * 1024, maxMs: 30_000 };

/** How often the bytes of such a body are looked at. */
const CHECK_INTERVAL_MS = 50;

/**
 * Answers reach clients that are still sending their bodies: many read only after that, and a connection that is closed under them takes
 * the answer along. So the rest of the body is read and dropped before the connection is closed or used again (RFC 9112 §9.6).
 */
export function lingerOn(server: Server, limits: LingerLimits): void {
  server.on('request', (request, response) => linger(request, response, limits));
}

/** The same for a request that is answered outside of the server's `request` event. */
export function linger(request: IncomingMessage, response: ServerResponse, limits: LingerLimits): void {
  // Before Node's own listener, which closes the connection or goes on to the next request.
  response.prependOnceListener('finish', () => {
    if (!request.complete && !request.destroyed) drain(request, limits);
  });
}

function drain(request: IncomingMessage, { maxBytes, maxMs }: LingerLimits): void {
  const { socket } = request;
  const lastByte = socket.bytesRead + maxBytes;
  const lastMoment = performance.now() + maxMs;
  let isClosing = false;
  const timer = setInterval(() => {
    if (socket.bytesRead > lastByte || performance.now() > lastMoment) socket.destroy();
  }, CHECK_INTERVAL_MS);
  request.once('close', () => {
    clearInterval(timer);
    if (isClosing) socket.destroy();
    // The connection goes on, and later ends in the usual way.
    else Reflect.deleteProperty(socket, 'destroySoon');
  });
  socket.once('close', () => clearInterval(timer));
  // Node calls it when the answer was the last one of the connection.
  socket.destroySoon = () => {
    isClosing = true;
    socket.end();
  };
  request.resume();
}
