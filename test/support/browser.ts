import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'vitest';
import { findExecutable } from '../../executors/browser/executable.ts';
import type { TestServer } from './server.ts';

const hasChromium = findExecutable(undefined, process.env['PATH'] ?? '') !== undefined;

/** For `beforeEach`: where there is no browser its tests are skipped, and counted. */
export function needsChromium({ skip }: { skip: (condition: boolean, note: string) => void }): void {
  skip(!hasChromium, 'Chromium is not installed');
}

export type Page = string | ((request: IncomingMessage, response: ServerResponse) => void);

/** Pages on a port of loopback. What is there is HTML; a function answers by itself; everything else is 404. */
export class Site implements AsyncDisposable {
  readonly #server: Server;
  readonly pages: Map<string, Page>;

  private constructor(server: Server, pages: Map<string, Page>) {
    this.#server = server;
    this.pages = pages;
  }

  static async start(pages: Readonly<Record<string, Page>>): Promise<Site> {
    const known = new Map(Object.entries(pages));
    const server = createServer((request, response) => {
      const page = known.get(new URL(request.url ?? '/', 'http://x').pathname);
      if (typeof page === 'function') return page(request, response);
      response.writeHead(page === undefined ? 404 : 200, { 'content-type': 'text/html; charset=utf-8' });
      response.end(page ?? 'no such page');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Site(server, known);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  url(path = '/', host = 'localhost'): string {
    return `http://${host}:${this.port}${path}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

/** What tests look at. */
export interface Seen {
  readonly observation: string;
  readonly content: string;
  readonly error: string;
  readonly url: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- the observation's extras, of every kind
  readonly extras: any;
  /** The lines of the tree by id, as V0's tests read them (V0 §8.8). */
  readonly lines: ReadonlyMap<string, string>;
  /** The id of the first element whose line has all these texts. */
  readonly bid: (...texts: readonly string[]) => string;
}

export interface BrowseOptions {
  readonly session?: string;
  readonly timeout?: number;
  readonly return_axtree?: boolean;
}

export async function browse(
  server: TestServer,
  url: string,
  { timeout = 60, ...args }: BrowseOptions = {},
): Promise<Seen> {
  return seen(await server.action({ action: 'browse', args: { url, ...args }, timeout }));
}

export async function act(
  server: TestServer,
  actions: string,
  { timeout = 60, ...args }: BrowseOptions = {},
): Promise<Seen> {
  return seen(
    await server.action({ action: 'browse_interactive', args: { browser_actions: actions, ...args }, timeout }),
  );
}

/** Opens a page by `goto`; anything but success fails the test. */
export async function open(server: TestServer, url: string, options: BrowseOptions = {}): Promise<Seen> {
  const found = await act(server, `goto(${JSON.stringify(url)})`, options);
  expect(found.error).toBe('');
  return found;
}

function seen({
  observation,
  content,
  body,
}: {
  observation: string;
  content: string;
  body: { extras: unknown };
}): Seen {
  const extras = body.extras as Record<string, unknown> & { last_browser_action_error?: string; url?: string };
  const lines = treeLines(content);
  return {
    observation,
    content,
    extras,
    error: textOf(extras['last_browser_action_error']),
    url: textOf(extras['url']),
    lines,
    bid: (...texts) => {
      const found = [...lines].find(([, line]) => texts.every((text) => line.includes(text)));
      if (!found) throw new Error(`no element with ${texts.join(', ')} in:\n${content.slice(0, 4000)}`);
      return found[0];
    },
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function treeLines(content: string): Map<string, string> {
  const [, tree = ''] = /BEGIN accessibility tree =+\n([\s\S]*)\n=+ END accessibility tree/.exec(content) ?? [];
  const lines = new Map<string, string>();
  let last = '';
  for (const line of tree.split('\n')) {
    const [, bid, text = ''] = /^\[([a-zA-Z0-9]+)\]\s*(.*)/.exec(line.trim()) ?? [];
    if (bid === undefined) {
      if (last !== '') lines.set(last, `${lines.get(last)} ${line.trim()}`);
    } else {
      lines.set(bid, text);
      last = bid;
    }
  }
  return lines;
}
