import { randomUUID } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { basename, extname, join } from 'node:path';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { Guard } from '../guard.ts';
import { codeOf, faultText } from '../sandbox/file-faults.ts';
import { errorPage, imagePage, pdfPage } from './page.ts';
import { pdfjsDirectory } from '../util/pdfjs.ts';

export interface FileViewerOptions {
  /** All of a file, or a failed system call. */
  readonly read: (path: string) => Promise<Buffer>;
  /** Where agents find the address (V0 §2.11). */
  readonly addressFile: string;
}

/** Where V0 tells agents to look. */
export const VIEWER_ADDRESS_FILE = '/tmp/oh-server-url';

const IMAGE_TYPES: ReadonlyMap<string, string> = new Map([
  ['.png', 'image/png'],
  ['.jpg', 'image/jpeg'],
  ['.jpeg', 'image/jpeg'],
  ['.gif', 'image/gif'],
]);

/** What a page may load from the pdf.js package. */
const PDFJS_FILE = /^(?:legacy\/build|cmaps|standard_fonts|wasm|iccs)\/[\w.-]+$/;
const PDFJS_TYPES: ReadonlyMap<string, string> = new Map([
  ['.mjs', 'text/javascript; charset=utf-8'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.wasm', 'application/wasm'],
]);

/** Pages get nothing but pdf.js, and reach nobody. */
const POLICY =
  "default-src 'none'; img-src data: blob:; style-src 'unsafe-inline'; font-src data: blob:; " +
  "script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; worker-src 'self' blob:; connect-src 'self'";

/**
 * Shows images and PDF files to the sandbox's own browser (V0 §2.11), on a port of its own that only this machine reaches, without a
 * key and without the internet.
 */
export class FileViewer {
  readonly #options: FileViewerOptions;
  readonly #app: FastifyInstance;
  #address = '';
  /** What stood in the file before: another server's, perhaps. */
  #former = '';

  constructor(options: FileViewerOptions) {
    this.#options = options;
    this.#app = this.#build();
  }

  /** `http://localhost:PORT`, once it listens. */
  get address(): string {
    return this.#address;
  }

  /** @throws when no port is free, or the file with the address cannot be written */
  async start(): Promise<void> {
    await this.#app.listen({ port: 0, host: '127.0.0.1' });
    this.#address = `http://localhost:${(this.#app.server.address() as AddressInfo).port}`;
    this.#former = await readFile(this.#options.addressFile, 'utf8').catch(() => '');
    await replaceText(this.#options.addressFile, this.#address);
  }

  async stop(): Promise<void> {
    const { addressFile } = this.#options;
    const isOurs = this.#address !== '' && (await readFile(addressFile, 'utf8').catch(() => '')) === this.#address;
    if (isOurs && (await answers(this.#former))) await replaceText(addressFile, this.#former).catch(() => {});
    else if (isOurs) await rm(addressFile, { force: true }).catch(() => {});
    await this.#app.close();
  }

  #build(): FastifyInstance {
    const app = Fastify({ logger: false, forceCloseConnections: true });
    const guard = new Guard({ apiKeys: [], allowOrigins: [], isLoopback: true });
    app.addHook('onRequest', (request, _reply, done) => {
      guard.check(request.url, request.headers);
      done();
    });
    app.get('/', (_request, reply) => reply.send({ status: 'File viewer server is running' }));
    app.get('/view', (request, reply) => view(request, reply, this.#options.read));
    app.get('/pdfjs/*', (request, reply) => sendPdfjs(request, reply));
    return app;
  }
}

async function view(
  request: FastifyRequest,
  reply: FastifyReply,
  read: FileViewerOptions['read'],
): Promise<FastifyReply> {
  const { path } = request.query as { readonly path?: unknown };
  if (typeof path !== 'string') return reply.code(422).send({ detail: 'query.path: expected an absolute path.' });
  const { status, html } = await render(path, read);
  void reply.headers({ 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff' });
  return reply.code(status).type('text/html; charset=utf-8').send(html);
}

async function render(path: string, read: FileViewerOptions['read']): Promise<{ status: number; html: string }> {
  if (!path.startsWith('/')) return { status: 400, html: errorPage('Error: Path must be absolute', path) };
  try {
    const bytes = await read(path);
    const extension = extname(path).toLowerCase();
    if (extension === '.pdf') return { status: 200, html: pdfPage(basename(path), bytes) };
    const type = IMAGE_TYPES.get(extension);
    if (type === undefined) throw new Error(`Unsupported file extension: ${extension}`);
    return { status: 200, html: imagePage(basename(path), type, bytes) };
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return { status: 404, html: errorPage('Error: File not found', path) };
    if (codeOf(error) === 'EISDIR') return { status: 400, html: errorPage('Error: Path is a directory', path) };
    return { status: 500, html: errorPage('Error viewing file', path, faultText(error, path)) };
  }
}

async function sendPdfjs(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const root = pdfjsDirectory();
  const { '*': name } = request.params as { readonly '*': string };
  const bytes = root && PDFJS_FILE.test(name) ? await readFile(join(root, name)).catch(() => undefined) : undefined;
  if (!bytes) return reply.code(404).send({ detail: 'Not Found' });
  return reply.type(PDFJS_TYPES.get(extname(name)) ?? 'application/octet-stream').send(bytes);
}

/** By rename, so that a link that somebody put there is replaced and not followed. */
async function replaceText(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  try {
    await writeFile(temporary, text, { flag: 'wx', mode: 0o644 });
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

const FORMER_LIMIT_MS = 300;

/** Whether a viewer is there: the file may be left over from one that was killed. */
async function answers(address: string): Promise<boolean> {
  if (!/^http:\/\/localhost:\d+$/.test(address)) return false;
  try {
    await fetch(address, { signal: AbortSignal.timeout(FORMER_LIMIT_MS) });
    return true;
  } catch {
    return false;
  }
}
