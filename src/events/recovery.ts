import { randomUUID } from 'node:crypto';
import { open, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { keepAside, MAX_ASIDE_BYTES, setAside, trimAside } from './aside.ts';
import { BlobStore } from './blob-store.ts';
import { firstSeqOf, ifExists, INDEX_NAME, indexName, SEGMENT_NAME } from './files.ts';
import { parseHead, parseKey } from './record.ts';
import { decodeHeader, HEADER_BYTES, SEGMENT_VERSION, walkRecords, type SegmentHeader } from './segment.ts';
import { decodeIndex, encodeIndex, Segment } from './segment-index.ts';

const GENERATION = 'generation';
const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;
const SCAN_CHUNK_BYTES = 1024 * 1024;

export interface Recovered {
  readonly generation: string;
  /** Oldest first, contiguous, none empty. */
  readonly segments: Segment[];
  readonly cutBytes: number;
  readonly wasClean: boolean;
}

type OnProblem = (text: string, error?: unknown) => void;

/** A segment file as it is found. */
interface Candidate {
  readonly first: number;
  readonly name: string;
  readonly size: number;
  /** From its `.idx`, if that is sound. */
  readonly index: Segment | undefined;
  readonly header: SegmentHeader | undefined;
}

/** Finds what is sound in a directory, and takes the rest out of the way. */
export async function recover(directory: string, onProblem: OnProblem): Promise<Recovered> {
  const names = await readdir(directory);
  const segmentNames = names.filter((name) => SEGMENT_NAME.test(name)).toSorted();
  const candidates = await Promise.all(segmentNames.map((name) => examine(directory, name)));
  for (const { name, header } of candidates) {
    if (header && header.version > SEGMENT_VERSION) {
      throw new Error(`${path.join(directory, name)} was written by a newer version of actiond; it is left alone.`);
    }
  }
  const stored = await readGeneration(directory);
  const known = findGeneration(candidates, stored);
  const recovery = new Recovery(directory, known, onProblem);
  const segments = await recovery.chain(candidates);
  // Seqs of a generation are never given twice to what somebody may have read.
  const hadEvents = recovery.hasLost || candidates.some(({ first }) => first > 1);
  const generation = known === undefined || (segments.length === 0 && hadEvents) ? randomUUID() : known;
  if (generation !== stored) await writeFile(path.join(directory, GENERATION), `${generation}\n`, { mode: 0o600 });
  const kept = new Set(segments.map(({ first }) => first));
  for (const name of names) {
    if (INDEX_NAME.test(name) && !kept.has(firstSeqOf(name))) await rm(path.join(directory, name), { force: true });
  }
  const blobs = new Set(segments.flatMap(({ fields }) => fields.blobs.map(([seq]) => seq)));
  await new BlobStore(directory).keepOnly(blobs);
  if (recovery.hasLost) await trimAside(directory, MAX_ASIDE_BYTES);
  const wasClean = !recovery.hasLost && (candidates.length === 0 || candidates.at(-1)?.index !== undefined);
  return { generation, segments, cutBytes: recovery.cutBytes, wasClean };
}

async function examine(directory: string, name: string): Promise<Candidate> {
  const file = path.join(directory, name);
  const first = firstSeqOf(name);
  const { size } = await stat(file);
  const index = await readIndex(directory, first, size);
  return {
    first,
    name,
    size,
    index: index?.segment,
    header: index ? { version: SEGMENT_VERSION, generation: index.generation } : await readHeader(file),
  };
}

async function readIndex(directory: string, first: number, bytes: number): Promise<ReturnType<typeof decodeIndex>> {
  try {
    return decodeIndex(await readFile(path.join(directory, indexName(first)), 'utf8'), { first, bytes });
  } catch {
    // Missing or unreadable: the segment itself is read instead.
    return undefined;
  }
}

async function readHeader(file: string): Promise<SegmentHeader | undefined> {
  const handle = await open(file, 'r');
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0);
    return decodeHeader(buffer.subarray(0, bytesRead));
  } finally {
    await handle.close();
  }
}

async function readGeneration(directory: string): Promise<string | undefined> {
  const text = (await ifExists(readFile(path.join(directory, GENERATION), 'utf8')))?.trim();
  return text !== undefined && UUID.test(text) ? text : undefined;
}

/** The file's, unless no segment is of it; then that of the newest segment. */
function findGeneration(candidates: readonly Candidate[], stored: string | undefined): string | undefined {
  const generations = candidates.map(({ header }) => header?.generation).filter((each) => each !== undefined);
  return stored !== undefined && generations.includes(stored) ? stored : (generations.at(-1) ?? stored);
}

class Recovery {
  readonly #directory: string;
  readonly #generation: string | undefined;
  readonly #onProblem: OnProblem;
  cutBytes = 0;
  /** Whether anything that had once been written is no longer readable. */
  hasLost = false;

  constructor(directory: string, generation: string | undefined, onProblem: OnProblem) {
    this.#directory = directory;
    this.#generation = generation;
    this.#onProblem = onProblem;
  }

  /** The newest unbroken chain of segments; all else is set aside. */
  async chain(candidates: readonly Candidate[]): Promise<Segment[]> {
    const chain: Segment[] = [];
    const left = [...candidates];
    for (let candidate = left.at(-1); candidate; candidate = left.at(-1)) {
      const next = chain[0];
      const segment = next ? await this.#sealed(candidate, next.first) : await this.#newest(candidate);
      if (segment || !next) {
        if (segment) chain.unshift(segment);
        left.pop();
        continue;
      }
      for (const { name } of left) await this.#lose(name);
      const range = `${left[0]?.first} to ${next.first - 1}`;
      this.#onProblem(`The event log is damaged in ${candidate.name}: events ${range} are no longer readable.`);
      break;
    }
    return chain;
  }

  /** The newest segment keeps what is before the first bad record. Undefined when that is nothing. */
  async #newest(candidate: Candidate): Promise<Segment | undefined> {
    const { name, size } = candidate;
    const file = path.join(this.#directory, name);
    // It may be damaged behind the back of its index.
    const header = await readHeader(file);
    if (header === undefined || header.generation !== this.#generation) {
      // A crash while the file was made leaves less than a header.
      if (size < HEADER_BYTES) {
        await rm(file);
        this.cutBytes += size;
        return undefined;
      }
      await this.#lose(name);
      this.cutBytes += size;
      this.#onProblem(`${name} in the event log is damaged or not of this log; it was set aside.`);
      return undefined;
    }
    const { segment, isSound } = await this.#scan(candidate);
    if (!isSound) await this.#cut(name, segment, size);
    if (!segment.isEmpty) return segment;
    await rm(file, { force: true });
    return undefined;
  }

  /** An older segment is taken whole or not at all. */
  async #sealed(candidate: Candidate, nextFirst: number): Promise<Segment | undefined> {
    if (candidate.header?.generation !== this.#generation) return undefined;
    const isFromIndex = candidate.index !== undefined;
    const { segment, isSound } = candidate.index
      ? { segment: candidate.index, isSound: true }
      : await this.#scan(candidate);
    if (!isSound || segment.isEmpty || segment.last + 1 !== nextFirst) return undefined;
    if (!isFromIndex) await writeIndex(this.#directory, segment, candidate.header?.generation ?? '');
    return segment;
  }

  async #scan({ name, first, size }: Candidate): Promise<{ segment: Segment; isSound: boolean }> {
    const segment = new Segment(first);
    const handle = await open(path.join(this.#directory, name), 'r');
    try {
      const span = { from: HEADER_BYTES, to: size, chunkBytes: SCAN_CHUNK_BYTES };
      const { isDamaged } = await walkRecords(handle, span, (payload) => {
        const head = parseHead(payload);
        if (head?.seq !== segment.last + 1) return false;
        segment.add(head, head.hasKey ? parseKey(payload) : undefined, payload.length);
        return true;
      });
      return { segment, isSound: !isDamaged && segment.bytes === size };
    } finally {
      await handle.close();
    }
  }

  async #cut(name: string, { last, bytes }: Segment, size: number): Promise<void> {
    const file = path.join(this.#directory, name);
    await keepAside(this.#directory, name, (await readFile(file)).subarray(bytes));
    await truncate(file, bytes);
    this.cutBytes += size - bytes;
    this.hasLost = true;
    this.#onProblem(`The event log ends in a damaged record: ${size - bytes} bytes after event ${last} were cut off.`);
  }

  async #lose(name: string): Promise<void> {
    this.hasLost = true;
    await setAside(this.#directory, name);
  }
}

/** Written beside a sealed segment; if it is missing or damaged, the next start takes longer and nothing else. */
export async function writeIndex(directory: string, segment: Segment, generation: string): Promise<void> {
  const file = path.join(directory, indexName(segment.first));
  await writeFile(file, encodeIndex(segment, generation), { mode: 0o600 }).catch(() => rm(file, { force: true }));
}
