import { fromBufferPromise, type Entry, type ZipFile } from 'yauzl';

/** What an office file may unpack to, in bytes; libraries hold all of it in memory. */
const MAX_UNPACKED_BYTES = 256 * 1024 * 1024;

/**
 * The wanted parts of an office file, which is a zip, by name.
 * @throws Error when it is none, or unpacks to more than the limit
 */
export async function officeParts(bytes: Buffer, isWanted: (name: string) => boolean): Promise<Map<string, Buffer>> {
  const zip = await fromBufferPromise(bytes, { lazyEntries: true, validateEntrySizes: true });
  const parts = new Map<string, Buffer>();
  let total = 0;
  for await (const entry of zip.eachEntry()) {
    total += entry.uncompressedSize;
    if (total > MAX_UNPACKED_BYTES) throw new Error(`the file unpacks to more than ${MAX_UNPACKED_BYTES} bytes`);
    if (isWanted(entry.fileName)) parts.set(entry.fileName, await readPart(zip, entry));
  }
  return parts;
}

async function readPart(zip: ZipFile, entry: Entry): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of await zip.openReadStreamPromise(entry)) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
