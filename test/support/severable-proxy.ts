import { connect, createServer, type Server, type Socket } from 'node:net';

/** Passes TCP on to a port, and can cut every connection; `await using` ends it. */
export class SeverableProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isDown = false;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(target: number): Promise<SeverableProxy> {
    const server = createServer();
    const proxy = new SeverableProxy(server);
    server.on('connection', (near) => proxy.#pass(near, target));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address ? address.port : 0;
  }

  /** Connections there are. */
  get connections(): number {
    return this.#sockets.size / 2;
  }

  /** Cuts all connections; new ones are refused until {@link mend}. */
  sever(): void {
    this.#isDown = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend(): void {
    this.#isDown = false;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.sever();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #pass(near: Socket, target: number): void {
    if (this.#isDown) {
      near.destroy();
      return;
    }
    const far = connect(target, '127.0.0.1');
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => socket.destroy());
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  }
}
