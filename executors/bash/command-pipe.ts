import { Socket } from 'node:net';

/** What one write hands over: the shell is seen to go on from piece to piece. */
const PIECE_BYTES = 256 * 1024;

/** The pipe that a shell reads its commands from. */
export class CommandPipe {
  readonly #socket: Socket;
  readonly #pieces: Buffer[] = [];
  #untakenBytes = 0;
  #isWriting = false;

  constructor(descriptor: number) {
    this.#socket = new Socket({ fd: descriptor, readable: false, writable: true });
    this.#socket.on('error', () => this.#socket.destroy());
  }

  /** Bytes that do not fit into the pipe yet. */
  get untakenBytes(): number {
    return this.#untakenBytes;
  }

  write(text: string): void {
    const bytes = Buffer.from(text, 'utf8');
    this.#untakenBytes += bytes.length;
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) this.#pieces.push(bytes.subarray(at, at + PIECE_BYTES));
    if (!this.#isWriting) this.#writeNext();
  }

  destroy(): void {
    this.#pieces.length = 0;
    this.#socket.destroy();
  }

  #writeNext(): void {
    const piece = this.#pieces.shift();
    this.#isWriting = piece !== undefined;
    if (piece === undefined) return;
    this.#socket.write(piece, () => {
      this.#untakenBytes -= piece.length;
      this.#writeNext();
    });
  }
}
