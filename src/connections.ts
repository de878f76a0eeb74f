import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';

interface Connection {
  requests: number;
  /** The last request, since when, and what had been read of the connection then. */
  request?: IncomingMessage;
  since: number;
  bytesRead: number;
}

/** A body that comes more slowly than this is one that holds a connection rather than sends something, in bytes per millisecond. */
const SLOWEST_BODY = 1;

/**
 * Keeps the number of open connections, and lets nobody take them all by doing next to nothing: when there is one too many, the one that
 * waits longest without a request is closed; first among those that never sent a whole one, then among those that are kept alive, then one
 * whose body hardly comes. Requests at work and streams are never cut for a newcomer: if there is nothing else, it is turned away.
 */
export class Connections {
  readonly #max: number;
  readonly #graceMs: number;
  readonly #all = new Map<Socket, Connection>();
  /** Oldest first. */
  readonly #silent = new Set<Socket>();
  readonly #keptAlive = new Set<Socket>();

  /** @param graceMs what a body may take whatever its speed */
  constructor(server: Server, max: number, graceMs: number) {
    this.#max = max;
    this.#graceMs = graceMs;
    server.on('connection', (socket: Socket) => this.#open(socket));
    // The system's own limit, in case that sockets are slow to close.
    server.maxConnections = max + 1;
  }

  /** A request has come whose headers are complete. */
  begin(request: IncomingMessage): void {
    const { socket } = request;
    const connection = this.#all.get(socket);
    if (!connection) return;
    connection.requests += 1;
    connection.request = request;
    connection.since = performance.now();
    connection.bytesRead = socket.bytesRead;
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
    this.#all.set(socket, { requests: 0, since: 0, bytesRead: 0 });
    socket.once('close', () => this.#forget(socket));
    if (this.#all.size > this.#max) this.#makeRoom(socket);
    if (!socket.destroyed) this.#silent.add(socket);
  }

  #makeRoom(newcomer: Socket): void {
    const [idle] = this.#silent.size > 0 ? this.#silent : this.#keptAlive;
    const victim = idle ?? this.#findSlow() ?? newcomer;
    this.#forget(victim);
    victim.destroy();
  }

  #findSlow(): Socket | undefined {
    const now = performance.now();
    for (const [socket, { requests, request, since, bytesRead }] of this.#all) {
      if (requests !== 1 || request === undefined || request.complete) continue;
      const elapsed = now - since;
      if (elapsed > this.#graceMs && socket.bytesRead - bytesRead < elapsed * SLOWEST_BODY) return socket;
    }
    return undefined;
  }

  #forget(socket: Socket): void {
    this.#all.delete(socket);
    this.#silent.delete(socket);
    this.#keptAlive.delete(socket);
  }
}
