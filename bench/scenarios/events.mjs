import { fork } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { runCommand, startDaemon } from '../lib/servers.mjs';
import { median } from '../lib/stats.mjs';

const EVENT_BYTES = 300;
/** Between two awaits of the writer: what a few busy lanes queue. */
const PIPELINE = 1000;
const PAGE = { maxEvents: 1000, maxBytes: 256 * 1024 };
const SUBSCRIBERS = 100;
const COMMANDS = 25;

export default {
  name: 'events',
  title: 'the event log',
  target: {
    append: { what: 'append, pipelined, durable', unit: '/s', value: { atLeast: 20_000 } },
    replay: { what: 'replay from the disk', unit: '/s', value: { atLeast: 100_000 } },
    single: { what: 'append and flush of one, p50', unit: 'ms', against: 'fdatasync' },
    openEmpty: { what: 'open, empty, p50', unit: 'ms', value: { atMost: 5 } },
    openFull: { what: 'open, 256 MiB', unit: 'ms', value: { atMost: 500 } },
    subscribers: {
      what: `\`true\` with ${SUBSCRIBERS} live subscribers, p50`,
      unit: 'ms',
      against: 'the same without',
      ratio: { atMost: 1.1 },
    },
  },
  run,
};

async function run(context) {
  const EventLog = await loadEventLog(context);
  const log = { ...(await measureSpeed(context, EventLog)), ...(await measureOpening(context, EventLog)) };
  return { ...log, subscribers: await measureSubscribers(context) };
}

/** From the sources: the bundled daemon does not export it. */
async function loadEventLog(context) {
  const { build } = await import('esbuild');
  const outfile = path.join(context.makeDirectory('bundle'), 'event-log.mjs');
  const entryPoints = [path.join(context.root, 'src/events/event-log.ts')];
  await build({ entryPoints, outfile, bundle: true, platform: 'node', format: 'esm', target: 'node20' });
  return (await import(outfile)).EventLog;
}

function onProblem(text, error) {
  throw new Error(text, { cause: error });
}

function optionsOf(directory) {
  return { directory, maxBytes: 2 ** 40, maxAgeMs: 1e12, onProblem };
}

function eventOf(n, bytes) {
  const kind = ['action', 'output', 'observation'][n % 3];
  return { kind, action_id: `action-${Math.floor(n / 3)}`, lane: 'bash:default', text: 'x'.repeat(bytes - 140) };
}

async function measureSpeed(context, EventLog) {
  const log = await EventLog.open(optionsOf(context.makeDirectory('events')));
  context.defer(() => log.close());
  const single = await measureSingle(context, log);
  const count = context.isQuick ? 50_000 : 300_000;
  const startedAt = performance.now();
  let flushed = Promise.resolve();
  for (let n = 0; n < count; n += 1) {
    const seq = log.append(eventOf(n, EVENT_BYTES));
    if (n % PIPELINE !== 0) continue;
    await flushed;
    flushed = log.flush(seq);
  }
  await log.flush();
  const append = { subject: (count / (performance.now() - startedAt)) * 1000 };
  return { single, append, replay: await measureReplay(log) };
}

/** Turn and turn about with what it costs at least. */
async function measureSingle(context, log) {
  const file = openSync(path.join(context.makeDirectory('bare'), 'log'), 'a');
  const data = Buffer.alloc(EVENT_BYTES, 'x');
  const times = { subject: [], baseline: [] };
  for (let n = 0; n < 1500; n += 1) {
    const startedAt = performance.now();
    await log.flush(log.append(eventOf(n, EVENT_BYTES)));
    const betweenAt = performance.now();
    writeSync(file, data);
    fdatasyncSync(file);
    if (n < 500) continue;
    times.subject.push(betweenAt - startedAt);
    times.baseline.push(performance.now() - betweenAt);
  }
  closeSync(file);
  return { subject: median(times.subject), baseline: median(times.baseline) };
}

async function measureReplay(log) {
  const { latest } = log.extent;
  const startedAt = performance.now();
  let place = 0;
  while (place < latest) {
    for (const { seq } of await log.read(place, PAGE)) {
      if (seq !== place + 1) throw new Error(`event ${seq} after ${place}`);
      place = seq;
    }
  }
  return { subject: (latest / (performance.now() - startedAt)) * 1000 };
}

async function measureOpening(context, EventLog) {
  const times = [];
  for (let round = 0; round < 20; round += 1) {
    const directory = path.join(context.makeDirectory('empty'), 'events');
    const startedAt = performance.now();
    const log = await EventLog.open(optionsOf(directory));
    times.push(performance.now() - startedAt);
    await log.close();
  }
  const directory = context.makeDirectory('full');
  const full = await EventLog.open(optionsOf(directory));
  const size = (context.isQuick ? 32 : 256) * 2 ** 20;
  for (let n = 0; full.stats().bytes < size; n += 1) {
    const seq = full.append(eventOf(n, 600));
    if (n % PIPELINE === 0) await full.flush(seq);
  }
  await full.close();
  const startedAt = performance.now();
  const log = await EventLog.open(optionsOf(directory));
  const openFull = { subject: performance.now() - startedAt };
  await log.close();
  return { openEmpty: { subject: median(times) }, openFull };
}

/** Two daemons, one of them followed, take turns. */
async function measureSubscribers(context) {
  const kinds = { subject: await startDaemon(context), baseline: await startDaemon(context) };
  const follower = fork(import.meta.filename, ['--follow', String(kinds.subject.port)]);
  context.defer(() => follower.kill());
  await once(follower, 'message');
  const rounds = [];
  for (let round = 0; round < (context.isQuick ? 14 : 64); round += 1) {
    const times = { subject: [], baseline: [] };
    for (const [kind, { client }] of Object.entries(kinds)) {
      for (let n = 0; n < COMMANDS; n += 1) {
        const startedAt = performance.now();
        await runCommand(client, 'true');
        times[kind].push(performance.now() - startedAt);
      }
    }
    // The first rounds warm up.
    if (round >= 4) rounds.push(times);
  }
  const { latest } = await (await fetch(`http://127.0.0.1:${kinds.subject.port}/events?limit=1`)).json();
  follower.send(latest);
  const [missing] = await once(follower, 'message');
  if (missing > 0) throw new Error(`${missing} subscribers have not seen event ${latest}`);
  const all = (kind) => median(rounds.flatMap((times) => times[kind]));
  const medians = rounds.map(({ subject, baseline }) => ({ subject: median(subject), baseline: median(baseline) }));
  return { subject: all('subject'), baseline: all('baseline'), rounds: medians };
}

/** The subscribers, in a process of their own. */
async function follow(port) {
  const subscribers = await Promise.all(Array.from({ length: SUBSCRIBERS }, () => subscribe(port)));
  process.send('all here');
  const [latest] = await once(process, 'message');
  const deadline = performance.now() + 10_000;
  const missing = () => subscribers.filter((hasSeen) => !hasSeen(latest)).length;
  while (missing() > 0 && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 10));
  process.send(missing());
}

/** A bare socket: what the client costs is on the same machine. */
async function subscribe(port) {
  const socket = connect(port, '127.0.0.1');
  socket.write('GET /events/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n');
  let tail = '';
  socket.on('data', (data) => {
    tail = (tail + data.toString('latin1')).slice(-4096);
  });
  await once(socket, 'data');
  return (seq) => tail.includes(`"seq":${seq},`);
}

if (process.argv[1] === import.meta.filename) await follow(Number(process.argv[3]));
