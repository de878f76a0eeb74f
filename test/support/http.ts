import { type IncomingHttpHeaders, request } from 'node:http';
import { connect, type Socket } from 'node:net';

export interface RawReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface RawRequest {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
}

/** A request with any headers, `Host` and `Origin` too, on a connection of its own. */
export function rawRequest(
  url: string,
  { method = 'GET', path = '/', headers = {}, body }: RawRequest,
): Promise<RawReply> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let isAnswered = false;
    const sent = request({ hostname, port, method, path, headers, agent: false }, (reply) => {
      isAnswered = true;
      const chunks: Buffer[] = [];
      reply.on('data', (chunk: Buffer) => chunks.push(chunk));
      reply.on('error', reject);
      reply.on('end', () => {
        resolve({
          status: reply.statusCode ?? 0,
          headers: reply.headers,
          text: Buffer.concat(chunks).toString('utf8'),
        });
        sent.destroy();
      });
    });
    // A server may answer and close before it has read the whole body.
    sent.on('error', (error) => (isAnswered ? undefined : reject(error)));
    sent.end(body);
  });
}

/** A connection on which bytes are sent as they are. */
export class RawConnection implements Disposable {
  readonly #socket: Socket;
  #received = '';
  #isClosed = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding('latin1');
    socket.on('data', (text: string) => (this.#received += text));
    socket.on('close', () => (this.#isClosed = true));
    socket.on('error', () => (this.#isClosed = true));
  }

  static open(url: string): Promise<RawConnection> {
    const { hostname, port } = new URL(url);
    return new Promise((resolve, reject) => {
      const socket = connect(Number(port), hostname, () => resolve(new RawConnection(socket)));
      socket.once('error', reject);
    });
  }

  get received(): string {
    return this.#received;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Resolves when the system has taken the bytes. */
  send(text: string, encoding: BufferEncoding = 'utf8'): Promise<void> {
    return new Promise((resolve, reject) =>
      this.#socket.write(text, encoding, (error) => (error ? reject(error) : resolve())),
    );
  }

  /** Sends no more, and still reads. */
  end(): void {
    this.#socket.end();
  }

  /** Cuts the connection as a crashed client does: RST. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }
}
