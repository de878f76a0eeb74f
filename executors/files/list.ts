import { readdir, stat } from 'node:fs/promises';
import type { FileAccess } from '../../src/sandbox/file-access.ts';

/**
 * Names in a directory as V0 §2.7 lists them: directories first, each with a trailing `/`, then files, each group sorted without regard
 * to case; links count as what they point to and are left out when that is missing. Whatever fails gives `[]`.
 * @param path relative paths are joined to `base`
 */
export async function listDirectory(access: FileAccess, path: string | undefined, base: string): Promise<string[]> {
  try {
    await using directory = await access.pin(absolute(path ?? base, base));
    access.require(directory, 'read', directory.path);
    const entries = await readdir(directory.link, { withFileTypes: true });
    const kinds = await Promise.all(
      entries.map(async (entry) => ({
        name: entry.name,
        kind: entry.isSymbolicLink()
          ? await targetKind(directory.child(entry.name))
          : entry.isDirectory()
            ? 'directory'
            : 'file',
      })),
    );
    const names = (kind: string): string[] => kinds.filter((entry) => entry.kind === kind).map(({ name }) => name);
    return [
      ...names('directory')
        .toSorted(compare)
        .map((name) => `${name}/`),
      ...names('file').toSorted(compare),
    ];
  } catch {
    return [];
  }
}

function absolute(path: string, base: string): string {
  return path.startsWith('/') ? path : `${base}/${path}`;
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
