import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import type { SearchFilesRequest } from '../../src/protocol/http.ts';
import { fault } from '../../src/sandbox/file-faults.ts';
import type { Identity } from '../../src/sandbox/identity.ts';
import type { Pin } from '../../src/sandbox/pin.ts';
import type { Found } from './found.ts';

export interface RipgrepSearch {
  /** Held until the search is over: whatever is put in its place is not searched. */
  readonly root: Pin;
  readonly request: SearchFilesRequest;
  readonly env: Readonly<Record<string, string>>;
  /** Whom it runs as; undefined: this process's account. */
  readonly identity: Identity | undefined;
  readonly signal: AbortSignal;
}

type Child = ChildProcessByStdio<null, Readable, Readable>;

/** Longest line that is shown, in characters. */
const MAX_COLUMNS = 1000;

/** Longest piece without an end that is kept. */
const MAX_OPEN_BYTES = 1024 * 1024;

const MAX_COMPLAINT = 2000;
const NOTHING_FOUND = 1;
const SOME_UNREADABLE = 2;
/** Of setpriv, when there is no such program. */
const NOT_FOUND = 127;

/** @throws ENOENT when there is no ripgrep; Error with its complaint, such as about a wrong pattern */
export async function* searchWithRipgrep(search: RipgrepSearch): AsyncGenerator<Found> {
  const { root, request, env, identity, signal } = search;
  const [program, ...args] = [...switching(identity), 'rg', ...argumentsOf(request)] as [string, ...string[]];
  const child = spawn(program, args, {
    // Globs with a slash count from there. The child enters it before it loses its descriptors.
    cwd: root.link,
    env: { ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(identity && program === 'rg' ? { uid: identity.uid, gid: identity.gid } : {}),
    signal,
    killSignal: 'SIGKILL',
  });
  const closed = once(child, 'close');
  closed.catch(() => {});
  try {
    await once(child, 'spawn');
    const complaint = firstWords(child);
    let hasFound = false;
    for await (const found of readFound(child.stdout, root.path, request.pattern !== undefined)) {
      yield found;
      hasFound = true;
    }
    const [code] = (await closed) as [number | null];
    if (code === NOT_FOUND && program !== 'rg') throw fault('ENOENT', 'rg');
    const isFailure = code !== 0 && code !== NOTHING_FOUND && !(code === SOME_UNREADABLE && hasFound);
    const words = await complaint;
    if (isFailure && words !== '') throw new Error(words);
  } finally {
    child.kill('SIGKILL');
  }
}

/** Node leaves a child no group but the primary one. */
function switching(identity: Identity | undefined): string[] {
  if (identity === undefined || identity.gids.size === 1) return [];
  const groups = Array.from(identity.gids).join(',');
  return ['setpriv', `--reuid=${identity.uid}`, `--regid=${identity.gid}`, `--groups=${groups}`, '--'];
}

const NEWLINE = 0x0a;

/** With a path it does not look at its input; names come with this before them. */
const START = './';

function argumentsOf({ glob, pattern, regex, ignore_case, hidden }: SearchFilesRequest): string[] {
  const common = ['--no-config', '--color', 'never', '--null', ...(hidden ? ['--hidden', '--no-ignore'] : [])];
  // A glob that matches would bring hidden files back; the last one decides.
  const globs = [...glob, ...(hidden ? [] : ['!.*'])].flatMap((text) => ['--glob', text]);
  if (pattern === undefined) return [...common, ...globs, '--files', '--', START];
  const lines = ['--line-number', '--no-heading', '--with-filename', '--no-messages', `--max-columns=${MAX_COLUMNS}`];
  const how = [...(regex ? [] : ['--fixed-strings']), ...(ignore_case ? ['--ignore-case'] : [])];
  return [...common, ...globs, ...lines, '--max-columns-preview', ...how, '--regexp', pattern, '--', START];
}

/** Records are `path NUL`, or `path NUL line:text NEWLINE`; a path may have any other byte. */
async function* readFound(stream: Readable, root: string, hasText: boolean): AsyncGenerator<Found> {
  let name: Buffer | undefined;
  for await (const field of fields(stream, () => (name === undefined ? 0 : NEWLINE))) {
    if (!hasText) yield { path: absolute(field, root) };
    else if (name === undefined) name = withoutWarnings(field);
    else {
      const rest = field.toString('utf8');
      const colon = rest.indexOf(':');
      const text = rest.slice(colon + 1).replace(/\r$/, '');
      yield { path: absolute(name, root), line: Number(rest.slice(0, colon)), text };
      name = undefined;
    }
  }
}

/** What it says of a file that turned out to be binary behind a match: lines of their own, before the next path. */
const BINARY_WARNINGS =
  /^(?:[^]*?: (?:WARNING: stopped searching binary file after match|binary file matches) \(found "\\0" byte around offset \d+\)\n)+/;

function withoutWarnings(field: Buffer): Buffer {
  if (!field.includes('byte around offset')) return field;
  return Buffer.from(field.toString('latin1').replace(BINARY_WARNINGS, ''), 'latin1');
}

function absolute(name: Buffer, root: string): string {
  return `${root === '/' ? '' : root}/${name.toString('utf8', START.length)}`;
}

/** @param separator what ends the next field */
async function* fields(stream: Readable, separator: () => number): AsyncGenerator<Buffer> {
  let open: Buffer = Buffer.alloc(0);
  for await (const chunk of stream) {
    open = Buffer.concat([open, chunk as Buffer]);
    let start = 0;
    for (let end = open.indexOf(separator()); end >= 0; end = open.indexOf(separator(), start)) {
      yield open.subarray(start, end);
      start = end + 1;
    }
    open = open.subarray(start);
    if (open.length > MAX_OPEN_BYTES) open = Buffer.alloc(0);
  }
}

async function firstWords(child: Child): Promise<string> {
  let words = '';
  for await (const chunk of child.stderr.setEncoding('utf8')) {
    if (words.length < MAX_COMPLAINT) words += String(chunk);
  }
  return words.trim().slice(0, MAX_COMPLAINT);
}
