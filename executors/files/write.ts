import { isUtf8 } from 'node:buffer';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import { splitPath } from '../../src/sandbox/file-access.ts';
import { codeOf } from '../../src/sandbox/file-faults.ts';
import type { Pin } from '../../src/sandbox/pin.ts';
import { encode, UTF_8 } from './encoding.ts';
import { MAX_RANGE_WRITE_BYTES } from './limits.ts';
import { endOfRawLine, offsetOfLine } from './lines.ts';
import { NotUtf8Error } from './read.ts';
import { replaceFile } from './replacement.ts';
import { readBytes } from './text-file.ts';

export interface WriteRequest {
  readonly content: string;
  /** Lines to replace, from 0, end exclusive; -1: to the end. A file that is not there is written whole. */
  readonly start: number;
  readonly end: number;
}

/**
 * Writes the lines of a text, each with a line end, in place of a range of lines or of the whole file; missing directories are made
 * (V0 §7.4).
 * @throws NotUtf8Error for an existing file in another encoding, UnencodableError, TooLargeError, EACCES, EISDIR, ENOSPC, …
 */
export async function writeLines(access: FileAccess, path: string, request: WriteRequest): Promise<void> {
  const existing = await pinExisting(access, path);
  let bytes: Buffer;
  try {
    bytes = await encode(await newText(access, existing, path, request), UTF_8);
    if (!existing) await makeParents(access, path);
  } finally {
    await existing?.close();
  }
  await replaceFile(access, path, bytes);
}

async function pinExisting(access: FileAccess, path: string): Promise<Pin | undefined> {
  try {
    return await access.pin(path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function makeParents(access: FileAccess, path: string): Promise<void> {
  const parent = await access.makeDirectories(splitPath(path).directory);
  await parent.close();
}

async function newText(
  access: FileAccess,
  existing: Pin | undefined,
  path: string,
  { content, start, end }: WriteRequest,
): Promise<string> {
  const written = `${content}\n`;
  if (!existing) return written;
  existing.requireFile(path);
  access.require(existing, 'write', path);
  const isWhole = start === 0 && end === -1;
  if (isWhole && existing.stats.size > MAX_RANGE_WRITE_BYTES) return written;
  const old = await readText(access, existing, path);
  return isWhole ? written : replaceRange(old, start, end, written);
}

async function readText(access: FileAccess, existing: Pin, path: string): Promise<string> {
  const bytes = await readBytes(access, existing, path, MAX_RANGE_WRITE_BYTES);
  if (!isUtf8(bytes)) throw new NotUtf8Error(`File could not be decoded as utf-8: ${path}`);
  return bytes.toString('utf8');
}

/** `old[:start] + written + old[end:]`, with the line ends of the old lines. */
function replaceRange(old: string, start: number, end: number, written: string): string {
  const before = start === 0 ? '' : old.slice(0, offsetOfLine(old, start));
  const rest = end === -1 ? '' : old.slice(offsetOfLine(old, end));
  const isCrLf = before === '' ? endsWithCrLf(rest === '' ? old : rest) : before.endsWith('\r\n');
  const lineEnd = isCrLf ? '\r\n' : '\n';
  const put = isCrLf ? written.replaceAll(/(?<!\r)\n/g, '\r\n') : written;
  const isOpen = before !== '' && !before.endsWith('\n') && !before.endsWith('\r');
  return before + (isOpen ? lineEnd : '') + put + rest;
}

/** Whether the first line does. */
function endsWithCrLf(text: string): boolean {
  return text.slice(0, endOfRawLine(text, 1)).endsWith('\r\n');
}
