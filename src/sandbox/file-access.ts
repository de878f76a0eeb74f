import type { Stats } from 'node:fs';
import { type FileHandle, lchown, mkdir, open, readlink, realpath, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Account } from './account.ts';
import { codeOf, fault, OutsideRootsError } from './file-faults.ts';
import { hasRight, type Identity, identityOf, type Right } from './identity.ts';
import { Pin } from './pin.ts';
import { PlainFiles } from './plain-files.ts';

export interface FileAccessOptions {
  /** Whose rights count and who owns what is made; undefined: this process's own. */
  readonly identity?: Identity | undefined;
  /** The only directories that may be touched; empty: no such limit. */
  readonly roots: readonly string[];
}

/** How often a file is looked for that is being replaced all the time. */
const MAX_ATTEMPTS = 20;

/** Linux; Node has no name for it. */
const O_PATH = 0o10000000;

/**
 * The way to every file. Names are resolved once, by the kernel; what came out is pinned, checked, and then used through its
 * descriptor, so that a link that changes meanwhile changes nothing.
 *
 * A server that runs as root for another account checks mode bits itself (see docs/adr/file-access.md).
 */
export class FileAccess {
  readonly identity: Identity | undefined;
  readonly plainFiles = new PlainFiles();
  readonly #roots: readonly string[];

  constructor({ identity, roots }: FileAccessOptions) {
    this.identity = identity;
    this.#roots = roots;
  }

  /**
   * @param path absolute; links are followed
   * @throws OutsideRootsError; ENOENT, EACCES, ENOTDIR, ELOOP, ENAMETOOLONG
   */
  async pin(path: string): Promise<Pin> {
    await this.#checkSearch(path);
    try {
      return await this.#pinAt(path, path);
    } catch (error) {
      if (this.#roots.length > 0 && codeOf(error) !== undefined) await this.#checkNearest(path);
      throw error;
    }
  }

  /** An entry of a pinned directory; links are followed. @param path for messages */
  async pinChild(parent: Pin, name: string | Buffer, path: string): Promise<Pin> {
    this.require(parent, 'search', path);
    return this.#pinAt(typeof name === 'string' ? parent.child(name) : parent.childOfBytes(name), path);
  }

  /** The directory that holds `path`, and the last name of it. @throws EISDIR for a path without such a name */
  async pinParent(path: string): Promise<{ parent: Pin; name: string }> {
    const { directory, name } = splitPath(path);
    const parent = await this.pin(directory);
    if (parent.stats.isDirectory()) return { parent, name };
    await parent.close();
    throw fault('ENOTDIR', path);
  }

  /** @throws EACCES when the account has not got the right; a process of its own account leaves that to the kernel */
  require(pin: Pin, right: Right, path: string): void {
    if (!this.allows(pin.stats, right)) throw fault('EACCES', path);
  }

  allows(stats: Stats, right: Right): boolean {
    return this.identity === undefined || hasRight(this.identity, stats, right);
  }

  /** Whether an entry of a directory may be replaced or removed, which the sticky bit restricts. */
  allowsReplacing(directory: Stats, entry: Stats): boolean {
    if (this.identity === undefined) return true;
    const { uid } = this.identity;
    const isSticky = (directory.mode & STICKY) !== 0;
    const isOwner = uid === 0 || uid === directory.uid || uid === entry.uid;
    return this.allows(directory, 'write') && this.allows(directory, 'search') && (!isSticky || isOwner);
  }

  /** Gives a new entry to the account. @param directory what it is in, whose set-group-id bit hands its group down */
  async claim(path: string, directory: Stats): Promise<void> {
    const owner = this.#ownerIn(directory);
    if (owner) await lchown(path, owner.uid, owner.gid);
  }

  /** The same for a new file that is open: whatever somebody has put under its name meanwhile keeps its owner. */
  async claimOpen(file: FileHandle, directory: Stats): Promise<void> {
    const owner = this.#ownerIn(directory);
    if (owner) await file.chown(owner.uid, owner.gid);
  }

  #ownerIn(directory: Stats): { uid: number; gid: number } | undefined {
    if (this.identity === undefined) return undefined;
    const { uid, gid } = this.identity;
    return { uid, gid: (directory.mode & SETGID) === 0 ? gid : directory.gid };
  }

  /** The directory, made with those above it where they are missing. @throws ENOTDIR and what `pin` throws */
  async makeDirectories(path: string): Promise<Pin> {
    const existing = await this.pin(path).catch((error: unknown) => {
      if (codeOf(error) !== 'ENOENT') throw error;
    });
    if (existing?.stats.isDirectory()) return existing;
    if (existing) {
      await existing.close();
      throw fault('ENOTDIR', path);
    }
    const { directory, name } = splitPath(path);
    await using parent = await this.makeDirectories(directory);
    return await this.makeDirectory(parent, name, path);
  }

  /** One directory in another, or the one that is there. @throws EACCES, ENOSPC, ENOTDIR */
  async makeDirectory(parent: Pin, name: string, path: string): Promise<Pin> {
    this.require(parent, 'write', path);
    try {
      await mkdir(parent.child(name));
      await this.claim(parent.child(name), parent.stats);
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
    }
    const made = await this.pinChild(parent, name, path);
    if (made.stats.isDirectory()) return made;
    await made.close();
    throw fault('ENOTDIR', path);
  }

  /** One name for one file, however it is spelled: for locks and histories. */
  async keyOf(path: string): Promise<string> {
    try {
      return await realpath(path);
    } catch {
      const { directory, name } = splitPath(path);
      return `${await realpath(directory).catch(() => directory)}/${name}`;
    }
  }

  /** A file that is replaced in the very moment of opening is opened anew: there always is one. */
  async #pinAt(openPath: string | Buffer, path: string): Promise<Pin> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
      const pin = await this.#tryPin(openPath, path);
      if (pin) return pin;
    }
    throw fault('ENOENT', path);
  }

  /** undefined: what was opened has no name any more. */
  async #tryPin(openPath: string | Buffer, path: string): Promise<Pin | undefined> {
    const handle = await open(openPath, O_PATH).catch((error: unknown) => {
      const code = codeOf(error);
      throw code !== undefined && code in KNOWN_CODES ? fault(code as keyof typeof KNOWN_CODES, path) : error;
    });
    let pin: Pin | undefined;
    try {
      // In this order: what has a name afterwards had one when it was asked for.
      const target = await readlink(`/proc/self/fd/${handle.fd}`);
      const stats = await handle.stat();
      if (stats.nlink === 0) return undefined;
      if (!this.#isInside(target)) throw new OutsideRootsError(path);
      await this.#checkSearch(target);
      pin = new Pin(handle, target, stats);
      return pin;
    } finally {
      if (!pin) await handle.close();
    }
  }

  #isInside(target: string): boolean {
    if (this.#roots.length === 0) return true;
    return this.#roots.some((root) => target === root || target.startsWith(root === '/' ? '/' : `${root}/`));
  }

  /** What is missing, but would be outside, is outside: nobody learns what is there. */
  async #checkNearest(path: string): Promise<void> {
    for (let above = directoryOf(path); ; above = directoryOf(above)) {
      try {
        const pin = await this.#pinAt(above, path);
        await pin.close();
        return;
      } catch (error) {
        if (error instanceof OutsideRootsError || above === '/') throw error;
      }
    }
  }

  /** Every directory above must let the account through. */
  async #checkSearch(path: string): Promise<void> {
    if (this.identity === undefined || !path.startsWith('/')) return;
    const above = ancestors(path);
    const found = await Promise.all(above.map((directory) => stat(directory).catch(() => undefined)));
    if (found.some((stats) => stats?.isDirectory() === true && !this.allows(stats, 'search')))
      throw fault('EACCES', path);
  }
}

/**
 * @param account whose rights count when it is not this process's own
 * @param roots absolute; those that exist are resolved now
 */
export async function createFileAccess(account: Account | undefined, roots: readonly string[]): Promise<FileAccess> {
  return new FileAccess({
    identity: account && (await identityOf(account)),
    roots: await Promise.all(roots.map((root) => realpath(root).catch(() => resolve(root)))),
  });
}

const STICKY = 0o1000;
const SETGID = 0o2000;

/** Failures whose message names our detour through a descriptor; they are told again with the path that was asked for. */
const KNOWN_CODES = { ENOENT: 1, EACCES: 1, ENOTDIR: 1, ELOOP: 1, ENAMETOOLONG: 1 } as const;

/** `/a/b/c` → `/`, `/a`, `/a/b`. */
function ancestors(path: string): string[] {
  const found = ['/'];
  for (let end = path.indexOf('/', 1); end > 0; end = path.indexOf('/', end + 1)) found.push(path.slice(0, end));
  return found;
}

function directoryOf(path: string): string {
  return path.replace(/\/+[^/]*\/*$/, '') || '/';
}

/** Directory and last name; no names are resolved, so `..` stays what the kernel takes it for. @throws EISDIR */
export function splitPath(path: string): { directory: string; name: string } {
  const trimmed = path.replace(/\/+$/, '');
  const end = trimmed.lastIndexOf('/');
  const name = trimmed.slice(end + 1);
  if (name === '' || name === '.' || name === '..') throw fault('EISDIR', path);
  return { directory: end <= 0 ? '/' : trimmed.slice(0, end), name };
}
