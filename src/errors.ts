/** What an error code means on the wire. */
interface ErrorSpec {
  readonly status: number;
  /** Whether the same request can succeed later. */
  readonly retryable: boolean;
  /** The text for the client where the thrower gives none. */
  readonly detail: string;
}

/** All errors that a client can meet; nothing else leaves the server. Statuses and texts of V0 §2.1 where V0 has them. */
export const ERRORS = {
  AUTH_INVALID_KEY: { status: 403, retryable: false, detail: 'Invalid API Key' },
  ORIGIN_FORBIDDEN: { status: 403, retryable: false, detail: 'Requests from this origin are not allowed' },
  HOST_MISSING: { status: 400, retryable: false, detail: 'Every HTTP/1.1 request needs a Host header' },
  HOST_FORBIDDEN: { status: 403, retryable: false, detail: 'This Host header is not allowed' },
  ROUTE_NOT_FOUND: { status: 404, retryable: false, detail: 'Not Found' },
  SESSION_NOT_FOUND: { status: 404, retryable: false, detail: 'There is no such session; GET /sessions lists them' },
  ACTION_NOT_FOUND: { status: 404, retryable: false, detail: 'There is no such action; GET /actions lists them' },
  METHOD_NOT_ALLOWED: { status: 405, retryable: false, detail: 'Method Not Allowed' },
  FILE_FORBIDDEN: { status: 403, retryable: false, detail: 'The file may not be touched' },
  FILE_NOT_FOUND: { status: 404, retryable: false, detail: 'There is no such file' },
  FILE_CONFLICT: { status: 409, retryable: false, detail: 'There is something else at this path' },
  FILE_CHANGED: { status: 412, retryable: false, detail: 'The file is not the one that was expected' },
  BODY_TOO_LARGE: { status: 413, retryable: false, detail: 'The request body is too large' },
  RANGE_INVALID: { status: 416, retryable: false, detail: 'The file has no such range' },
  ARCHIVE_REFUSED: { status: 422, retryable: false, detail: 'The archive cannot be unpacked' },
  BODY_INVALID: { status: 422, retryable: false, detail: 'Invalid request parameters' },
  MEDIA_TYPE: { status: 422, retryable: false, detail: 'Invalid request parameters' },
  UPGRADE_REQUIRED: {
    status: 426,
    retryable: false,
    detail:
      'This is a stream: connect with a WebSocket client, or send Accept: text/event-stream. GET /events answers pages.',
  },
  SESSION_LIMIT: { status: 429, retryable: true, detail: 'Too many sessions; close one with DELETE /sessions/{lane}' },
  TOO_MANY_ACTIONS: {
    status: 429,
    retryable: true,
    detail: 'Too many actions are running or waiting; try again later',
  },
  OVERLOADED: { status: 429, retryable: true, detail: 'The sandbox has no room for another action; try again later' },
  IDEMPOTENCY_KEY_REUSED: {
    status: 422,
    retryable: false,
    detail: 'This Idempotency-Key was used for another action; use a new key for each action',
  },
  /** V0's file endpoints answer every failure so; the text begins with the status that was meant (V0 §2.5, §2.6). */
  TRANSFER_FAILED: { status: 500, retryable: false, detail: 'The transfer failed' },
  BROWSER_NOT_ANSWERING: { status: 503, retryable: true, detail: 'The browser, or the page in it, does not answer' },
  INTERNAL: { status: 500, retryable: false, detail: 'An unexpected error occurred. Please try again later.' },
  TOO_MANY_SUBSCRIBERS: {
    status: 503,
    retryable: true,
    detail: 'There are too many subscribers (--max-subscribers); try again later',
  },
  SHUTTING_DOWN: { status: 503, retryable: true, detail: 'The server is shutting down' },
  DISK_FULL: { status: 507, retryable: false, detail: 'No space is left on the device' },
} as const satisfies Record<string, ErrorSpec>;

export type ErrorCode = keyof typeof ERRORS;

/** An error as the client sees it (V0 §2.1). */
export interface ErrorBody {
  readonly detail: string;
  readonly errors?: string;
}

export interface AppErrorOptions {
  /** What is wrong with the request, one line for each problem; goes to the client. */
  readonly errors?: string;
  /** Headers of the answer. */
  readonly headers?: Readonly<Record<string, string>>;
  /** For the log alone. */
  readonly cause?: unknown;
}

/** The one kind of error that a route answers with. */
export class AppError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryable: boolean;
  readonly errors: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  /** @param detail replaces the code's own text; it goes to the client, so no secrets */
  constructor(code: ErrorCode, detail?: string, { errors, headers, cause }: AppErrorOptions = {}) {
    super(detail ?? ERRORS[code].detail, cause === undefined ? undefined : { cause });
    this.name = 'AppError';
    this.code = code;
    this.status = ERRORS[code].status;
    this.retryable = ERRORS[code].retryable;
    this.errors = errors;
    this.headers = headers ?? {};
  }

  /** @param errors what is wrong with the body, one line for each problem, each with the path of its field */
  static invalidBody(errors: string): AppError {
    return new AppError('BODY_INVALID', undefined, { errors });
  }

  /**
   * Whatever was thrown as an `AppError`: itself; what a library marks as the client's fault (a `statusCode` of 4xx) as
   * `BODY_INVALID` with its message; else `INTERNAL`. The original is the cause.
   */
  static from(thrown: unknown): AppError {
    if (thrown instanceof AppError) return thrown;
    if (isClientFault(thrown))
      return new AppError('BODY_INVALID', undefined, { errors: thrown.message, cause: thrown });
    return new AppError('INTERNAL', undefined, { cause: thrown });
  }

  /** What is sent; neither the cause nor the stack. */
  toBody(): ErrorBody {
    return this.errors === undefined ? { detail: this.message } : { detail: this.message, errors: this.errors };
  }

  /** For whoever serialises the error itself. */
  toJSON(): ErrorBody {
    return this.toBody();
  }
}

function isClientFault(thrown: unknown): thrown is Error {
  if (!(thrown instanceof Error) || !('statusCode' in thrown)) return false;
  const { statusCode } = thrown;
  return typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500;
}
