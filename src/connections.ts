import type { Server } from 'node:http';
import type { Socket } from 'node:net';

interface Connection {
  requests: number;
}

/**
 * Keeps the number of open connections, and lets nobody take them all by doing nothing: when there is one too many, the one that waits
 * longest without a request is closed; first among those that never sent a whole one, then among those that are kept alive.
 * Requests at work and streams are never cut for a newcomer: if there is nothing else, it is turned away.
 */
export class Connections {
  readonly #max: number;
  readonly #all = new Map<Socket, Connection>();
  /** Oldest first. */
  readonly #silent = new Set<Socket>();
  readonly #keptAlive = new Set<Socket>();

  constructor(server: Server, max: number) {
    this.#max = max;
    server.on('connection', (socket: Socket) => this.#open(socket));
    // The system's own limit, in case that sockets are slow to close.
    server.maxConnections = max + 1;
  }

  /** A request has come whose headers are complete. */
  begin(socket: Socket): void {
    const connection = this.#all.get(socket);
    if (!connection) return;
    connection.requests += 1;
    this.#silent.delete(socket);
    this.#keptAlive.delete(socket);
  }

  /** It is answered, or gone. */
  end(socket: Socket): void {
    const connection = this.#all.get(socket);
    if (!connection) return;
    connection.requests -= 1;
    if (connection.requests === 0) this.#keptAlive.add(socket);
  }

  #open(socket: Socket): void {
    // One that came back from an upgrade is announced again.
    if (this.#all.has(socket)) return;
    this.#all.set(socket, { requests: 0 });
    socket.once('close', () => this.#forget(socket));
    if (this.#all.size > this.#max) this.#makeRoom(socket);
    if (!socket.destroyed) this.#silent.add(socket);
  }

  #makeRoom(newcomer: Socket): void {
    const [oldest = newcomer] = this.#silent.size > 0 ? this.#silent : this.#keptAlive;
    this.#forget(oldest);
    oldest.destroy();
  }

  #forget(socket: Socket): void {
    this.#all.delete(socket);
    this.#silent.delete(socket);
    this.#keptAlive.delete(socket);
  }
}
