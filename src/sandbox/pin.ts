import { constants, type Stats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { fault, SpecialFileError } from './file-faults.ts';

/**
 * One file or directory, held by a descriptor that can neither read nor write (O_PATH): whatever happens to its name, `link` and
 * `child` mean this very one. Opening has no effect on pipes and devices and never blocks. To be closed by whoever asked for it.
 */
export class Pin implements AsyncDisposable {
  /** Where it was when it was pinned, without symbolic links. */
  readonly path: string;
  readonly stats: Stats;
  readonly #handle: FileHandle;

  constructor(handle: FileHandle, path: string, stats: Stats) {
    this.#handle = handle;
    this.path = path;
    this.stats = stats;
  }

  /** For a child process; it is ours to close. */
  get fd(): number {
    return this.#handle.fd;
  }

  /** A path for system calls that follow links. */
  get link(): string {
    return `/proc/self/fd/${this.#handle.fd}`;
  }

  /** A path for system calls on an entry of this directory. @param name without slashes */
  child(name: string): string {
    return `${this.link}/${name}`;
  }

  /** The same for a name that may be no UTF-8. */
  childOfBytes(name: Buffer): Buffer {
    return Buffer.concat([Buffer.from(`${this.link}/`), name]);
  }

  /** @throws SpecialFileError, EISDIR */
  requireFile(path: string): void {
    if (this.stats.isFile()) return;
    if (this.stats.isDirectory()) throw fault('EISDIR', path);
    throw new SpecialFileError(path, kindOf(this.stats));
  }

  /** A regular file for reading; a kernel file that would wait for news fails with EAGAIN. */
  openForReading(path: string): Promise<FileHandle> {
    this.requireFile(path);
    return open(this.link, constants.O_RDONLY | constants.O_NONBLOCK);
  }

  close(): Promise<void> {
    return this.#handle.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** What a file is, in words. */
export function kindOf(stats: Stats): string {
  if (stats.isFile()) return 'file';
  if (stats.isDirectory()) return 'directory';
  if (stats.isFIFO()) return 'named pipe';
  if (stats.isSocket()) return 'socket';
  return stats.isSymbolicLink() ? 'symbolic link' : 'device';
}
