import { closeSync, fchownSync, mkdirSync, openSync, readdirSync, statSync, unlinkSync, writev } from 'node:fs';
import { join } from 'node:path';

export interface SpillOptions {
  /** Where the files live; made when first needed. */
  readonly directory: string;
  /** Bytes kept of one command's output. */
  readonly maxFileBytes: number;
  /** Bytes of all files together; the oldest go first. */
  readonly maxTotalBytes: number;
  readonly owner: { readonly uid: number; readonly gid: number } | undefined;
  /** Output up to this is never cut in an answer (so many code points are at least as many bytes), so no file is needed. */
  readonly memoryBytes: number;
}

/** Output waiting for the disk: beyond this the terminal is not read. */
const MAX_QUEUE_BYTES = 1024 * 1024;
/** Buffers of one write; the system takes no more (IOV_MAX). */
const MAX_BATCH = 1024;

/** The raw output of one command: in memory while it is short, then in a file of bounded size. */
export class Spill {
  readonly #options: SpillOptions;
  readonly #name: string;
  readonly #onDrain: () => void;
  #queue: Buffer[] = [];
  #queuedBytes = 0;
  #acceptedBytes = 0;
  #fd: number | undefined;
  #isWriting = false;
  #isBroken = false;
  #isClosed = false;

  /** Path of the file, once there is one. */
  path: string | undefined;
  /** All bytes of output, also those that are not kept. */
  totalBytes = 0;

  /** @param onDrain called when a queue that was full has room again */
  constructor(options: SpillOptions, name: string, onDrain: () => void) {
    this.#options = options;
    this.#name = name;
    this.#onDrain = onDrain;
  }

  get keptBytes(): number {
    return this.#acceptedBytes;
  }

  /** Whether no more is kept. */
  get isFull(): boolean {
    return this.#isBroken || this.#isClosed || this.#acceptedBytes >= this.#options.maxFileBytes;
  }

  get isWhole(): boolean {
    return this.#acceptedBytes === this.totalBytes;
  }

  /** @returns false when the caller should stop reading until `onDrain` */
  add(chunk: Buffer): boolean {
    this.totalBytes += chunk.length;
    const room = this.#options.maxFileBytes - this.#acceptedBytes;
    if (this.isFull || chunk.length === 0) return true;
    const kept = chunk.length > room ? chunk.subarray(0, room) : chunk;
    this.#acceptedBytes += kept.length;
    this.#queue.push(kept);
    this.#queuedBytes += kept.length;
    if (this.#fd === undefined && this.totalBytes > this.#options.memoryBytes) this.#open();
    if (this.#fd !== undefined) this.#flush();
    return this.#queuedBytes < MAX_QUEUE_BYTES;
  }

  /** No more output; what is queued is still written. */
  close(): void {
    this.#isClosed = true;
    if (this.#fd === undefined) this.#queue = [];
    else this.#flush();
  }

  #open(): void {
    const { directory, owner, maxTotalBytes, maxFileBytes } = this.#options;
    try {
      mkdirSync(directory, { recursive: true, mode: 0o755 });
      removeOldest(directory, maxTotalBytes - maxFileBytes);
      const path = join(directory, this.#name);
      this.#fd = openSync(path, 'wx', 0o600);
      if (owner) fchownSync(this.#fd, owner.uid, owner.gid);
      this.path = path;
    } catch {
      this.#fail();
    }
  }

  #flush(): void {
    if (this.#isWriting || this.#fd === undefined) return;
    const batch = this.#queue.splice(0, MAX_BATCH);
    if (batch.length === 0) {
      if (this.#isClosed) this.#closeFile();
      return;
    }
    this.#isWriting = true;
    writev(this.#fd, batch, (error, written) => this.#onWritten(error, written, batch));
  }

  #onWritten(error: Error | null, written: number, batch: readonly Buffer[]): void {
    this.#isWriting = false;
    if (error) {
      this.#fail();
      return;
    }
    this.#queue.unshift(...unwritten(batch, written));
    const wasFull = this.#queuedBytes >= MAX_QUEUE_BYTES;
    this.#queuedBytes -= written;
    if (wasFull && this.#queuedBytes < MAX_QUEUE_BYTES) this.#onDrain();
    this.#flush();
  }

  /** A full or failing disk costs the file, never the command. */
  #fail(): void {
    this.#isBroken = true;
    this.#queue = [];
    const wasFull = this.#queuedBytes >= MAX_QUEUE_BYTES;
    this.#queuedBytes = 0;
    if (this.path !== undefined) quietly(() => unlinkSync(this.path as string));
    this.path = undefined;
    this.#closeFile();
    if (wasFull) this.#onDrain();
  }

  #closeFile(): void {
    const fd = this.#fd;
    this.#fd = undefined;
    if (fd !== undefined) quietly(() => closeSync(fd));
  }
}

/** What a short write left over. */
function unwritten(batch: readonly Buffer[], written: number): Buffer[] {
  let left = written;
  let index = 0;
  for (; index < batch.length; index += 1) {
    const { length } = batch[index] as Buffer;
    if (length > left) break;
    left -= length;
  }
  const [first, ...rest] = batch.slice(index);
  return first === undefined ? [] : [left > 0 ? first.subarray(left) : first, ...rest];
}

/** Removes the oldest files until all together hold at most `limit` bytes. */
function removeOldest(directory: string, limit: number): void {
  const files = readdirSync(directory)
    .map((name) => join(directory, name))
    .map((path) => ({ path, stat: statSync(path, { throwIfNoEntry: false }) }))
    .flatMap(({ path, stat }) => (stat?.isFile() ? [{ path, bytes: stat.size, time: stat.mtimeMs }] : []))
    .toSorted((a, b) => a.time - b.time);
  let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, bytes } of files) {
    if (total <= Math.max(0, limit)) return;
    quietly(() => unlinkSync(path));
    total -= bytes;
  }
}

function quietly(action: () => void): void {
  try {
    action();
  } catch {
    // The file is an extra; whatever is wrong with it must not reach the command.
  }
}
