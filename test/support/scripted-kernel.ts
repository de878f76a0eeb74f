import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';

/** A request as it came: its `msg_type` and `msg_id`. */
export interface KernelRequest {
  readonly type: string;
  readonly id: string;
}

/** Sends a message that belongs to a request. */
export type Answer = (request: KernelRequest, type: string, content: object) => void;

/** A server of the kernels API whose one kernel answers as the test says: for what no kernel of the real ones does on demand. */
export class ScriptedKernel implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new WebSocketServer({ noServer: true });
  readonly requests: KernelRequest[] = [];
  /** Of the connection that was made last. */
  socket: WebSocket | undefined;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(onRequest: (request: KernelRequest, answer: Answer) => void): Promise<ScriptedKernel> {
    const server = createServer((request, response) => {
      response.writeHead(request.method === 'DELETE' ? 204 : 201, { 'content-type': 'application/json' });
      response.end(request.method === 'DELETE' ? undefined : JSON.stringify({ id: 'scripted' }));
    });
    const kernel = new ScriptedKernel(server);
    server.on('upgrade', (request, socket, head) =>
      kernel.#sockets.handleUpgrade(request, socket, head, (opened) => kernel.#serve(opened, onRequest)),
    );
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return kernel;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket?.terminate();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #serve(socket: WebSocket, onRequest: (request: KernelRequest, answer: Answer) => void): void {
    this.socket = socket;
    const answer: Answer = ({ id }, type, content) =>
      socket.send(JSON.stringify({ header: { msg_type: type }, parent_header: { msg_id: id }, content }));
    socket.on('message', (data) => {
      const { header } = JSON.parse((data as Buffer).toString('utf8')) as {
        header: { msg_type: string; msg_id: string };
      };
      const request = { type: header.msg_type, id: header.msg_id };
      this.requests.push(request);
      onRequest(request, answer);
    });
  }
}

/** As kernels answer a question for what they are. */
export function answerInfo(request: KernelRequest, answer: Answer): void {
  answer(request, 'kernel_info_reply', { status: 'ok', language_info: { name: 'scripted' } });
  answer(request, 'status', { execution_state: 'idle' });
}
