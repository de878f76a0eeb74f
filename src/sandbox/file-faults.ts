import { constants } from 'node:os';
import { getSystemErrorMap } from 'node:util';

/** The code of a failed system call, such as `ENOENT`; undefined for any other error. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

/** A failed system call that we found out ourselves. */
export function fault(code: keyof typeof constants.errno, path: string): NodeJS.ErrnoException {
  const errno = -constants.errno[code];
  return Object.assign(new Error(`${code}: ${systemText(errno)}, '${path}'`), { code, errno, path });
}

/** A path that is outside what the server may touch. */
export class OutsideRootsError extends Error {
  readonly path: string;

  constructor(path: string) {
    super(`${path} is outside the directories that this server serves (--confine).`);
    this.name = 'OutsideRootsError';
    this.path = path;
  }
}

/** A pipe, socket or device where a file is needed: reading one can block for ever. */
export class SpecialFileError extends Error {
  readonly path: string;

  constructor(path: string, kind: string) {
    super(`${path} is a ${kind}, not a regular file. Use a command with a time limit, such as timeout 5 head -c 100.`);
    this.name = 'SpecialFileError';
    this.path = path;
  }
}

/** More bytes than a limit of the server allows. */
export class TooLargeError extends Error {
  override readonly name = 'TooLargeError';
}

/** Where Python's words differ from libuv's. */
const PYTHON_WORDS: Readonly<Record<string, string>> = {
  EISDIR: 'Is a directory',
  ELOOP: 'Too many levels of symbolic links',
  ENAMETOOLONG: 'File name too long',
  EIO: 'Input/output error',
  ETXTBSY: 'Text file busy',
  ENOTEMPTY: 'Directory not empty',
  EAGAIN: 'Resource temporarily unavailable',
};

/** An error as Python prints it, `[Errno 2] No such file or directory: '/x'`, which is what V0's texts contain (V0 §7.5). */
export function pythonText(error: unknown, path: string): string {
  const code = codeOf(error);
  if (code === undefined || !hasErrno(error)) return messageOf(error);
  const words = PYTHON_WORDS[code] ?? capitalised(systemText(error.errno));
  return `[Errno ${-error.errno}] ${words}: '${path}'`;
}

/** An error in a sentence that starts with what is wrong and ends with the path. */
export function faultText(error: unknown, path: string): string {
  const code = codeOf(error);
  if (code === undefined || !hasErrno(error)) return messageOf(error);
  return `${PYTHON_WORDS[code] ?? capitalised(systemText(error.errno))}: ${path}`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function hasErrno(error: unknown): error is Error & { readonly errno: number } {
  return error instanceof Error && 'errno' in error && typeof error.errno === 'number';
}

function systemText(errno: number): string {
  return getSystemErrorMap().get(errno)?.[1] ?? `error ${-errno}`;
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
