import { request as httpRequest } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../src/errors.ts';

/** Where the browser listens on loopback, and its own path there. */
export type CdpEndpoint = () => Promise<{ readonly port: number; readonly path: string }>;

const PREFIX = '/browser/cdp';
const DESCRIPTION_LIMIT_MS = 5000;
const MAX_DESCRIPTION_BYTES = 1024 * 1024;

/**
 * `/browser/cdp`: the browser's DevTools protocol for any client of it, behind the server's own checks. WebSockets are passed on byte by
 * byte; `json/version` names our address in place of the browser's.
 */
export function browserCdpRoute(endpoint: CdpEndpoint): (app: FastifyInstance) => void {
  return (app) => {
    const sockets = new Set<Socket>();
    app.addHook('preClose', (done) => {
      for (const socket of sockets) socket.destroy();
      done();
    });
    for (const name of ['version', 'list'])
      app.get(`${PREFIX}/json/${name}`, (request, reply) => describe(request, reply, endpoint, name));
    for (const url of [PREFIX, `${PREFIX}/devtools/*`])
      app.get(url, { exposeHeadRoute: false }, (request, reply) => pass(request, reply, endpoint, sockets));
  };
}

async function describe(
  request: FastifyRequest,
  reply: FastifyReply,
  endpoint: CdpEndpoint,
  name: string,
): Promise<FastifyReply> {
  const { port } = await endpoint();
  const text = await read(port, `/json/${name}`);
  const ours = `${request.host}${PREFIX}`;
  return reply.type('application/json; charset=utf-8').send(text.replaceAll(`127.0.0.1:${port}`, ours));
}

async function pass(
  request: FastifyRequest,
  reply: FastifyReply,
  endpoint: CdpEndpoint,
  sockets: Set<Socket>,
): Promise<FastifyReply> {
  const { raw } = request;
  if (raw.headers.upgrade?.toLowerCase() !== 'websocket')
    return reply
      .code(426)
      .headers({ upgrade: 'websocket', connection: 'upgrade' })
      .send({ detail: 'Connect with a client of the DevTools protocol, over a WebSocket.' });
  const { port, path } = await endpoint();
  const wanted = request.url.slice(PREFIX.length).split('?')[0] ?? '';
  reply.hijack();
  const client = raw.socket;
  reply.raw.detachSocket(client);
  join(
    client,
    connect(port, '127.0.0.1'),
    handshake(request, wanted === '' || wanted === '/' ? path : wanted, port),
    sockets,
  );
  return reply;
}

/** The client's handshake without what is meant for us: its key, and an origin, which the browser takes for a web page's. */
function handshake({ raw }: FastifyRequest, path: string, port: number): string {
  const lines = [`GET ${path} HTTP/1.1`, `Host: 127.0.0.1:${port}`, 'Connection: Upgrade', 'Upgrade: websocket'];
  for (const name of [
    'sec-websocket-key',
    'sec-websocket-version',
    'sec-websocket-extensions',
    'sec-websocket-protocol',
  ]) {
    const value = raw.headers[name];
    if (typeof value === 'string') lines.push(`${name}: ${value}`);
  }
  return `${lines.join('\r\n')}\r\n\r\n`;
}

function join(client: Socket, browser: Socket, head: string, sockets: Set<Socket>): void {
  for (const [socket, other] of [
    [client, browser],
    [browser, client],
  ] as const) {
    sockets.add(socket);
    socket.setTimeout(0).setNoDelay(true);
    socket.on('error', () => other.destroy());
    socket.on('close', () => {
      sockets.delete(socket);
      other.destroy();
    });
  }
  browser.write(head);
  browser.pipe(client);
  client.pipe(browser);
}

/** What the browser says at one of its own addresses. @throws AppError */
function read(port: number, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown): void => reject(new AppError('BROWSER_NOT_ANSWERING', undefined, { cause }));
    const sent = httpRequest(
      { host: '127.0.0.1', port, path, agent: false, timeout: DESCRIPTION_LIMIT_MS },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
          if (text.length > MAX_DESCRIPTION_BYTES) sent.destroy(new Error('too long'));
        });
        answer.on('end', () => resolve(text));
        answer.on('error', fail);
      },
    );
    sent.on('timeout', () => sent.destroy(new Error('no answer')));
    sent.on('error', fail);
    sent.end();
  });
}
