import { open, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { keepAside, MAX_ASIDE_BYTES, setAside, trimAside } from './aside.ts';
import { BlobStore } from './blob-store.ts';
import { firstSeqOf, INDEX_NAME, indexName, SEGMENT_NAME } from './files.ts';
import { type Generations, newGeneration, readGenerations } from './generation.ts';
import { parseHead, parseKey } from './record.ts';
import { decodeHeader, HEADER_BYTES, SEGMENT_VERSION, walkRecords, type SegmentHeader } from './segment.ts';
import { decodeIndex, encodeIndex, Segment } from './segment-index.ts';
import { isTornWrite } from './torn.ts';

const SCAN_CHUNK_BYTES = 1024 * 1024;

export interface Recovered {
  readonly generations: Generations;
  /** Whether they stand in their file. */
  readonly isGenerationSaved: boolean;
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
  /** It had been longer when the log was closed. */
  readonly isCut: boolean;
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
  const stored = await readGenerations(directory);
  const known = findGeneration(candidates, stored);
  const accepted = new Set([known, ...(stored && known === stored.current ? stored.former : [])]);
  const recovery = new Recovery(directory, accepted, onProblem);
  const segments = await recovery.chain(candidates);
  // Seqs of a generation are never given twice to what somebody may have read: an empty log may have had events.
  const isNew = known === undefined || recovery.hasLostNewest || segments.length === 0;
  const current = isNew ? newGeneration() : known;
  const kept = new Set(segments.map(({ first }) => first));
  const former = new Set(
    candidates.flatMap(({ first, header }) => (kept.has(first) && header ? header.generation : [])),
  );
  former.delete(current);
  const generations = { current, former: [...former] };
  for (const name of names) {
    if (INDEX_NAME.test(name) && !kept.has(firstSeqOf(name))) await rm(path.join(directory, name), { force: true });
  }
  const blobs = new Set(segments.flatMap(({ fields }) => fields.blobs.map(([seq]) => seq)));
  await new BlobStore(directory).keepOnly(blobs);
  if (recovery.hasLost) await trimAside(directory, MAX_ASIDE_BYTES);
  const wasClean = !recovery.hasLost && (candidates.length === 0 || candidates.at(-1)?.index !== undefined);
  const isGenerationSaved = [stored?.current, ...(stored?.former ?? [])].join() === [current, ...former].join();
  return { generations, isGenerationSaved, segments, cutBytes: recovery.cutBytes, wasClean };
}

async function examine(directory: string, name: string): Promise<Candidate> {
  const file = path.join(directory, name);
  const first = firstSeqOf(name);
  const { size } = await stat(file);
  const found = await readIndex(directory, first);
  const index = found?.segment.bytes === size ? found : undefined;
  return {
    first,
    name,
    size,
    isCut: found !== undefined && found.segment.bytes > size,
    index: index?.segment,
    header: index ? { version: SEGMENT_VERSION, generation: index.generation } : await readHeader(file),
  };
}

async function readIndex(directory: string, first: number): Promise<ReturnType<typeof decodeIndex>> {
  try {
    return decodeIndex(await readFile(path.join(directory, indexName(first)), 'utf8'), first);
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

/** The file's, unless no segment is of it; then that of the newest segment. */
function findGeneration(candidates: readonly Candidate[], stored: Generations | undefined): string | undefined {
  const generations = candidates.map(({ header }) => header?.generation).filter((each) => each !== undefined);
  const isKnown = stored && [stored.current, ...stored.former].some((id) => generations.includes(id));
  return isKnown ? stored.current : (generations.at(-1) ?? stored?.current);
}

class Recovery {
  readonly #directory: string;
  readonly #accepted: ReadonlySet<string | undefined>;
  readonly #onProblem: OnProblem;
  cutBytes = 0;
  /** Whether anything that had once been written is no longer readable. */
  hasLost = false;
  /** Whether that includes events at the end: their seqs will be given again. */
  hasLostNewest = false;

  /** @param accepted the generations of the log's segments */
  constructor(directory: string, accepted: ReadonlySet<string | undefined>, onProblem: OnProblem) {
    this.#directory = directory;
    this.#accepted = accepted;
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
    if (candidate.isCut) this.hasLostNewest = true;
    const file = path.join(this.#directory, name);
    // It may be damaged behind the back of its index.
    const header = await readHeader(file);
    if (header === undefined || !this.#accepted.has(header.generation)) {
      // A crash while the file was made leaves less than a header.
      if (size < HEADER_BYTES) {
        await rm(file);
        this.cutBytes += size;
        return undefined;
      }
      if (header === undefined) this.hasLostNewest = true;
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
    if (!this.#accepted.has(candidate.header?.generation)) return undefined;
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
    const tail = (await readFile(file)).subarray(bytes);
    if (!isTornWrite(tail)) this.hasLostNewest = true;
    await keepAside(this.#directory, name, tail);
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
