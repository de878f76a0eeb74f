import type { ZipFile } from 'yauzl';
import { quote } from '../../src/protocol/problems.ts';
import { openEntry, refused, type SafeEntry } from './zip-entries.ts';

/** Longest target of a symbolic link, as in the kernel. */
const MAX_TARGET_BYTES = 4096;

/** Where a link of an archive points. @throws AppError ARCHIVE_REFUSED when that is outside, or cannot be read */
export async function linkTarget(zip: ZipFile, entry: SafeEntry): Promise<string> {
  const name = quote(entry.parts.join('/'));
  if (entry.entry.uncompressedSize > MAX_TARGET_BYTES) throw refused(`the target of link ${name} is too long`);
  const target = await readText(zip, entry, name);
  if (leavesDestination(entry.parts, target)) throw refused(`link ${name} points out of the destination`);
  return target;
}

async function readText(zip: ZipFile, entry: SafeEntry, name: string): Promise<string> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of await openEntry(zip, entry)) chunks.push(chunk as Buffer);
  } catch (error) {
    throw refused(`the target of link ${name} cannot be read`, error);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/**
 * Only targets whose `..` come first are taken: behind a name that is itself a link, `..` could lead anywhere.
 */
function leavesDestination(parts: readonly string[], to: string): boolean {
  if (to === '' || to.startsWith('/') || to.includes('\0')) return true;
  const steps = to.split('/').filter((part) => part !== '' && part !== '.');
  const ups = steps.findIndex((part) => part !== '..');
  const count = ups < 0 ? steps.length : ups;
  return count > parts.length - 1 || steps.slice(count).includes('..');
}
