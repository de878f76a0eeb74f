import { randomUUID } from 'node:crypto';
import { open, readFile, rename } from 'node:fs/promises';
import path from 'node:path';
import { ifExists, syncDirectory, withPath } from './files.ts';

const NAME = 'generation';
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

/** The id of a log, and the earlier ones under which some of its segments were begun. */
export interface Generations {
  readonly current: string;
  readonly former: readonly string[];
}

export function newGeneration(): string {
  return randomUUID();
}

/** Undefined when there is no such file, or a damaged one. */
export async function readGenerations(directory: string): Promise<Generations | undefined> {
  const text = await ifExists(readFile(path.join(directory, NAME), 'utf8'));
  const [current, ...former] = text?.trim().split('\n') ?? [];
  return current !== undefined && [current, ...former].every((id) => UUID.test(id)) ? { current, former } : undefined;
}

/** Durable when it resolves; until then the old file is there. */
export async function saveGenerations(directory: string, { current, former }: Generations): Promise<void> {
  const file = path.join(directory, NAME);
  try {
    const handle = await open(`${file}.new`, 'w', 0o600);
    try {
      await handle.writeFile([current, ...former, ''].join('\n'));
      await handle.datasync();
    } finally {
      await handle.close();
    }
    await rename(`${file}.new`, file);
    await syncDirectory(directory);
  } catch (error) {
    throw withPath(error, file);
  }
}
