import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { copyFile, open, readFile, rename, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { startBareServer, startDaemon } from '../lib/servers.mjs';
import { median } from '../lib/stats.mjs';

const SMALL = 'x'.repeat(4095);
const LINE = 'some line of text in a large file\n';
const MIB = 1024 * 1024;
const LARGE_BYTES = 5 * MIB;
const UPLOAD_BYTES = 100 * MIB;
const WITNESS = `const delay = require('node:perf_hooks').monitorEventLoopDelay({ resolution: 5 });
delay.enable();
process.on('message', () => { process.send(delay.max / 1e6); delay.reset(); });`;
const BOUNDARY = 'bench-boundary';

export default {
  name: 'files',
  title: 'files through actions and uploads',
  unit: 'ms',
  target: {
    read: { what: 'read 4 KiB, p50', against: 'readFile + empty POST' },
    write: { what: 'write 4 KiB, p50', against: 'write, fdatasync, rename + empty POST' },
    edit: { what: 'str_replace in 5 MB, p50', against: 'readFile, replace, write, fdatasync, rename' },
    upload: { what: 'upload 100 MB, p50', against: 'copyFile + fdatasync' },
    download: { what: 'download 100 MB as zip, p50', against: 'copyFile + fdatasync' },
    delay: {
      what: 'longest wait of the event loop in these transfers',
      against: 'an idle process meanwhile',
      value: { atMost: 100 },
    },
  },
  run,
};

async function run(context) {
  const { client, port } = await startDaemon(context);
  const { client: bare } = await startBareServer(context);
  const at = (name) => path.join(directory, name);
  const directory = context.makeDirectory('files');
  await writeFile(at('large.txt'), `${LINE.repeat(LARGE_BYTES / LINE.length)}one SLOT\n`);
  await writeFile(at('plain-large.txt'), await readFile(at('large.txt')));
  await writeFile(at('source.bin'), Buffer.alloc(UPLOAD_BYTES, 'bytes that are not all the same '));
  await act(client, 'write', { path: at('small.txt'), content: SMALL });

  const count = context.isQuick ? 20 : 200;
  const few = context.isQuick ? 2 : 5;
  let flip = false;
  const post = () => bare.postJson('/', {});
  const actions = {
    read: await compare(
      count,
      () => act(client, 'read', { path: at('small.txt') }),
      async () => {
        await readFile(at('small.txt'), 'utf8');
        await post();
      },
    ),
    write: await compare(
      count,
      () => act(client, 'write', { path: at('small.txt'), content: SMALL }),
      async () => {
        await replace(at('plain.txt'), `${SMALL}\n`);
        await post();
      },
    ),
    edit: await compare(
      Math.ceil(count / 10),
      () => {
        flip = !flip;
        const [old_str, new_str] = flip ? ['one SLOT', 'two SLOT'] : ['two SLOT', 'one SLOT'];
        return act(client, 'edit', { path: at('large.txt'), command: 'str_replace', old_str, new_str });
      },
      async () => {
        const text = await readFile(at('plain-large.txt'), 'utf8');
        await replace(
          at('plain-large.txt'),
          text.replace('one SLOT', () => 'one SLOT'),
        );
      },
    ),
  };
  const witness = startWitness(context);
  await Promise.all([longestDelayMs(client), witness.longestDelayMs()]);
  const transfers = {
    upload: await compare(
      few,
      () => upload(port, at('source.bin'), at('uploaded')),
      () => copyDurably(at('source.bin'), at('copy.bin')),
    ),
    download: await compare(
      few,
      () => download(port, at('source.bin'), at('down.zip')),
      () => copyDurably(at('source.bin'), at('copy.bin')),
    ),
  };
  const delay = { subject: await longestDelayMs(client), baseline: await witness.longestDelayMs() };
  return { ...actions, ...transfers, delay };
}

/** Since the last look. */
async function longestDelayMs(client) {
  return 1000 * Number(/^actiond_event_loop_delay_max_seconds (\S+)$/m.exec(await client.getText('/metrics'))?.[1]);
}

/** What the machine makes everybody wait. */
function startWitness(context) {
  const child = spawn(process.execPath, ['-e', WITNESS], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  context.defer(() => child.kill());
  return {
    async longestDelayMs() {
      child.send('now');
      const [milliseconds] = await once(child, 'message');
      return milliseconds;
    },
  };
}

/** Both in turn, so that noise meets both. */
async function compare(count, subject, baseline) {
  const times = { subject: [], baseline: [] };
  for (let index = 0; index < count; index += 1) {
    times.subject.push(await timeOf(subject));
    times.baseline.push(await timeOf(baseline));
  }
  return { subject: median(times.subject), baseline: median(times.baseline) };
}

async function timeOf(work) {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

async function act(client, action, args) {
  const { observation, content } = await client.postJson('/execute_action', { action: { action, args } });
  if (observation !== action || content.startsWith('ERROR')) throw new Error(`${action}: ${content.slice(0, 200)}`);
}

async function replace(file, text) {
  const handle = await open(`${file}.new`, 'w');
  try {
    await handle.writeFile(text);
    await handle.datasync();
  } finally {
    await handle.close();
  }
  await rename(`${file}.new`, file);
}

async function copyDurably(from, to) {
  await copyFile(from, to);
  const handle = await open(to, 'r+');
  await handle.datasync();
  await handle.close();
}

async function upload(port, file, destination) {
  const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="up.bin"\r\n\r\n`;
  const tail = `\r\n--${BOUNDARY}--\r\n`;
  const options = {
    host: '127.0.0.1',
    port,
    method: 'POST',
    path: `/upload_file?destination=${encodeURIComponent(destination)}`,
    headers: {
      'content-type': `multipart/form-data; boundary=${BOUNDARY}`,
      'content-length': head.length + UPLOAD_BYTES + tail.length,
    },
  };
  await new Promise((resolve, reject) => {
    const request = http.request(options, (response) => {
      response.resume();
      response.on('end', () => (response.statusCode === 200 ? resolve() : reject(new Error('upload failed'))));
    });
    request.on('error', reject);
    request.write(head);
    createReadStream(file)
      .on('end', () => request.end(tail))
      .pipe(request, { end: false });
  });
}

async function download(port, file, to) {
  const address = `/download_files?path=${encodeURIComponent(file)}`;
  const response = await new Promise((resolve, reject) => {
    http.get({ host: '127.0.0.1', port, path: address, agent: false }, resolve).on('error', reject);
  });
  if (response.statusCode !== 200) throw new Error(`download: ${response.statusCode}`);
  await pipeline(response, createWriteStream(to));
  await rm(to);
}
