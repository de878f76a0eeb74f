import { constants, copyFile, link, rm } from 'node:fs/promises';
import { extname } from 'node:path';
import type { FileAccess } from '../../src/sandbox/file-access.ts';
import type { Pin } from '../../src/sandbox/pin.ts';
import type { CdpConnection } from './cdp.ts';
import { MAX_DOWNLOADS, MAX_DOWNLOAD_BYTES, MAX_NOTES, MAX_UNSEEN_DOWNLOADS } from './limits.ts';
import { type Deadline, ifWithin } from './within.ts';

export interface DownloadsOptions {
  readonly access: FileAccess;
  readonly workingDir: string;
  readonly onLine: (text: string) => void;
  /** Whether a frame, as the browser names it, is one of the session's. */
  readonly owns: (frameId: string) => Promise<boolean>;
}

interface Download {
  readonly guid: string;
  readonly suggestedName: string;
  readonly done: Promise<void>;
  readonly finish: () => void;
  receivedBytes: number;
}

/** A file that has arrived as a whole. */
export interface SavedDownload {
  /** V0's name for it: `file_{n}{ext}` in the working directory (V0 §8.6). */
  readonly path: string;
  /** Under the name that the site gives it, in `.downloads`. */
  readonly original: string;
}

/** Room for a number and for the longest characters in what a directory takes. */
const MAX_NAME_CHARS = 80;

/** Where downloads go; agents are told so (V0 §8.1). */
export function downloadsDirectory(workingDir: string): string {
  return `${workingDir}/.downloads`;
}

/** Files that the pages of one session save. */
export class Downloads {
  readonly #options: DownloadsOptions;
  readonly #running = new Map<string, Download>();
  /** Which downloads of the browser are the session's: it tells all sessions of all. */
  readonly #claims = new Map<string, Promise<boolean>>();
  #saved: SavedDownload[] = [];
  #failed: string[] = [];
  /** Further ones that failed, of which nothing is kept. */
  #unnamed = 0;
  #begun = 0;
  #onBegin: (() => void) | undefined;
  #count = 0;
  #stop: () => void = () => {};

  constructor(options: DownloadsOptions) {
    this.#options = options;
  }

  /** @param contextId the browser's id of the session's context */
  async start(cdp: CdpConnection, contextId: string | undefined): Promise<void> {
    const { access, workingDir } = this.#options;
    await using directory = await access.makeDirectories(downloadsDirectory(workingDir));
    const { sessionId } = await cdp.send<{ sessionId: string }>('Target.attachToBrowserTarget', {}, cdp.browserSession);
    this.#stop = cdp.onEvent((method, params, from) => {
      if (from !== sessionId) return;
      const guid = String(params['guid']);
      if (method === 'Browser.downloadWillBegin') {
        this.#claims.set(guid, this.#options.owns(String(params['frameId'])));
        void this.#ifClaimed(guid, () => this.#begin(cdp, sessionId, params));
      } else if (method === 'Browser.downloadProgress') {
        void this.#ifClaimed(guid, () => this.#progress(cdp, sessionId, params));
        if (params['state'] !== 'inProgress') this.#claims.delete(guid);
      }
    });
    const behavior = {
      behavior: 'allowAndName',
      downloadPath: directory.path,
      eventsEnabled: true,
      ...(contextId === undefined ? {} : { browserContextId: contextId }),
    };
    await cdp.send('Browser.setDownloadBehavior', behavior, sessionId);
  }

  /** In order: what comes for a download waits until it is known whose it is. */
  async #ifClaimed(guid: string, handle: () => void): Promise<void> {
    if (await this.#claims.get(guid)) handle();
  }

  stop(): void {
    this.#stop();
    for (const { finish } of this.#running.values()) finish();
  }

  /** How many have ever begun. */
  get begun(): number {
    return this.#begun;
  }

  /** Whether a download has begun since there were `before`, or begins within the limit. */
  async hasBegunSince(before: number, limitMs: number, deadline: Deadline): Promise<boolean> {
    if (this.#begun > before) return true;
    await ifWithin(deadline.left(limitMs), new Promise<void>((resolve) => (this.#onBegin = resolve)), deadline.signal);
    return this.#begun > before;
  }

  /** Waits for those that run, up to a limit; takes what has arrived, and lines about the rest. */
  async take(
    deadline: Deadline,
    limitMs: number,
    reserveMs: number,
  ): Promise<{ saved: SavedDownload[]; lines: string[] }> {
    if (this.#running.size > 0) {
      const all = Promise.all(Array.from(this.#running.values(), ({ done }) => done));
      await deadline.ifWithin(limitMs, all, reserveMs);
    }
    const saved = this.#saved;
    const lines = [
      ...this.#failed,
      ...(this.#unnamed > 0 ? [`${this.#unnamed} more downloads did not arrive`] : []),
      ...Array.from(
        this.#running.values(),
        ({ suggestedName, receivedBytes }) =>
          `The download of ${suggestedName} goes on: ${receivedBytes} bytes so far; noop() waits`,
      ),
    ];
    this.#saved = [];
    this.#failed = [];
    this.#unnamed = 0;
    return { saved, lines };
  }

  #begin(cdp: CdpConnection, sessionId: string, params: Record<string, unknown>): void {
    const guid = String(params['guid']);
    const suggestedName = cleanName(params['suggestedFilename']);
    this.#begun += 1;
    this.#onBegin?.();
    const obstacle = this.#obstacle();
    if (obstacle !== undefined) {
      this.#tell(`The download of ${suggestedName} was cancelled: ${obstacle}`);
      void cdp.send('Browser.cancelDownload', { guid }, sessionId).catch(() => {});
      return;
    }
    const { promise: done, resolve: finish } = settled();
    this.#running.set(guid, { guid, suggestedName, done, finish, receivedBytes: 0 });
    this.#options.onLine(`[download] ${suggestedName} from ${String(params['url']).slice(0, 500)}`);
  }

  #progress(cdp: CdpConnection, sessionId: string, params: Record<string, unknown>): void {
    const download = this.#running.get(String(params['guid']));
    if (!download) return;
    download.receivedBytes = Number(params['receivedBytes']);
    if (params['state'] === 'completed') void this.#save(download);
    else if (params['state'] === 'canceled') this.#fail(download, 'did not arrive as a whole');
    else if (Math.max(download.receivedBytes, Number(params['totalBytes'])) > MAX_DOWNLOAD_BYTES) {
      void cdp.send('Browser.cancelDownload', { guid: download.guid }, sessionId).catch(() => {});
      this.#fail(download, `was cancelled: it is larger than ${MAX_DOWNLOAD_BYTES} bytes`);
    }
  }

  #obstacle(): string | undefined {
    if (this.#running.size >= MAX_DOWNLOADS) return `${MAX_DOWNLOADS} others are under way`;
    if (this.#saved.length >= MAX_UNSEEN_DOWNLOADS)
      return `${MAX_UNSEEN_DOWNLOADS} others have come since the last action`;
    return undefined;
  }

  #fail({ guid, suggestedName, finish }: Download, reason: string): void {
    this.#running.delete(guid);
    this.#tell(`The download of ${suggestedName} ${reason}`);
    finish();
  }

  #tell(line: string): void {
    if (this.#failed.length < MAX_NOTES) this.#failed.push(line);
    else this.#unnamed += 1;
  }

  async #save(download: Download): Promise<void> {
    const { guid, suggestedName, finish } = download;
    try {
      const saved = await this.#keep(guid, suggestedName);
      this.#running.delete(guid);
      this.#saved.push(saved);
      this.#options.onLine(`[download] saved as ${saved.original} and ${saved.path}`);
      finish();
    } catch (error) {
      this.#fail(download, `could not be saved: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  async #keep(guid: string, suggestedName: string): Promise<SavedDownload> {
    const { access, workingDir } = this.#options;
    await using directory = await access.makeDirectories(downloadsDirectory(workingDir));
    const original = await moveTo(directory, guid, suggestedName);
    await access.claim(directory.child(original), directory.stats);
    await using home = await access.makeDirectories(workingDir);
    const extension = extname(suggestedName);
    for (;;) {
      this.#count += 1;
      const name = `file_${this.#count}${extension}`;
      if (await tryLink(directory.child(original), home.child(name))) {
        await access.claim(home.child(name), home.stats).catch(() => {});
        return { path: `${workingDir}/${name}`, original: `${downloadsDirectory(workingDir)}/${original}` };
      }
    }
  }
}

/** false: there is something of that name. */
async function tryLink(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
  }
  // A file system without hard links.
  await copyFile(from, to, constants.COPYFILE_EXCL);
  return true;
}

/** Puts a file under the wanted name, or one with a number when there is such a file already. */
async function moveTo(directory: Pin, from: string, wanted: string): Promise<string> {
  const extension = extname(wanted);
  const stem = wanted.slice(0, wanted.length - extension.length);
  for (let number = 0; ; number += 1) {
    const name = number === 0 ? wanted : `${stem} (${number})${extension}`;
    if (!(await tryLink(directory.child(from), directory.child(name)))) continue;
    await rm(directory.child(from), { force: true });
    return name;
  }
}

function settled(): { promise: Promise<void>; resolve: () => void } {
  let settle: (() => void) | undefined;
  const promise = new Promise<void>((resolve) => (settle = resolve));
  return { promise, resolve: () => settle?.() };
}

/** A name that a site gives, as one that a directory can hold. */
function cleanName(suggested: unknown): string {
  if (typeof suggested !== 'string') return 'download';
  const name = suggested
    .replaceAll(/[/\\]|\p{Cc}/gu, '_')
    .replace(/^\.+/, '')
    .trim()
    .slice(0, MAX_NAME_CHARS);
  return name === '' ? 'download' : name;
}
