import { constants } from 'node:fs';
import { open, rm, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { segmentName, syncDirectory, withPath } from './files.ts';
import { encodeHeader, HEADER_BYTES } from './segment.ts';

// The kernel syncs each write itself: one trip through the thread pool, not two.
const FLAGS = constants.O_WRONLY | constants.O_DSYNC;

/** The segment file in use. */
export class SegmentWriter {
  readonly #handle: FileHandle;
  readonly #file: string;

  private constructor(handle: FileHandle, file: string) {
    this.#handle = handle;
    this.#file = file;
  }

  /** A new segment with nothing but its header, durable with its name. Leaves no file when it fails. */
  static async create(directory: string, first: number, generation: string): Promise<SegmentWriter> {
    const file = path.join(directory, segmentName(first));
    const handle = await open(file, FLAGS | constants.O_CREAT | constants.O_TRUNC, 0o600);
    try {
      await writeFully(handle, encodeHeader(generation), 0);
      await syncDirectory(directory);
      return new SegmentWriter(handle, file);
    } catch (error) {
      await handle.close();
      await rm(file, { force: true });
      throw withPath(error, file);
    }
  }

  /** Goes on with a segment, without what a failed write may have left behind its last record. */
  static async reopen(directory: string, first: number, bytes: number): Promise<SegmentWriter> {
    const file = path.join(directory, segmentName(first));
    const handle = await open(file, FLAGS);
    try {
      await handle.truncate(Math.max(bytes, HEADER_BYTES));
      return new SegmentWriter(handle, file);
    } catch (error) {
      await handle.close();
      throw withPath(error, file);
    }
  }

  /** Durable when it resolves. When it rejects, close this writer and reopen. */
  async write(data: Buffer, position: number): Promise<void> {
    try {
      await writeFully(this.#handle, data, position);
    } catch (error) {
      throw withPath(error, this.#file);
    }
  }

  async truncate(bytes: number): Promise<void> {
    await this.#handle.truncate(bytes);
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}

/** A short write is not yet an error: the rest tells why. */
async function writeFully(handle: FileHandle, data: Buffer, position: number): Promise<void> {
  for (let done = 0; done < data.length;) {
    const { bytesWritten } = await handle.write(data, done, data.length - done, position + done);
    if (bytesWritten === 0) throw new Error('The event log could not be written: the disk took nothing.');
    done += bytesWritten;
  }
}
