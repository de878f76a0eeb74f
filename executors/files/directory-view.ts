import { readdir, stat } from 'node:fs/promises';
import { clip, DIRECTORY_NOTICE } from './editor-texts.ts';
import { MAX_VIEW_ENTRIES } from './limits.ts';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import type { Pin } from '../../src/sandbox/pin.ts';

const LEVELS = 2;

/**
 * Files and directories up to two levels deep, as `find -L` lists them, without what is hidden (V0 §7.5). Directories that cannot be
 * read are named and not entered.
 */
export async function viewDirectory(access: FileAccess, pin: Pin, path: string): Promise<string> {
  access.require(pin, 'read', path);
  const names = await readdir(pin.link);
  const hidden = names.filter((name) => name.startsWith('.')).length;
  const found = [path, ...(await listBelow(access, pin, path, LEVELS))].toSorted(compareCodePoints);
  const shown = clip(found.join('\n'), DIRECTORY_NOTICE).split('\n');
  const lines = await Promise.all(shown.map(async (line) => ((await isDirectory(line)) ? `${line}/` : line)));
  const listing = `Here's the files and directories up to 2 levels deep in ${path}, excluding hidden items:\n${lines.join('\n')}`;
  if (hidden === 0) return listing;
  return `${listing}\n\n${hidden} hidden files/directories in this directory are excluded. You can use 'ls -la ${path}' to see them.`;
}

async function listBelow(access: FileAccess, pin: Pin, path: string, levels: number): Promise<string[]> {
  const names = (await readdir(pin.link)).filter((name) => !name.startsWith('.')).slice(0, MAX_VIEW_ENTRIES);
  const prefix = path === '/' ? '/' : `${path}/`;
  const found: string[] = [];
  for (const name of names) {
    const entry = prefix + name;
    found.push(entry);
    if (levels > 1 && found.length < MAX_VIEW_ENTRIES && (await isDirectory(pin.child(name))))
      found.push(...(await listChild(access, pin, name, entry, levels - 1)));
  }
  return found;
}

async function listChild(access: FileAccess, pin: Pin, name: string, entry: string, levels: number): Promise<string[]> {
  try {
    await using child = await access.pinChild(pin, name, entry);
    access.require(child, 'read', entry);
    return await listBelow(access, child, entry, levels);
  } catch {
    return [];
  }
}

async function isDirectory(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}

/** As their bytes in UTF-8 compare, without making them of a hundred thousand names. */
function compareCodePoints(a: string, b: string): number {
  let at = 0;
  while (at < a.length && a.charCodeAt(at) === b.charCodeAt(at)) at += 1;
  return order(a, at) - order(b, at);
}

/** Surrogates stand for what comes behind all other characters. The end comes first. */
function order(text: string, at: number): number {
  const code = at < text.length ? text.charCodeAt(at) : -1;
  return code >= 0xd800 && code <= 0xdfff ? code + 0x10000 : code;
}
