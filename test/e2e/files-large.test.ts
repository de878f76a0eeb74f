/** Transfers of any size: bounded memory, the same bytes, and nothing left behind. */
import { execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream, mkdirSync, readdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Build, Daemon } from '../support/built-server.ts';
import { pdfOf, writeDocument, writeSlides, writeWorkbook } from '../support/office.ts';
import { until } from '../support/wait.ts';

const MIB = 1024 * 1024;
const TOTAL_BYTES = 1024 * MIB;
const MAX_GROWTH_BYTES = 64 * MIB;
/** Slow disks are slow. */
const LIMIT_MS = 600_000;
const FILES = 100_000;
const FILES_EACH = 1000;

const { bavail, bsize } = statfsSync(tmpdir());
const hasRoom = bavail * bsize > 4 * TOTAL_BYTES;

let build: Build;
let daemon: Daemon;
let url: string;
let work: string;

beforeAll(async () => {
  build = new Build();
  work = build.directory('work');
  daemon = new Daemon(build, ['0', '--state-dir', build.directory('state'), '--working-dir', work]);
  url = await daemon.url();
});

afterAll(async () => {
  daemon.signal('SIGTERM');
  await daemon.exited;
  build[Symbol.dispose]();
});

const status = (field: string): number =>
  1024 *
  Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(readFileSync(`/proc/${daemon.pid}/status`, 'utf8'))?.[1]);

const descriptors = (): number => readdirSync(`/proc/${daemon.pid}/fd`).length;

/** How far the memory of the daemon rises above what it is now, at its highest: far less than what is transferred. */
async function expectCheap(transfer: () => Promise<void>): Promise<void> {
  writeFileSync(`/proc/${daemon.pid}/clear_refs`, '5');
  const before = status('VmRSS');
  await transfer();
  expect(status('VmHWM') - before).toBeLessThan(MAX_GROWTH_BYTES);
}

/** Sends what is generated as a multipart form. @returns its hash */
async function upload(name: string, bytes: number): Promise<string> {
  const hash = createHash('sha256');
  const sent = request(`${url}/upload_file?destination=${work}`, {
    method: 'POST',
    headers: { 'content-type': 'multipart/form-data; boundary=b' },
  });
  const replied = once(sent, 'response') as Promise<[IncomingMessage]>;
  sent.write(`--b\r\nContent-Disposition: form-data; name="file"; filename="${name}"\r\n\r\n`);
  for (let done = 0; done < bytes;) {
    // Random, so that nothing can be cut or swapped unseen.
    const chunk = randomBytes(Math.min(MIB, bytes - done));
    hash.update(chunk);
    done += chunk.length;
    if (!sent.write(chunk)) await once(sent, 'drain');
  }
  sent.end('\r\n--b--\r\n');
  const [reply] = await replied;
  reply.resume();
  expect(reply.statusCode).toBe(200);
  return hash.digest('hex');
}

async function get(path: string): Promise<IncomingMessage> {
  const sent = request(url + path, { agent: false }).end();
  const [reply] = (await once(sent, 'response')) as [IncomingMessage];
  expect(reply.statusCode).toBe(200);
  return reply;
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of await get(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

async function save(path: string, to: string): Promise<void> {
  await pipeline(await get(path), createWriteStream(to));
}

describe.skipIf(!hasRoom)('1 GiB (needs 4 GiB of free disk)', { timeout: LIMIT_MS }, () => {
  let uploaded = '';

  test('goes up', async () => {
    await upload('warm.bin', 64 * MIB);
    await expectCheap(async () => void (uploaded = await upload('large.bin', TOTAL_BYTES)));
    expect(
      readdirSync(work)
        .filter((name) => !name.startsWith('.'))
        .toSorted(),
    ).toEqual(['large.bin', 'warm.bin']);
  });

  test('comes down as it is', async () => {
    await hashOf(`/files${work}/warm.bin`);
    let hash = '';
    await expectCheap(async () => void (hash = await hashOf(`/files${work}/large.bin`)));
    expect(hash).toBe(uploaded);
  });

  test('comes down in an archive', async () => {
    const archive = join(build.directory('host'), 'large.zip');
    await hashOf(`/download_files?path=${work}/warm.bin`);
    await expectCheap(() => save(`/download_files?path=${work}/large.bin`, archive));
    const script = `import zipfile,hashlib,sys
h = hashlib.sha256()
with zipfile.ZipFile(sys.argv[1]).open('large.bin') as f:
    while b := f.read(1 << 20): h.update(b)
print(h.hexdigest())`;
    expect(execFileSync('python3', ['-c', script, archive], { encoding: 'utf8' }).trim()).toBe(uploaded);
    rmSync(archive);
  });

  test.each(['/files', '/download_files?path='])('given up half-way it leaves nothing: %s', async (address) => {
    const before = { descriptors: descriptors(), entries: readdirSync(work), temporary: temporaries() };
    const reply = await get(`${address}${work}/large.bin`);
    let seen = 0;
    for await (const chunk of reply) {
      seen += (chunk as Buffer).length;
      if (seen > TOTAL_BYTES / 2) break;
    }
    reply.destroy();
    await until('the descriptors are closed', () => descriptors() <= before.descriptors);
    expect({ ...before, entries: readdirSync(work), temporary: temporaries() }).toEqual(before);
  });
});

/** What the daemon could leave in the directory for temporary files. */
function temporaries(): string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith('.actiond-'));
}

test(`${FILES} files are zipped, each of them`, { timeout: LIMIT_MS }, async () => {
  const many = join(work, 'many');
  rmSync(many, { recursive: true, force: true });
  for (let index = 0; index < FILES; index += 1) {
    const place = join(many, String(Math.floor(index / FILES_EACH)));
    if (index % FILES_EACH === 0) mkdirSync(place, { recursive: true });
    writeFileSync(join(place, `f${index}`), String(index));
  }
  const archive = join(build.directory('host'), 'many.zip');
  await expectCheap(() => save(`/download_files?path=${many}`, archive));
  const script = `import zipfile,sys
z = zipfile.ZipFile(sys.argv[1])
names = z.namelist()
print(len(set(names)), all(z.read(n).decode() == n[n.rindex('f') + 1:] for n in names[::10]))`;
  expect(execFileSync('python3', ['-c', script, archive], { encoding: 'utf8' }).trim()).toBe(`${FILES} True`);
});

test('the libraries for office files and PDF are in the bundle', async () => {
  writeDocument(join(work, 'a.docx'));
  writeWorkbook(join(work, 'a.xlsx'));
  writeSlides(join(work, 'a.pptx'), 1);
  writeFileSync(join(work, 'a.pdf'), pdfOf(['Some text']));
  const expected = { docx: '| a   | b   |', xlsx: '| name | age | born |', pptx: '# Title 1', pdf: 'Some text' };
  for (const [extension, text] of Object.entries(expected)) {
    const args = { path: join(work, `a.${extension}`), command: 'view' };
    const reply = await fetch(`${url}/execute_action`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ action: { action: 'edit', args } }),
    });
    expect(((await reply.json()) as { content: string }).content).toContain(text);
  }
});
