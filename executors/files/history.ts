import { MAX_UNDO_FILE_BYTES, MAX_UNDO_STEPS, MAX_UNDO_TOTAL_BYTES } from './limits.ts';

export interface HistoryLimits {
  readonly steps: number;
  readonly fileBytes: number;
  readonly totalBytes: number;
}

const LIMITS: HistoryLimits = {
  steps: MAX_UNDO_STEPS,
  fileBytes: MAX_UNDO_FILE_BYTES,
  totalBytes: MAX_UNDO_TOTAL_BYTES,
};

/** Taken as the size of each version beside its bytes, so that a million empty ones are not free. */
const VERSION_BYTES = 256;

/** What files were before their last edits. Bounded for each file and in all; the oldest goes first. */
export class EditHistory {
  readonly #limits: HistoryLimits;
  /** The file that was edited last is the last. */
  readonly #versions = new Map<string, Buffer[]>();
  #bytes = 0;

  constructor(limits: HistoryLimits = LIMITS) {
    this.#limits = limits;
  }

  /** Bytes that are held. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Remembers what a file was; forgets it at once when it is more than the limit of one file. */
  push(key: string, bytes: Buffer): void {
    const versions = this.#versions.get(key) ?? [];
    this.#versions.delete(key);
    this.#versions.set(key, versions);
    versions.push(bytes);
    this.#bytes += costOf(bytes);
    while (versions.length > this.#limits.steps || sizeOf(versions) > this.#limits.fileBytes) this.#dropOldest(key);
    while (this.#bytes > this.#limits.totalBytes) this.#dropOldest(this.#versions.keys().next().value ?? key);
  }

  /** The last version, without removing it. */
  last(key: string): Buffer | undefined {
    return this.#versions.get(key)?.at(-1);
  }

  pop(key: string): void {
    const versions = this.#versions.get(key);
    this.#bytes -= costOf(versions?.pop());
    if (versions?.length === 0) this.#versions.delete(key);
  }

  #dropOldest(key: string): void {
    const versions = this.#versions.get(key);
    this.#bytes -= costOf(versions?.shift());
    if (versions?.length === 0) this.#versions.delete(key);
  }
}

function sizeOf(versions: readonly Buffer[]): number {
  return versions.reduce((sum, version) => sum + costOf(version), 0);
}

function costOf(version: Buffer | undefined): number {
  return version === undefined ? 0 : version.length + VERSION_BYTES;
}
