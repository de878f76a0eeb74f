/** Many followers of the stream while much happens: a real daemon, real commands, real sockets. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { Build, Daemon, run } from '../support/built-server.ts';
import { until } from '../support/wait.ts';

const COMMANDS = 2000;
const LANES = 4;
const FOLLOWERS = { everything: 4, filtered: 86, stalled: 10 };
const FILTER = 'observation';
/** What the daemon may have held at any time: about 100 MiB without followers; the followers are sent more than 300 MiB. */
const MAX_RSS_MIB = 300;

/** Live output of 16 KiB that the answer does not show: what stalls is to miss far more than any buffer holds. */
const command = (n: number): string => `printf '%800s\\r\\e[K' {1..20}; echo ${n}`;

let build: Build;
beforeAll(() => {
  build = new Build();
});
afterAll(() => build[Symbol.dispose]());

/** Notes what it gets; the JSON is not parsed, there is too much of it. */
class Follower {
  readonly socket: WebSocket;
  readonly seqs: number[] = [];
  readonly kinds: string[] = [];
  readonly control: string[] = [];
  readonly closed: Promise<number>;

  constructor(url: string, query: string) {
    this.socket = new WebSocket(`${url.replace('http', 'ws')}/events/stream?${query}`);
    this.socket.on('message', (data: Buffer) => {
      const [, seq, kind] = /^\{"seq":(\d+),.*?"kind":"(\w+)"/.exec(data.toString('latin1', 0, 200)) ?? [];
      if (seq === undefined || kind === undefined) this.control.push(data.toString());
      else {
        this.seqs.push(Number(seq));
        this.kinds.push(kind);
      }
    });
    this.closed = once(this.socket, 'close').then(([code]) => code as number);
  }

  get last(): number {
    return this.seqs.at(-1) ?? 0;
  }
}

class Followers implements Disposable {
  readonly all: Follower[] = [];
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  add(count: number, query: string): Follower[] {
    const added = Array.from({ length: count }, () => new Follower(this.#url, query));
    this.all.push(...added);
    return added;
  }

  [Symbol.dispose](): void {
    for (const { socket } of this.all) socket.terminate();
  }
}

function peakMib(pid: number): number {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

test('100 followers, 10 of them stalled, while 2,000 commands run', { timeout: 120_000 }, async () => {
  const state = build.directory('many-followers');
  using daemon = new Daemon(build, ['0', '--state-dir', state, '--working-dir', state]);
  const url = await daemon.url();
  using followers = new Followers(url);
  const everything = followers.add(FOLLOWERS.everything, 'after=0');
  const filtered = followers.add(FOLLOWERS.filtered, `after=0&kind=${FILTER}`);
  const stalled = followers.add(FOLLOWERS.stalled, 'after=0');
  await until('all are greeted', () => followers.all.every(({ control }) => control.length >= 1));
  for (const { socket } of stalled) socket.pause();

  await Promise.all(
    Array.from({ length: LANES }, async (_, lane) => {
      for (let n = lane; n < COMMANDS; n += LANES) {
        const { content } = await run(url, command(n), { session: `lane-${lane}` });
        expect(content).toBe(String(n));
      }
    }),
  );

  const { latest } = (await (await fetch(`${url}/events?limit=1`)).json()) as { latest: number };
  await until('the healthy ones have all', () => everything.every(({ last }) => last >= latest));
  const all = Array.from({ length: latest }, (_, at) => at + 1);
  for (const { seqs, control } of everything) {
    expect(seqs.slice(0, latest)).toEqual(all);
    expect(control).toHaveLength(2);
  }
  const [one] = everything as [Follower];
  const wanted = all.filter((seq) => one.kinds[seq - 1] === FILTER);
  expect(wanted).toHaveLength(COMMANDS);
  await until('those with a filter too', () => filtered.every(({ seqs }) => seqs.length >= wanted.length));
  for (const { seqs } of filtered) expect(seqs).toEqual(wanted);

  for (const { socket } of stalled) socket.resume();
  expect(await Promise.all(stalled.map(({ closed }) => closed))).toEqual(stalled.map(() => 1013));
  // What a stalled one did get is whole up to where it was cut: it can come back with its cursor.
  for (const { seqs } of stalled) {
    expect(seqs).toEqual(all.slice(0, seqs.length));
    expect(seqs.length).toBeLessThan(latest);
  }
  const metrics = await (await fetch(`${url}/metrics`)).text();
  expect(metrics).toMatch(/^actiond_dropped_readers 10$/m);
  const peak = peakMib(daemon.pid);
  console.log(`events ${latest}, peak of the daemon ${Math.round(peak)} MiB`);
  expect(peak).toBeLessThan(MAX_RSS_MIB);
});
