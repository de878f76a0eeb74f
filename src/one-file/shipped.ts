import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inFirstPlace, shippedBytes } from './places.ts';

interface Entry {
  readonly path: string;
  readonly size: number;
  readonly mode: number;
}

/** What the build put into the executable; files are written out when somebody first asks where they are. */
class Shipped {
  #directory: string | undefined;

  /** The folder that stands for that of the daemon's code, with its assets and the packages that are not bundled. */
  get dirname(): string {
    this.#directory ??= this.#writeFiles();
    return this.#directory;
  }

  get url(): string {
    return pathToFileURL(join(this.dirname, 'main.js')).href;
  }

  /** A package that is not bundled. */
  require(name: string): unknown {
    return createRequire(this.url)(name) as unknown;
  }

  /** Loads the native addon; its file is gone afterwards. */
  loadAddon(name: string): unknown {
    return inFirstPlace((directory) => {
      const file = join(directory, name);
      writeFileSync(file, shippedBytes(name), { mode: 0o700 });
      const loaded = { exports: {} };
      process.dlopen(loaded, file, constants.dlopen.RTLD_NOW);
      rmSync(directory, { recursive: true });
      return loaded.exports;
    });
  }

  #writeFiles(): string {
    const bytes = shippedBytes('files');
    const pack = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    const start = 4 + pack.readUInt32LE(0);
    const entries = JSON.parse(pack.subarray(4, start).toString()) as Entry[];
    const directory = inFirstPlace((place) => {
      let offset = start;
      for (const { path, size, mode } of entries) {
        const file = join(place, path);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, pack.subarray(offset, offset + size), { mode });
        offset += size;
      }
      // Programs of the sandbox's user may read them.
      chmodSync(place, 0o755);
      return place;
      // Nothing of it is executed, and a state directory outlives a daemon that is killed.
    }, tmpdir());
    process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
    return directory;
  }
}

/** What `import.meta` and the loaders of native code become in the one-file executable. */
export const actiondShipped = new Shipped();
