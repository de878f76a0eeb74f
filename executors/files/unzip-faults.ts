import { AppError, type ErrorCode } from '../../src/errors.ts';
import { quote } from '../../src/protocol/problems.ts';
import { codeOf, faultText, OutsideRootsError } from '../../src/sandbox/file-faults.ts';

/** Something at the place of an entry, or above it, that is neither replaced nor followed. */
export class InTheWayError extends Error {
  override readonly name = 'InTheWayError';
}

/** What whoever sent the archive can mend: by another destination, or by removing what is there. */
const IN_THE_WAY: ReadonlySet<string | undefined> = new Set([
  'EISDIR',
  'ENOTDIR',
  'EEXIST',
  'ENOTEMPTY',
  'EACCES',
  'EPERM',
  'EROFS',
  'EBUSY',
  'ELOOP',
  'ENXIO',
  'ETXTBSY',
  'ENAMETOOLONG',
]);

/** The error of an entry, with its name and with how much was unpacked before it. */
export function stoppedAt(
  { parts }: { readonly parts: readonly string[] },
  error: unknown,
  { path, done, total }: { readonly path: string; readonly done: number; readonly total: number },
): AppError {
  if (error instanceof AppError) return error;
  const reason = faultText(error, pathOf(error) ?? path);
  const detail = `Entry ${quote(parts.join('/'))} cannot be unpacked: ${reason}. Before it ${done} of ${total} entries were unpacked.`;
  return new AppError(codeFor(error), detail, { cause: error });
}

function codeFor(error: unknown): ErrorCode {
  const code = codeOf(error);
  if (code === 'ENOSPC' || code === 'EDQUOT') return 'DISK_FULL';
  const isInTheWay = error instanceof InTheWayError || error instanceof OutsideRootsError || IN_THE_WAY.has(code);
  return isInTheWay ? 'ARCHIVE_REFUSED' : 'TRANSFER_FAILED';
}

/** The part of the way that failed, unless it is a name of our own for it. */
function pathOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('path' in error) || typeof error.path !== 'string') return undefined;
  return error.path.startsWith('/proc/self/') ? undefined : error.path;
}
