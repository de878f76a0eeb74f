import { readdir, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';

/**
 * Names in a directory as V0 §2.7 lists them: directories first, each with a trailing `/`, then files, each group sorted without regard
 * to case; links count as what they point to and are left out when that is missing. Whatever fails gives `[]`.
 * @param path relative paths are joined to `base`
 */
export async function listDirectory(path: string | undefined, base: string): Promise<string[]> {
  try {
    const directory = path === undefined ? base : resolve(base, path);
    const entries = await readdir(directory, { withFileTypes: true });
    const kinds = await Promise.all(
      entries.map(async (entry) => ({
        name: entry.name,
        kind: entry.isSymbolicLink() ? await targetKind(join(directory, entry.name)) : entry.isDirectory() ? 'directory' : 'file',
      })),
    );
    const names = (kind: string): string[] => kinds.filter((entry) => entry.kind === kind).map(({ name }) => name);
    return [...names('directory').toSorted(compare).map((name) => `${name}/`), ...names('file').toSorted(compare)];
  } catch {
    return [];
  }
}

async function targetKind(path: string): Promise<'directory' | 'file' | 'missing'> {
  try {
    return (await stat(path)).isDirectory() ? 'directory' : 'file';
  } catch {
    return 'missing';
  }
}

function compare(a: string, b: string): number {
  const [first, second] = [a.toLowerCase(), b.toLowerCase()];
  return first < second ? -1 : first > second ? 1 : 0;
}
