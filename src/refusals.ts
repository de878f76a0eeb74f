import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { linger, type LingerLimits } from './lingering.ts';

/** Requests that Node answers by itself, without a word, if nobody else does. */
export function refuseOddRequests(server: Server, limits: LingerLimits): void {
  server.on('checkExpectation', (request, response: ServerResponse) => {
    linger(request, response, limits);
    // Only `100-continue` is known (RFC 9110 §10.1.1).
    const expected = JSON.stringify(request.headers.expect);
    const body = bodyOf(`Expect: ${expected} is not known here: leave the header out or send 100-continue.`);
    response.writeHead(417, { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(body) }).end(body);
  });
  server.on('connect', (_request, socket) => {
    socket.on('error', () => socket.destroy());
    endWith(socket, '405 Method Not Allowed', 'This is no proxy: the method CONNECT is not served.');
  });
}

/** What is no HTTP has no reply object; the connection ends with the answer. */
export function answerGarbage(error: Error & { readonly code?: string }, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return endWith(socket, '431 Request Header Fields Too Large', 'The headers are too large.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return endWith(socket, '408 Request Timeout', 'The request took too long.');
    default:
      return endWith(socket, '400 Bad Request', 'This is no valid HTTP request.');
  }
}

/** Nothing more comes from this client; a route that waits for it sees a body that breaks off. */
export function answerLate(socket: Socket): void {
  socket.write(lastAnswer('408 Request Timeout', 'The body of the request stopped coming; send it again.'));
  socket.destroySoon();
}

const JSON_TYPE = 'application/json; charset=utf-8';

function bodyOf(detail: string): string {
  return JSON.stringify({ detail });
}

function endWith(socket: Duplex, status: string, detail: string): void {
  socket.end(lastAnswer(status, detail));
}

function lastAnswer(status: string, detail: string): string {
  const body = bodyOf(detail);
  const head = [
    `HTTP/1.1 ${status}`,
    `content-type: ${JSON_TYPE}`,
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  return `${head.join('\r\n')}\r\n\r\n${body}`;
}
