import { readdir, rm, writeFile } from 'node:fs/promises';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import type { Pin } from '../../src/sandbox/pin.ts';
import { MAX_SCREENSHOTS } from './limits.ts';

const NAME = /^screenshot_\d{8}_\d{6}_\d{6}\.png$/;

/** Pictures of pages as files for the agent (V0 §8.3); only the newest are kept. */
export class Screenshots {
  readonly #access: FileAccess;
  readonly #directory: string;

  /** @param workingDir the pictures are in `.browser_screenshots` below */
  constructor(access: FileAccess, workingDir: string) {
    this.#access = access;
    this.#directory = `${workingDir}/.browser_screenshots`;
  }

  /** @returns the file's path; undefined when it cannot be written */
  async save(png: Buffer): Promise<string | undefined> {
    try {
      await using directory = await this.#access.makeDirectories(this.#directory);
      this.#access.require(directory, 'write', this.#directory);
      const name = `screenshot_${stamp(new Date())}.png`;
      await writeFile(directory.child(name), png, { flag: 'wx' });
      await this.#access.claim(directory.child(name), directory.stats);
      await prune(directory);
      return `${this.#directory}/${name}`;
    } catch {
      return undefined;
    }
  }
}

async function prune(directory: Pin): Promise<void> {
  const names = (await readdir(directory.link)).filter((name) => NAME.test(name)).toSorted();
  const old = names.slice(0, Math.max(0, names.length - MAX_SCREENSHOTS));
  await Promise.all(old.map((name) => rm(directory.child(name), { force: true })));
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

/** `YYYYmmdd_HHMMSS_microseconds`, local time. */
function stamp(now: Date): string {
  const date = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  const time = `${two(now.getHours())}${two(now.getMinutes())}${two(now.getSeconds())}`;
  const micros = now.getMilliseconds() * 1000 + (Math.floor(performance.now() * 1000) % 1000);
  return `${date}_${time}_${String(micros).padStart(6, '0')}`;
}
