import type { Socket } from 'node:net';

interface Corkable {
  cork(): void;
  uncork(): void;
}

/** The way out of a connection: makes one system call of what is written in a turn, and tells what has left. */
export class Outlet {
  readonly #socket: Socket;
  readonly #writer: Corkable;
  #isCorked = false;
  #draining: Promise<void> | undefined;

  /** @param writer what is written to: the socket, or the response that frames for it */
  constructor(socket: Socket, writer: Corkable = socket) {
    this.#socket = socket;
    this.#writer = writer;
  }

  /** What has been handed to the operating system. */
  get flushedBytes(): number {
    return this.#socket.bytesWritten - this.#socket.writableLength;
  }

  /** Before each write. */
  gather(): void {
    if (this.#isCorked) return;
    this.#isCorked = true;
    this.#writer.cork();
    process.nextTick(() => {
      this.#isCorked = false;
      this.#writer.uncork();
    });
  }

  drained(): Promise<void> {
    return (this.#draining ??= new Promise((resolve) => {
      this.#socket.once('drain', () => {
        this.#draining = undefined;
        resolve();
      });
    }));
  }
}
