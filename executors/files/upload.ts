import { randomUUID } from 'node:crypto';
import { AppError } from '../../src/errors.ts';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { codeOf, OutsideRootsError, pythonText } from '../../src/sandbox/file-faults.ts';
import type { KeyedLocks } from './locks.ts';
import { Replacement, TEMPORARY_PREFIX, writeFully } from './replacement.ts';
import type { UnzipLimits } from './zip-entries.ts';

export interface UploadRequest {
  /** A directory; made if it is missing. */
  readonly destination: string;
  /** Whether the file is an archive to be unpacked there. */
  readonly isRecursive: boolean;
  /** Last name only. */
  readonly filename: string;
}

export interface UploadOptions extends UnzipLimits {
  readonly access: FileAccess;
  readonly locks: KeyedLocks;
}

/**
 * Stores an uploaded file, or unpacks it (V0 §2.5). It is written to disk as it comes; before all of it is there, nothing is to be
 * seen of it, and when it fails nothing stays but directories that were made for it, and what `unzip` tells of.
 * @param content throws when the upload breaks off
 * @throws AppError TRANSFER_FAILED, ARCHIVE_REFUSED, DISK_FULL
 */
export async function receiveUpload(
  { access, locks, ...limits }: UploadOptions,
  request: UploadRequest,
  content: AsyncIterable<Uint8Array>,
): Promise<void> {
  const { destination, isRecursive, filename } = request;
  if (!destination.startsWith('/')) throw failed('400: Destination must be an absolute path');
  if (isRecursive && !filename.endsWith('.zip')) throw failed('400: Recursive uploads must be zip files');
  const path = `${destination.replace(/\/+$/, '')}/${filename}`;
  try {
    await using directory = await access.makeDirectories(destination);
    if (!isRecursive) {
      await using file = await Replacement.begin(access, path);
      await copyTo(file, content);
      await locks.run(await access.keyOf(path), () => file.commit());
      return;
    }
    await using archive = await Replacement.begin(access, `${directory.path}/${TEMPORARY_PREFIX}${randomUUID()}.zip`);
    await copyTo(archive, content);
    const { unzip } = await import('./unzip.ts');
    await unzip(access, archive.handle, directory, limits);
  } catch (error) {
    throw transferError(error, path);
  }
}

async function copyTo({ handle }: Replacement, content: AsyncIterable<Uint8Array>): Promise<void> {
  let position = 0;
  for await (const chunk of content) {
    await writeFully(handle, chunk, position);
    position += chunk.length;
  }
}

function failed(detail: string, cause?: unknown): AppError {
  return new AppError('TRANSFER_FAILED', detail, { cause });
}

/** Failures of the file endpoints in V0's form: status 500, the text says what. */
export function transferError(error: unknown, path: string): unknown {
  if (error instanceof AppError) return error;
  if (error instanceof OutsideRootsError) return failed(`403: ${error.message}`, error);
  if (codeOf(error) === 'ENOSPC' || codeOf(error) === 'EDQUOT')
    return new AppError('DISK_FULL', `${pythonText(error, path)}. Nothing was stored.`, { cause: error });
  return failed(pythonText(error, path), error);
}
