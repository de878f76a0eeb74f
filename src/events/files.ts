import { open } from 'node:fs/promises';

export const SEGMENT_NAME = /^(\d{20})\.seg$/;
export const INDEX_NAME = /^(\d{20})\.idx$/;
/** What was cut off or set aside: kept for a person to look at, within a limit. */
export const TORN_SUFFIX = '.torn';

export function segmentName(first: number): string {
  return `${String(first).padStart(20, '0')}.seg`;
}

export function indexName(first: number): string {
  return `${String(first).padStart(20, '0')}.idx`;
}

/** The first seq of a segment or index file, from its name. */
export function firstSeqOf(name: string): number {
  return Number(name.slice(0, 20));
}

/** Makes new, renamed and removed names in a directory durable. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}

/** The same error with the path in it: the system names none when a write fails. */
export function withPath(error: unknown, file: string): unknown {
  if (error instanceof Error && !error.message.includes(file)) error.message += ` '${file}'`;
  return error;
}

/** The result, or undefined when there is no such file. */
export async function ifExists<T>(result: Promise<T>): Promise<T | undefined> {
  try {
    return await result;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}
