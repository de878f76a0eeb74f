import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { WebSocket, WebSocketServer } from 'ws';

/** A message of the Jupyter protocol on its way. */
export interface PassingMessage {
  /** To the kernel, or from it. */
  readonly isRequest: boolean;
  /** `msg_type`. */
  readonly type: string;
  readonly id: string;
  /** `msg_id` of the request it belongs to; empty when it belongs to none. */
  readonly parent: string;
  readonly content: Readonly<Record<string, unknown>>;
  /** Sends it on, over the connection that there is by then. A message of which this is not called is lost. */
  pass(): void;
}

export type Meddle = (message: PassingMessage, proxy: MeddlingProxy) => void;

interface Connection {
  readonly near: WebSocket;
  readonly far: WebSocket;
}

/** Between a client and a Jupyter server: passes HTTP on, and of a kernel's messages what the test lets pass; `await using` ends it. */
export class MeddlingProxy implements AsyncDisposable {
  readonly #target: string;
  readonly #meddle: Meddle;
  readonly #server: Server;
  readonly #upgrades = new WebSocketServer({ noServer: true, perMessageDeflate: false });
  readonly #sockets = new Set<Socket>();
  /** The one made last. */
  #connection: Connection | undefined;
  /** What came for the kernel, whether or not it was let pass. */
  readonly requests: PassingMessage[] = [];

  private constructor(target: string, meddle: Meddle) {
    this.#target = target;
    this.#meddle = meddle;
    this.#server = createServer((near, response) => this.#passHttp(near, response));
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    this.#server.on('upgrade', (near, socket, head) => this.#passUpgrade(near, socket as Socket, head));
  }

  /** @param target address of the Jupyter server, without a slash at the end */
  static async start(target: string, meddle: Meddle): Promise<MeddlingProxy> {
    const proxy = new MeddlingProxy(target, meddle);
    await once(proxy.#server.listen(0, '127.0.0.1'), 'listening');
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Sends the client a text frame that is not from the kernel. */
  add(frame: string): void {
    this.#connection?.near.send(frame);
  }

  /** Breaks the connection, without a word to either side; the client may make another. */
  disconnect(): void {
    this.#connection?.near.terminate();
    this.#connection?.far.terminate();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #passHttp(near: IncomingMessage, response: ServerResponse): void {
    const { method, headers } = near;
    const far = request(`${this.#target}${near.url}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    far.on('error', () => response.destroy());
    near.pipe(far);
  }

  #passUpgrade(upgrade: IncomingMessage, socket: Socket, head: Buffer): void {
    const { authorization = '' } = upgrade.headers;
    const address = `${this.#target.replace(/^http/, 'ws')}${upgrade.url}`;
    const far = new WebSocket(address, { headers: { authorization }, perMessageDeflate: false });
    far.on('error', () => socket.destroy());
    socket.on('close', () => far.terminate());
    far.on('open', () => this.#upgrades.handleUpgrade(upgrade, socket, head, (near) => this.#join({ near, far })));
  }

  #join(connection: Connection): void {
    this.#connection = connection;
    const { near, far } = connection;
    near.on('error', () => near.terminate());
    far.on('close', () => near.close());
    near.on('message', (data) => {
      const message = passing(data as Buffer, true, (frame) => this.#connection?.far.send(frame));
      this.requests.push(message);
      this.#meddle(message, this);
    });
    far.on('message', (data, isBinary) => {
      // With buffers, as widgets send them: nothing to meddle with.
      if (isBinary) near.send(data);
      else
        this.#meddle(
          passing(data as Buffer, false, (frame) => this.#connection?.near.send(frame)),
          this,
        );
    });
  }
}

function passing(data: Buffer, isRequest: boolean, send: (frame: string) => void): PassingMessage {
  const frame = data.toString('utf8');
  const { header, parent_header, content } = JSON.parse(frame) as {
    header: { msg_type: string; msg_id: string };
    parent_header: { msg_id?: string };
    content: Record<string, unknown>;
  };
  return {
    isRequest,
    type: header.msg_type,
    id: header.msg_id,
    parent: parent_header.msg_id ?? '',
    content,
    pass: () => send(frame),
  };
}
