/** Uploads and downloads, beyond V0's own tests. */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { SKIPPED_LIST } from '../../executors/files/download.ts';
import { RawConnection } from '../support/http.ts';
import { type TestReply, TestServer } from '../support/server.ts';
import { until } from '../support/wait.ts';

let server: TestServer;
let host: string;
let dir: string;
let count = 0;

beforeAll(async () => {
  server = await TestServer.start(['--max-body-bytes', '1M', '--max-unzip-entries', '50', '--max-unzip-bytes', '1G']);
  host = mkdtempSync(join(tmpdir(), 'actiond-host-'));
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  rmSync(host, { recursive: true, force: true });
});

beforeEach(() => {
  count += 1;
  dir = join(server.workingDir, `case-${count}`);
  mkdirSync(dir);
});

interface UploadReply {
  readonly status: number;
  readonly json: { readonly detail?: string; readonly errors?: string; readonly filename?: string };
}

async function upload(bytes: Uint8Array | string, name: string, query: Record<string, string>): Promise<UploadReply> {
  const form = new FormData();
  form.append('note', 'a field beside the file');
  form.append('file', new Blob([bytes]), name);
  const address = `${server.url}/upload_file?${new URLSearchParams(query).toString()}`;
  const reply = await fetch(address, { method: 'POST', body: form });
  return { status: reply.status, json: (await reply.json()) as UploadReply['json'] };
}

function unpack(archive: Uint8Array, to = dir): Promise<UploadReply> {
  return upload(archive, 'tmp.zip', { destination: to, recursive: 'true' });
}

/** A zip by Python: `code` gets `z` (a ZipFile) and the module's names. */
function zipWith(code: string): Buffer {
  const script = `import zipfile,sys,stat
from zipfile import ZipInfo
def entry(name, mode, data=b'', system=3):
    i = ZipInfo(name); i.create_system = system; i.external_attr = mode << 16
    z.writestr(i, data)
z = zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED)
${code}
z.close()`;
  const path = join(host, `archive-${count}.zip`);
  execFileSync('python3', ['-c', script, path]);
  return readFileSync(path);
}

const getDownload = (query: string): Promise<TestReply> => server.request('GET', `/download_files${query}`);

async function listFiles(path?: string | null): Promise<unknown> {
  return (await server.request('POST', '/list_files', { path })).json;
}

async function download(path: string): Promise<Map<string, string>> {
  const reply = await fetch(`${server.url}/download_files?path=${encodeURIComponent(path)}`);
  expect(reply.status).toBe(200);
  return entriesOf(Buffer.from(await reply.arrayBuffer()));
}

function entriesOf(bytes: Buffer): Map<string, string> {
  const archive = join(host, `download-${count}.zip`);
  writeFileSync(archive, bytes);
  const script = `import zipfile,sys,json
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
print(json.dumps({i.filename: z.read(i).decode('latin1') for i in z.infolist()}))`;
  const text = execFileSync('python3', ['-c', script, archive], { encoding: 'utf8', maxBuffer: 1 << 28 });
  return new Map(Object.entries(JSON.parse(text) as Record<string, string>));
}

/** What this process, which is the server's too, has open there. */
function openFilesBelow(directory: string): string[] {
  return readdirSync('/proc/self/fd')
    .map((fd) => linkOf(`/proc/self/fd/${fd}`))
    .filter((path) => path.startsWith(directory));
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

describe('upload', () => {
  test('more than the limit of JSON bodies, byte for byte, with the umask', async () => {
    const bytes = Buffer.alloc(5 * 1024 * 1024, 'some bytes ');
    expect(await upload(bytes, 'big.bin', { destination: `${dir}/to` })).toMatchObject({
      status: 200,
      json: { filename: 'big.bin', destination: `${dir}/to`, recursive: false },
    });
    expect(readFileSync(`${dir}/to/big.bin`).equals(bytes)).toBe(true);
    expect(statSync(`${dir}/to/big.bin`).mode & 0o777).toBe(0o666 & ~process.umask());
  });

  test('a plain archive stays one', async () => {
    const archive = zipWith("z.writestr('a.txt', 'a')");
    expect((await upload(archive, 'pk.zip', { destination: dir, recursive: 'False' })).status).toBe(200);
    expect(readFileSync(join(dir, 'pk.zip'))).toEqual(archive);
  });

  test.each([
    ['ünïcödé 名前.txt', 'ünïcödé 名前.txt'],
    ['with "quotes" and\nline end', 'with "quotes" and\nline end'],
    ['../../../evil.txt', 'evil.txt'],
    ['/etc/evil.txt', 'evil.txt'],
    ["it's $(touch x); `y`", "it's $(touch x); `y`"],
  ])('the name %j is stored as %j', async (name, stored) => {
    expect((await upload('x', name, { destination: dir })).json.filename).toBe(stored);
    expect(readdirSync(dir)).toEqual([stored]);
  });

  test('errors keep the statuses of V0, and leave nothing', async () => {
    expect(await upload('x', 'a', { destination: 'rel' })).toEqual({
      status: 500,
      json: { detail: '400: Destination must be an absolute path' },
    });
    expect((await upload('x', 'a.tar', { destination: dir, recursive: '1' })).json.detail).toBe(
      '400: Recursive uploads must be zip files',
    );
    writeFileSync(join(dir, 'file'), '');
    const { status, json } = await upload('x', 'a', { destination: join(dir, 'file') });
    expect(status).toBe(500);
    expect(json.detail).toContain('[Errno 20] Not a directory:');
    expect((await upload('x', '..', { destination: dir })).status).toBe(422);
    expect((await upload('x', 'a', { destination: dir, recursive: 'perhaps' })).status).toBe(422);
    expect((await upload('x', 'a', { destination: `${dir}\0` })).json.errors).toContain(
      'query.destination: expected a path',
    );
    const empty = await fetch(`${server.url}/upload_file?destination=${dir}`, { method: 'POST', body: new FormData() });
    expect(empty.status).toBe(422);
    expect((await server.request('POST', `/upload_file?destination=${dir}`, {})).status).toBe(422);
    expect(readdirSync(dir)).toEqual(['file']);
  });

  test.each(['file', 'other'])('a form without its end is refused (part %s)', async (part) => {
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    const body = `--b\r\nContent-Disposition: form-data; name="${part}"; filename="a.txt"\r\n\r\nhalf`;
    for (const destination of [dir, 'relative', '/proc/none']) {
      const reply = await fetch(`${server.url}/upload_file?destination=${destination}`, {
        method: 'POST',
        headers,
        body,
      });
      expect(reply.status).toBeGreaterThanOrEqual(422);
    }
    const plain = { 'content-type': 'multipart/form-data' };
    const reply = await fetch(`${server.url}/upload_file`, { method: 'POST', headers: plain, body });
    expect(reply.status).toBe(422);
    expect(readdirSync(dir)).toEqual([]);
    expect((await server.request('GET', '/alive')).status).toBe(200);
  });

  test.each([
    ['short', 'a'],
    ['long', 'x'.repeat(3_000_000)],
  ])('a form with several files is refused and leaves nothing (%s ones)', async (_length, text) => {
    writeFileSync(join(dir, 'a'), 'old');
    for (const recursive of ['false', 'true']) {
      const form = new FormData();
      form.append('file', new Blob([text]), recursive === 'true' ? 'a.zip' : 'a');
      form.append('file', new Blob([text]), 'b');
      form.append('file', new Blob([text]), 'c');
      const address = `${server.url}/upload_file?destination=${dir}&recursive=${recursive}`;
      const reply = await fetch(address, { method: 'POST', body: form });
      expect(reply.status).toBe(422);
      expect(await reply.text()).toContain('expected one part \\"file\\", got 3');
      expect(readdirSync(dir)).toEqual(['a']);
    }
    expect(readFileSync(join(dir, 'a'), 'utf8')).toBe('old');
    expect(openFilesBelow(dir)).toEqual([]);
  });

  test('what is refused at once is read to its end, for clients that listen only then', async () => {
    const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n';
    const body = `${head}${'x'.repeat(20_000_000)}\r\n--b--\r\n`;
    const headers = { 'content-type': 'multipart/form-data; boundary=b', 'content-length': String(body.length) };
    using connection = await RawConnection.open(server.url);
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    await connection.send(
      `POST /upload_file?destination=rel HTTP/1.1\r\nHost: localhost\r\n${lines.join('')}\r\n${body}`,
    );
    await until('the answer', () => connection.received.includes('Destination must be an absolute path'));
    await connection.send('GET /alive HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await until('the answer to the next request', () => connection.received.includes('{"status":"ok"}'));
  });

  test('an upload that breaks off leaves the old file and no part of the new one', async () => {
    writeFileSync(join(dir, 'a.txt'), 'old');
    const body = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhalf of it';
    const head = `POST /upload_file?destination=${dir} HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 100000\r\n\r\n`;
    const socket = createConnection(Number(new URL(server.url).port), '127.0.0.1');
    socket.write(head + body);
    await until('a part of it is there', () => readdirSync(dir).length === 2);
    socket.destroy();
    await until('the part has gone', () => readdirSync(dir).length === 1);
    expect(readdirSync(dir)).toEqual(['a.txt']);
    expect(readFileSync(join(dir, 'a.txt'), 'utf8')).toBe('old');
  });
});

describe('a recursive upload', () => {
  test('makes the tree with its modes, replaces files and keeps the others', async () => {
    writeFileSync(join(dir, 'kept'), 'kept');
    mkdirSync(join(dir, 'p'));
    writeFileSync(join(dir, 'p/run.sh'), 'old');
    const archive = zipWith(`entry('p/run.sh', 0o100755, b'new')
entry('p/plain.txt', 0o100640, b'x' * 100000)
entry('p/empty/', 0o40755)
entry('p/名前 "q"\\n', 0o100644, b'n')
entry('p/link', 0o120777, b'run.sh')
entry('win\\\\dir\\\\file', 0, b'w', 0)
entry('back\\\\slash', 0o100644, b's')`);
    expect(await unpack(archive)).toMatchObject({ status: 200, json: { filename: 'tmp.zip', recursive: true } });
    expect(readFileSync(join(dir, 'p/run.sh'), 'utf8')).toBe('new');
    expect(statSync(join(dir, 'p/run.sh')).mode & 0o777).toBe(0o755);
    expect(statSync(join(dir, 'p/plain.txt')).mode & 0o777).toBe(0o640);
    expect(readdirSync(join(dir, 'p/empty'))).toEqual([]);
    expect(readFileSync(join(dir, 'p/名前 "q"\n'), 'utf8')).toBe('n');
    expect(readlinkSync(join(dir, 'p/link'))).toBe('run.sh');
    expect(readFileSync(join(dir, 'win/dir/file'), 'utf8')).toBe('w');
    expect(readFileSync(join(dir, 'back\\slash'), 'utf8')).toBe('s');
    expect(readdirSync(dir).toSorted()).toEqual(['back\\slash', 'kept', 'p', 'win']);
  });

  test.each([
    ["z.writestr('../evil', 'x')", 'would leave the destination'],
    ["z.writestr('a/../../evil', 'x')", 'would leave the destination'],
    ["z.writestr('/tmp/evil', 'x')", 'absolute name'],
    ["entry('..\\\\evil', 0, b'x', 0)", 'would leave the destination'],
    ["entry('l', 0o120777, b'd'); z.writestr('l/evil', 'x')", 'goes through a symbolic link'],
    ["z.writestr('l/evil', 'x'); entry('l', 0o120777, b'd')", 'goes through a symbolic link'],
    ["entry('pipe', 0o10644)", 'device or pipe'],
    ["[z.writestr('%d' % i, 'x') for i in range(51)]", '--max-unzip-entries'],
    ["[z.writestr('z%d' % i, bytes(30_000_000)) for i in range(10)]", '--max-unzip-ratio'],
    ["z.writestr('n' * 256, 'x')", 'too long'],
    ["z.writestr('n/' * 30000 + 'a', 'x')", 'too long'],
    ["z.writestr('a', 'x'); z.writestr('a/b', 'x')", 'is a file and a directory'],
    ["z.writestr('a/b', 'x'); z.writestr('a', 'x')", 'is a file and a directory'],
    ["z.writestr('a/', ''); z.writestr('a', 'x')", 'is a file and a directory'],
  ])('%s is refused as a whole', async (code, reason) => {
    const { status, json } = await unpack(zipWith(`z.writestr('good.txt', 'x')\n${code}`));
    expect(status).toBe(422);
    expect(json.detail).toContain(reason);
    expect(readdirSync(dir)).toEqual([]);
  });

  test.each(['/etc/passwd', '../../outside', 'a/../../../b', ''])('a link to %j is refused', async (to) => {
    const { status, json } = await unpack(
      zipWith(`entry('d/link', 0o120777, ${JSON.stringify(to)}.encode()); z.writestr('a', 'a')`),
    );
    expect(status).toBe(422);
    expect(json.detail).toContain('points out of the destination');
    expect(readdirSync(dir)).toEqual([]);
  });

  test.each(['a wrong checksum', 'more bytes than it says', 'bytes that are not compressed'])(
    'an entry with %s is no file',
    async (how) => {
      const archive = zipWith("z.writestr('first', 'x'); z.writestr('second', 'some text ' * 10000)");
      const entry = archive.lastIndexOf('PK\x01\x02');
      if (how === 'a wrong checksum') archive.writeUInt32LE(1, entry + 16);
      else if (how.startsWith('more')) archive.writeUInt32LE(10, entry + 24);
      else archive.fill(0xff, archive.lastIndexOf('second', entry) + 20, archive.lastIndexOf('second', entry) + 60);
      const { status, json } = await unpack(archive);
      expect(status).toBe(422);
      expect(json.detail).toContain('damaged at entry "second"');
      expect(readdirSync(dir)).toEqual(['first']);
    },
  );

  test('links that are there already are not followed', async () => {
    const outside = join(dir, 'outside');
    const inside = join(dir, 'inside');
    mkdirSync(outside);
    mkdirSync(inside);
    symlinkSync(outside, join(inside, 'to'));
    writeFileSync(join(outside, 'file'), 'theirs');
    symlinkSync(join(outside, 'file'), join(inside, 'f'));
    expect(await unpack(zipWith("z.writestr('to/new', 'x')"), inside)).toMatchObject({
      status: 422,
      json: {
        detail: `Entry "to/new" cannot be unpacked: ${inside}/to is a symbolic link, which is not followed. Before it 0 of 1 entries were unpacked.`,
      },
    });
    expect((await unpack(zipWith("z.writestr('f', 'ours')"), inside)).status).toBe(200);
    expect(readdirSync(outside)).toEqual(['file']);
    expect(readFileSync(join(outside, 'file'), 'utf8')).toBe('theirs');
    expect(readFileSync(join(inside, 'f'), 'utf8')).toBe('ours');
  });

  test.each([
    ['a directory where a file comes', 'mkdir f0', 'f0', 'f0', 'Is a directory: DIR/f0'],
    ['a directory where a link comes', 'mkdir f0', 'f0 ->', 'f0', 'Is a directory: DIR/f0'],
    ['a file where a directory comes', 'touch f0', 'f0/', 'f0', 'Not a directory: DIR/f0'],
    ['a file above', 'touch f0', 'f0/a/b', 'f0/a/b', 'Not a directory: DIR/f0'],
    ['a link above', 'mkdir d; ln -s d f0', 'f0/a/b', 'f0/a/b', 'DIR/f0 is a symbolic link, which is not followed'],
    ['a link to nowhere above', 'ln -s nowhere f0', 'f0/a', 'f0/a', 'DIR/f0 is a symbolic link, which is not followed'],
    ['a pipe', 'mkfifo f0', 'f0', 'f0', 'DIR/f0 is a named pipe, which is not replaced'],
    ['a pipe above', 'mkfifo f0', 'f0/a', 'f0/a', 'Not a directory: DIR/f0'],
  ])('%s is in the way: the entry is named, and how much was unpacked', async (_what, prepare, entry, name, reason) => {
    execFileSync('bash', ['-c', prepare], { cwd: dir });
    const there = readdirSync(dir);
    const add = entry.endsWith(' ->') ? `entry('${name}', 0o120777, b'first')` : `z.writestr('${entry}', b'')`;
    const { status, json } = await unpack(zipWith(`z.writestr('first', '1')\n${add}\n`));
    expect(json.detail).toBe(
      `Entry "${name}" cannot be unpacked: ${reason.replace('DIR', dir)}. Before it 1 of 2 entries were unpacked.`,
    );
    expect(status).toBe(422);
    expect(readdirSync(dir)).toEqual([...there, 'first'].toSorted());
    expect(openFilesBelow(dir)).toEqual([]);
  });

  test('what is no archive is refused', async () => {
    for (const bytes of ['', 'PK\x03\x04 nonsense', zipWith("z.writestr('a', 'x' * 1000)").subarray(0, 60)]) {
      expect((await unpack(Buffer.from(bytes))).status).toBe(422);
      expect(readdirSync(dir)).toEqual([]);
    }
  });
});

describe('download', () => {
  test('files of a directory, hidden ones and links to files too', async () => {
    mkdirSync(join(dir, 'sub/empty'), { recursive: true });
    const large = Buffer.alloc(300_000, 'large ').toString('latin1');
    for (const [name, text] of [
      ['a.txt', 'a'],
      ['.hidden', 'h'],
      ['sub/ünï "q"\n.txt', 'u'],
      ['back\\slash', 's'],
      ['sub/large', large],
      ['none', ''],
    ] as const)
      writeFileSync(join(dir, name), text);
    symlinkSync('a.txt', join(dir, 'link'));
    symlinkSync('sub', join(dir, 'linked-dir'));
    utimesSync(join(dir, 'a.txt'), 0, 0);
    expect(await download(dir)).toEqual(
      new Map([
        ['.hidden', 'h'],
        ['a.txt', 'a'],
        ['back\\slash', 's'],
        ['link', 'a'],
        ['none', ''],
        ['sub/large', large],
        ['sub/ünï "q"\n.txt', 'u'],
      ]),
    );
  });

  test('one file', async () => {
    writeFileSync(join(dir, 'one.txt'), 'one');
    expect(await download(join(dir, 'one.txt'))).toEqual(new Map([['one.txt', 'one']]));
  });

  test('an empty directory', async () => {
    expect(await download(dir)).toEqual(new Map());
  });

  test('what cannot be read is left out and named', async () => {
    writeFileSync(join(dir, 'good'), 'good');
    symlinkSync('nowhere', join(dir, 'dangling'));
    execFileSync('mkfifo', [join(dir, 'pipe')]);
    const socket = createServer().listen(join(dir, 'socket'));
    const found = await download(dir);
    socket.close();
    expect([...found.keys()].toSorted()).toEqual([SKIPPED_LIST, 'good'].toSorted());
    for (const text of ['"dangling": No such file or directory', '"pipe": a named pipe', '"socket": a socket'])
      expect(found.get(SKIPPED_LIST)).toContain(text);
  });

  test('a file that becomes shorter meanwhile is named', async () => {
    const path = join(dir, 'shrinks');
    const size = 30_000_000;
    writeFileSync(path, Buffer.alloc(size, 'x'));
    const reply = await fetch(`${server.url}/download_files?path=${dir}`);
    const reader = reply.body?.getReader();
    const pieces: Uint8Array[] = [];
    for (let next = await reader?.read(); next?.value; next = await reader?.read()) {
      // Nobody has read the rest yet: it is far more than the buffers of a connection hold.
      if (pieces.length === 0) truncateSync(path, 1000);
      pieces.push(next.value);
    }
    const found = entriesOf(Buffer.concat(pieces));
    const { length = 0 } = found.get('shrinks') ?? {};
    expect(length).toBeGreaterThan(0);
    expect(length).toBeLessThan(size);
    expect(found.get(SKIPPED_LIST)).toBe(
      `"shrinks": cut after ${length} of ${size} bytes: it became shorter while it was read\n`,
    );
  });

  test('files of the kernel are whole, whatever size they report', async () => {
    expect(statSync('/sys/devices/system/cpu/online').size).toBe(4096);
    const found = await download('/sys/devices/system/cpu/online');
    expect([...found.keys()]).toEqual(['online']);
  });

  test('Info-ZIP takes it too, with the modes', async () => {
    writeFileSync(join(dir, 'run.sh'), '#!/bin/sh\n');
    chmodSync(join(dir, 'run.sh'), 0o755);
    await download(dir);
    const out = join(host, `unzipped-${count}`);
    const { status } = spawnSync('unzip', ['-q', join(host, `download-${count}.zip`), '-d', out]);
    expect(status).toBe(0);
    expect(statSync(join(out, 'run.sh')).mode & 0o777).toBe(0o755);
  });

  test('names in the header', async () => {
    const path = join(dir, 'ü "x"\n');
    mkdirSync(path);
    const reply = await fetch(`${server.url}/download_files?path=${encodeURIComponent(path)}`);
    await reply.arrayBuffer();
    expect(reply.headers.get('content-disposition')).toBe(
      `attachment; filename="_ \\"x\\"_.zip"; filename*=UTF-8''%C3%BC%20%22x%22%0A.zip`,
    );
  });

  test('errors keep the statuses of V0', async () => {
    expect(await getDownload('?path=rel')).toMatchObject({
      status: 500,
      json: { detail: '400: Path must be an absolute path' },
    });
    expect(await getDownload('?path=/no/such')).toMatchObject({ status: 500, json: { detail: '404: File not found' } });
    expect((await getDownload('')).status).toBe(422);
    expect((await getDownload('?path=/dev/zero')).status).toBe(500);
  });

  test('a download that is given up leaves no descriptor open', async () => {
    const path = join(dir, 'big');
    writeFileSync(path, Buffer.alloc(30_000_000));
    const held = () => openFilesBelow(dir);
    const controller = new AbortController();
    const reply = await fetch(`${server.url}/download_files?path=${dir}`, { signal: controller.signal });
    await reply.body?.getReader().read();
    expect(held().length).toBeGreaterThan(0);
    controller.abort();
    await until('nothing is open', () => held().length === 0);
  });
});

test('list_files is V0s', async () => {
  for (const name of ['sub', 'Zdir', '.hid']) mkdirSync(join(dir, name));
  for (const name of ['a.txt', 'B.txt', '.hidf']) writeFileSync(join(dir, name), '');
  symlinkSync('a.txt', join(dir, 'link'));
  symlinkSync('sub', join(dir, 'up'));
  symlinkSync('nowhere', join(dir, 'dangling'));
  expect(await listFiles(dir)).toEqual(['.hid/', 'sub/', 'up/', 'Zdir/', '.hidf', 'a.txt', 'B.txt', 'link']);
  expect(await listFiles(`case-${count}`)).toEqual(await listFiles(dir));
  expect(await listFiles(null)).toContain(`case-${count}/`);
  expect(await listFiles(`${dir}/a.txt`)).toEqual([]);
  expect(await listFiles('/no/such')).toEqual([]);
});
