import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../src/errors.ts';
import { checkConditions, matches, pathInAddress } from './files-path.ts';

export interface ServedFile {
  readonly info: {
    readonly path: string;
    readonly isDirectory: boolean;
    readonly size: number;
    readonly mtime: Date;
    readonly etag: string;
  };
  list(): Promise<object>;
  stream(start: number, end: number): Promise<Readable>;
  close(): Promise<void>;
}

export type FileOpener = (path: string) => Promise<ServedFile>;

interface ByteRange {
  readonly start: number;
  /** Exclusive. */
  readonly end: number;
}

/** `GET` and `HEAD /files/{path}`: a file with ranges and conditions, or the entries of a directory as JSON. */
export function getFileRoute(open: FileOpener) {
  return (app: FastifyInstance): void => {
    for (const url of ['/files', '/files/*'])
      app.route({ method: ['GET', 'HEAD'], url, handler: (request, reply) => getFile(request, reply, open) });
  };
}

async function getFile(request: FastifyRequest, reply: FastifyReply, open: FileOpener): Promise<FastifyReply> {
  const file = await open(pathInAddress(request));
  try {
    if (file.info.isDirectory) return await sendDirectory(request, reply, file);
    return await sendFile(request, reply, file);
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function sendDirectory(request: FastifyRequest, reply: FastifyReply, file: ServedFile): Promise<FastifyReply> {
  const body = request.method === 'HEAD' ? {} : { path: file.info.path, ...(await file.list()) };
  await file.close();
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(body));
}

async function sendFile(request: FastifyRequest, reply: FastifyReply, file: ServedFile): Promise<FastifyReply> {
  const { info } = file;
  void reply.headers({
    etag: info.etag,
    'last-modified': info.mtime.toUTCString(),
    'accept-ranges': 'bytes',
    'cache-control': 'no-cache',
    // Pages from the sandbox are not to act in the name of this server.
    'content-security-policy': 'sandbox',
    'x-content-type-options': 'nosniff',
  });
  checkConditions(request, info, ['if-match', 'if-unmodified-since']);
  if (isUnchanged(request, info)) {
    await file.close();
    return reply.code(304).send();
  }
  const range = wantedRange(request, info);
  if (range) void reply.code(206).header('content-range', `bytes ${range.start}-${range.end - 1}/${info.size}`);
  const { start, end } = range ?? { start: 0, end: info.size };
  void reply.type(typeOf(info.path)).header('content-length', end - start);
  if (request.method === 'HEAD') {
    await file.close();
    return reply.send();
  }
  return reply.send(await file.stream(start, end));
}

function isUnchanged({ headers }: FastifyRequest, info: ServedFile['info']): boolean {
  if (headers['if-none-match'] !== undefined) return matches(headers['if-none-match'], info);
  const since = Date.parse(headers['if-modified-since'] ?? '');
  return Math.floor(info.mtime.getTime() / 1000) * 1000 <= since;
}

/** undefined: the whole file, also for forms of `Range` that may be ignored. @throws AppError RANGE_INVALID */
function wantedRange({ headers }: FastifyRequest, info: ServedFile['info']): ByteRange | undefined {
  const condition = headers['if-range'];
  if (typeof condition === 'string' && condition !== info.etag && condition !== info.mtime.toUTCString())
    return undefined;
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/i.exec(headers.range?.trim() ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  // A range that ends before it begins is none (RFC 9110 §14.1.1).
  if (first !== '' && last !== '' && Number(last) < Number(first)) return undefined;
  const start = first === '' ? Math.max(0, info.size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? info.size : Math.min(Number(last) + 1, info.size);
  if (start < end) return { start, end };
  throw new AppError('RANGE_INVALID', `Range ${headers.range}: the file has ${info.size} bytes.`, {
    headers: { 'content-range': `bytes */${info.size}` },
  });
}

const TYPES: ReadonlyMap<string, string> = new Map([
  ['html', 'text/html; charset=utf-8'],
  ['htm', 'text/html; charset=utf-8'],
  ['css', 'text/css; charset=utf-8'],
  ['js', 'text/javascript; charset=utf-8'],
  ['mjs', 'text/javascript; charset=utf-8'],
  ['json', 'application/json; charset=utf-8'],
  ['pdf', 'application/pdf'],
  ['png', 'image/png'],
  ['jpg', 'image/jpeg'],
  ['jpeg', 'image/jpeg'],
  ['gif', 'image/gif'],
  ['webp', 'image/webp'],
  ['svg', 'image/svg+xml'],
  ['mp4', 'video/mp4'],
  ['webm', 'video/webm'],
  ['mp3', 'audio/mpeg'],
  ['wav', 'audio/wav'],
  ['zip', 'application/zip'],
  ...[
    'txt',
    'md',
    'csv',
    'log',
    'py',
    'ts',
    'sh',
    'yaml',
    'yml',
    'toml',
    'xml',
    'c',
    'h',
    'cpp',
    'go',
    'rs',
    'java',
  ].map((name) => [name, 'text/plain; charset=utf-8'] as const),
]);

function typeOf(path: string): string {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return TYPES.get(name.slice(name.lastIndexOf('.') + 1).toLowerCase()) ?? 'application/octet-stream';
}
