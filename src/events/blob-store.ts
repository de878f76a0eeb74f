import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { ifExists, syncDirectory } from './files.ts';

const BLOB_NAME = /^(\d+)\.json$/;

/** Whole large events, one file each, named by seq. */
export class BlobStore {
  readonly #directory: string;

  constructor(logDirectory: string) {
    this.#directory = path.join(logDirectory, 'blobs');
  }

  /** Writes them durably. */
  async write(blobs: readonly { readonly seq: number; readonly data: Buffer }[]): Promise<void> {
    await mkdir(this.#directory, { recursive: true });
    for (const { seq, data } of blobs) {
      const handle = await open(this.#pathOf(seq), 'w', 0o600);
      try {
        await handle.writeFile(data);
        await handle.datasync();
      } finally {
        await handle.close();
      }
    }
    await syncDirectory(this.#directory);
  }

  /** Undefined when it is missing or not what was written. */
  async read(seq: number, expected: { readonly bytes: number; readonly sha256: string }): Promise<Buffer | undefined> {
    const data = await ifExists(readFile(this.#pathOf(seq)));
    if (data?.length !== expected.bytes) return undefined;
    return createHash('sha256').update(data).digest('hex') === expected.sha256 ? data : undefined;
  }

  async remove(seqs: Iterable<number>): Promise<void> {
    for (const seq of seqs) await rm(this.#pathOf(seq), { force: true });
  }

  /** Removes what belongs to no record: a crash came between the two. */
  async keepOnly(seqs: ReadonlySet<number>): Promise<void> {
    const names = (await ifExists(readdir(this.#directory))) ?? [];
    const orphans = names.map((name) => BLOB_NAME.exec(name)?.[1]).filter((seq) => seq !== undefined);
    await this.remove(orphans.map(Number).filter((seq) => !seqs.has(seq)));
  }

  #pathOf(seq: number): string {
    return path.join(this.#directory, `${seq}.json`);
  }
}
