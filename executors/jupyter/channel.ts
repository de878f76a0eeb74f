import { WebSocket } from 'ws';
import { type KernelMessage, readMessage } from './messages.ts';

export interface ChannelOptions {
  /** `ws:` or `wss:` address of the kernel's channels, with the session id that lets the server buffer for us. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly onMessage: (message: KernelMessage) => void;
  /** The socket broke and is there again: what the server could not deliver meanwhile comes now, or is lost. */
  readonly onReconnect: () => void;
  /** The kernel cannot be reached any more: its server has none of that id, or is gone itself. */
  readonly onLost: (reason: string, isServerGone: boolean) => void;
  /** Something came that cannot be read, such as a message beyond the size limit. */
  readonly onProblem: (text: string) => void;
}

const OPEN_LIMIT_MS = 20_000;
/** A broken socket is tried again for so long; a server that was restarted has lost the kernel anyhow. */
const RECONNECT_LIMIT_MS = 15_000;
/** As long when nobody listens there any more, as after the death of a server on this machine. */
const REFUSED_LIMIT_MS = 3000;
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 1000;
/** A peer that went away without a word is noticed within two of these. */
const PING_MS = 10_000;
/** Largest message that is read, in bytes: one output of a kernel. */
const MAX_MESSAGE_BYTES = 256 * 1024 * 1024;
/** Requests that wait for the socket to be back; each is a cell, and cells come one at a time. */
const MAX_WAITING = 64;

/** What a server answers where there is no kernel, or no permission: trying again is of no use. */
const FINAL_STATUS: ReadonlySet<number> = new Set([400, 401, 403, 404]);

/** The socket of one kernel, which outlives broken connections. */
export class KernelChannel {
  readonly #options: ChannelOptions;
  readonly #waiting: string[] = [];
  #socket: WebSocket | undefined;
  #isOpen = false;
  #wasOpen = false;
  #isClosed = false;
  #brokenAt = performance.now();
  /** Since when every attempt was refused. */
  #refusedAt = Infinity;
  #retryMs = FIRST_RETRY_MS;
  #retryTimer: NodeJS.Timeout | undefined;
  #pingTimer: NodeJS.Timeout | undefined;
  #isPongDue = false;

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.#connect();
  }

  /** Sends a text frame now, or when the socket is back. */
  send(frame: string): void {
    if (this.#isOpen) this.#socket?.send(frame);
    else if (this.#waiting.length < MAX_WAITING) this.#waiting.push(frame);
  }

  /** Resolves when the server has answered, behind all that it had sent before; or when there is no server. */
  answered(): Promise<void> {
    const socket = this.#socket;
    if (!this.#isOpen || !socket) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        socket.off('pong', end).off('close', end);
        resolve();
      };
      socket.on('pong', end).on('close', end);
      socket.ping();
    });
  }

  /** Stops reading, so that the server has to wait. */
  pause(): void {
    if (this.#isOpen) this.#socket?.pause();
  }

  resume(): void {
    this.#socket?.resume();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#retryTimer);
    clearInterval(this.#pingTimer);
    this.#socket?.terminate();
  }

  #connect(): void {
    const { url, headers } = this.#options;
    const socket = new WebSocket(url, {
      headers,
      perMessageDeflate: false,
      maxPayload: MAX_MESSAGE_BYTES,
      handshakeTimeout: OPEN_LIMIT_MS,
      followRedirects: false,
    });
    this.#socket = socket;
    let problem = '';
    let isRefused = false;
    socket.on('open', () => this.#onOpen(socket));
    socket.on('message', (data, isBinary) => this.#onMessage(data as Buffer, isBinary));
    socket.on('pong', () => (this.#isPongDue = false));
    socket.on('unexpected-response', (_request, { statusCode = 0 }) => {
      problem = `HTTP ${statusCode}`;
      if (FINAL_STATUS.has(statusCode))
        this.#lose(`the Jupyter server refused the connection (HTTP ${statusCode})`, false);
      socket.terminate();
    });
    socket.on('error', (error) => {
      problem ||= error.message;
      isRefused = 'code' in error && error.code === 'ECONNREFUSED';
      if (this.#isOpen) this.#options.onProblem(error.message);
    });
    socket.on('close', (code) => this.#onClose(problem || `closed with ${code}`, isRefused));
  }

  #onOpen(socket: WebSocket): void {
    if (this.#isClosed) return;
    const isAgain = this.#wasOpen;
    this.#isOpen = true;
    this.#wasOpen = true;
    this.#retryMs = FIRST_RETRY_MS;
    this.#isPongDue = false;
    this.#pingTimer = setInterval(() => this.#ping(socket), PING_MS).unref();
    if (isAgain) this.#options.onReconnect();
    for (const frame of this.#waiting.splice(0)) socket.send(frame);
  }

  #ping(socket: WebSocket): void {
    // A socket that is not read cannot answer.
    if (socket.isPaused) return;
    if (this.#isPongDue) socket.terminate();
    this.#isPongDue = true;
    socket.ping();
  }

  #onMessage(data: Buffer, isBinary: boolean): void {
    if (this.#isClosed) return;
    const message = readMessage(data, isBinary);
    if (!message) {
      this.#options.onProblem('a frame that is no message of the Jupyter protocol');
      return;
    }
    try {
      this.#options.onMessage(message);
    } catch (error) {
      this.#options.onProblem(`a message of the type ${message.type} cannot be taken: ${String(error)}`);
    }
  }

  #onClose(reason: string, isRefused: boolean): void {
    clearInterval(this.#pingTimer);
    const now = performance.now();
    if (this.#isOpen) this.#brokenAt = now;
    this.#isOpen = false;
    this.#refusedAt = isRefused ? Math.min(this.#refusedAt, now) : Infinity;
    if (this.#isClosed) return;
    if (now - this.#brokenAt > RECONNECT_LIMIT_MS || now - this.#refusedAt > REFUSED_LIMIT_MS) {
      this.#lose(`the Jupyter server does not answer: ${reason}`, true);
      return;
    }
    this.#retryTimer = setTimeout(() => this.#connect(), this.#retryMs);
    this.#retryMs = Math.min(LAST_RETRY_MS, this.#retryMs * 2);
  }

  #lose(reason: string, isServerGone: boolean): void {
    if (this.#isClosed) return;
    this.close();
    this.#options.onLost(reason, isServerGone);
  }
}
