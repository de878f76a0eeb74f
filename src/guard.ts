import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { AppError } from './errors.ts';

export interface GuardOptions {
  readonly apiKeys: readonly string[];
  /** Origins of web pages that may call, beside the server's own. */
  readonly allowOrigins: readonly string[];
  /** Whether only this machine can connect: then the name it is called by is checked too. */
  readonly isLoopback: boolean;
}

/** Answered without a key: probes have none, and a page may not read them anyway (V0 §2.1). */
const OPEN_PATHS: ReadonlySet<string> = new Set(['/alive', '/health', '/ready', '/server_info']);
/**
 * Their routes ask for the key with `hasValidKey`: those who cannot set a header (a browser's WebSocket or EventSource) give it
 * in the query or in the first frame.
 */
const SELF_CHECKED_PATHS: ReadonlySet<string> = new Set(['/events', '/events/stream', '/files/watch']);
const SAFE_FETCH_SITES: ReadonlySet<string> = new Set(['same-origin', 'none']);
const LOOPBACK_HOST = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i;

/** Decides before anything else whether a request is served at all; throws what to answer otherwise. */
export class Guard {
  readonly #options: GuardOptions;
  readonly #digests: readonly Buffer[];

  constructor(options: GuardOptions) {
    this.#options = options;
    this.#digests = options.apiKeys.map(digest);
  }

  /** Origins of web pages that may call, beside the server's own; in lower case. */
  get allowOrigins(): readonly string[] {
    return this.#options.allowOrigins;
  }

  check(path: string, headers: IncomingHttpHeaders): void {
    this.checkSource(headers);
    this.checkKey(path, headers);
  }

  /** Whether a program, or a page that may, sends it to this server. */
  checkSource(headers: IncomingHttpHeaders): void {
    this.#checkHost(headers.host);
    this.#checkOrigin(headers);
  }

  checkKey(path: string, headers: IncomingHttpHeaders): void {
    if (OPEN_PATHS.has(path) || SELF_CHECKED_PATHS.has(path)) return;
    if (!this.hasValidKey(headers)) throw new AppError('AUTH_INVALID_KEY');
  }

  /**
   * Whether a key is not needed, or is among these: the headers' (`X-Session-API-Key` or `Authorization: Bearer`) and one that
   * came in another way, where the caller allows that.
   */
  hasValidKey(headers: IncomingHttpHeaders, otherKey?: string): boolean {
    if (this.#digests.length === 0) return true;
    return [...keysIn(headers), otherKey].some((key) => key !== undefined && this.#matches(key));
  }

  /** Whether there is a key in the headers, right or wrong. */
  hasKeyHeader(headers: IncomingHttpHeaders): boolean {
    return keysIn(headers).length > 0;
  }

  /** A name that a page made point here (DNS rebinding) is not one of this machine's. */
  #checkHost(host: string | undefined): void {
    if (!this.#options.isLoopback || host === undefined || LOOPBACK_HOST.test(host)) return;
    throw new AppError('HOST_FORBIDDEN', `Host ${JSON.stringify(host)} is not served: use localhost or 127.0.0.1.`);
  }

  #checkOrigin({ origin, host, 'sec-fetch-site': site }: IncomingHttpHeaders): void {
    if (origin !== undefined) {
      if (isOwn(origin, host) || this.#options.allowOrigins.includes(origin.toLowerCase())) return;
      throw new AppError(
        'ORIGIN_FORBIDDEN',
        `Origin ${JSON.stringify(origin)} may not call this server: allow it with --allow-origin.`,
      );
    }
    if (typeof site === 'string' && !SAFE_FETCH_SITES.has(site)) {
      throw new AppError('ORIGIN_FORBIDDEN', 'Requests made by pages of another site are refused (Sec-Fetch-Site).');
    }
  }

  /** All keys are compared, each in the same time whatever the wrong character. */
  #matches(key: string): boolean {
    const given = digest(key);
    return this.#digests.map((known) => timingSafeEqual(known, given)).includes(true);
  }
}

/** A key beyond ASCII comes as UTF-8, or as Latin-1 from clients that know no better; Node reads every byte as one character. */
function keysIn(headers: IncomingHttpHeaders): string[] {
  const bearer = /^Bearer[ \t]+(.+?)[ \t]*$/i.exec(headers.authorization ?? '')?.[1];
  return [headers['x-session-api-key'], bearer].flatMap((key) =>
    typeof key === 'string' && key !== '' ? [key, Buffer.from(key, 'latin1').toString()] : [],
  );
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

function isOwn(origin: string, host: string | undefined): boolean {
  return (
    host !== undefined &&
    /^https?:\/\//.test(origin) &&
    origin.replace(/^https?:\/\//, '').toLowerCase() === host.toLowerCase()
  );
}

/** Whether an address to listen on is this machine's alone. */
export function isLoopbackAddress(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);
}
