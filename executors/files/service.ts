import { AppError } from '../../src/errors.ts';
import type { SearchFilesLine, SearchFilesRequest } from '../../src/protocol/http.ts';
import { codeOf } from '../../src/sandbox/file-faults.ts';
import { type Download, openDownload } from './download.ts';
import { FilesExecutor, type FilesOptions } from './executor.ts';
import { listDirectory } from './list.ts';
import { MAX_MEDIA_BYTES } from './limits.ts';
import { KeyedLocks } from './locks.ts';
import { type SearchOptions, searchFiles } from './search.ts';
import { deletePath, type FileInfo, openForServing, type OpenFile, putFile, type PutRequest } from './serve.ts';
import { readBytes } from './text-file.ts';
import { receiveUpload, transferError, type UploadRequest } from './upload.ts';
import { type Watch, watchFiles } from './watch.ts';
import type { UnzipLimits } from './zip-entries.ts';

export interface FileServiceOptions extends Omit<FilesOptions, 'locks'>, UnzipLimits, SearchOptions {}

/** Everything about files: the actions, and what has an HTTP endpoint of its own. */
export class FileService {
  readonly executor: FilesExecutor;
  readonly #options: FileServiceOptions;
  readonly #locks = new KeyedLocks();

  constructor(options: FileServiceOptions) {
    this.#options = options;
    this.executor = new FilesExecutor({ ...options, locks: this.#locks });
  }

  /** V0 §2.7. @param path undefined: the initial working directory */
  list(path: string | undefined): Promise<string[]> {
    const { access, workingDir } = this.#options;
    return listDirectory(access, path, workingDir);
  }

  /** V0 §2.5. @throws AppError */
  receiveUpload(request: UploadRequest, content: AsyncIterable<Uint8Array>): Promise<void> {
    return receiveUpload({ ...this.#options, locks: this.#locks }, request, content);
  }

  /** V0 §2.6. @throws AppError TRANSFER_FAILED */
  async openDownload(path: string): Promise<Download> {
    if (!path.startsWith('/')) throw new AppError('TRANSFER_FAILED', '400: Path must be an absolute path');
    try {
      return await openDownload(this.#options.access, path);
    } catch (error) {
      if (codeOf(error) === 'ENOENT') throw new AppError('TRANSFER_FAILED', '404: File not found', { cause: error });
      throw transferError(error, path);
    }
  }

  /** All of a file, for the viewer. @throws ENOENT, EISDIR, EACCES, TooLargeError, SpecialFileError, OutsideRootsError */
  async readWhole(path: string): Promise<Buffer> {
    const { access } = this.#options;
    await using pin = await access.pin(path);
    return await readBytes(access, pin, path, MAX_MEDIA_BYTES);
  }

  /** A file or directory for `GET /files/{path}`. @throws AppError */
  open(path: string): Promise<OpenFile> {
    return openForServing(this.#options.access, path);
  }

  /** @throws AppError */
  put(request: PutRequest, content: AsyncIterable<Uint8Array>): Promise<{ info: FileInfo; isNew: boolean }> {
    return putFile(this.#options.access, this.#locks, request, content);
  }

  /** @throws AppError */
  remove(path: string, options: { isRecursive: boolean; check: PutRequest['check'] }): Promise<void> {
    return deletePath(this.#options.access, this.#locks, path, options);
  }

  /** @throws AppError */
  search(request: SearchFilesRequest): Promise<AsyncGenerator<SearchFilesLine>> {
    return searchFiles(this.#options, request);
  }

  /** @throws AppError */
  watch(path: string): Promise<Watch> {
    return watchFiles(this.#options.access, path);
  }
}
