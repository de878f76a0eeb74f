import type { z } from 'zod';
import {
  ActionAcceptedReply,
  ActionParams,
  ActionQuery,
  ActionRecord,
  ActionsQuery,
  ActionsReply,
  AliveReply,
  BrowserQuery,
  BrowserScreenshotQuery,
  BrowserTabsReply,
  DeleteFileQuery,
  DeleteFileReply,
  DirectoryReply,
  DownloadFilesQuery,
  ErrorBody,
  EventsQuery,
  EventsReply,
  EventStreamQuery,
  ExecuteActionReply,
  ExecuteActionRequest,
  FilePathParams,
  HealthReply,
  ListFilesReply,
  ListFilesRequest,
  NotAliveReply,
  PutFileQuery,
  PutFileReply,
  ReadyReply,
  SearchFilesLine,
  SearchFilesRequest,
  SecretsReply,
  SecretsRequest,
  ServerInfoReply,
  SessionClosedReply,
  SessionInterruptedReply,
  SessionRestartedReply,
  SessionParams,
  SessionsReply,
  UploadFileForm,
  UploadFileQuery,
  UploadFileReply,
  VscodeTokenReply,
  WatchEvent,
  WatchFilesQuery,
} from './http.ts';

/** Something to try, by name; shown in the document. */
export interface Example {
  readonly summary: string;
  readonly value: unknown;
}

export interface RequestSpec {
  /** Of the body; none: any bytes. */
  readonly schema?: z.ZodType;
  /** Of a body that is not JSON. */
  readonly mediaType?: string;
  readonly examples?: Readonly<Record<string, Example>>;
}

export interface ReplySpec {
  readonly description: string;
  /** Of the JSON body; none: the body is any JSON object. */
  readonly schema?: z.ZodType;
  /** Of a body that is not JSON; the schema is that of one piece of it, if there is one. */
  readonly mediaType?: string;
  readonly examples?: Readonly<Record<string, Example>>;
}

/** One HTTP operation, as the document describes it. */
export interface Route {
  readonly method: 'get' | 'post' | 'put' | 'delete';
  /** With `{name}` for a parameter, which `params` must have. */
  readonly path: string;
  /** Unique, camelCase. */
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  /** Whether a key is needed when the server has one. */
  readonly isAuthRequired: boolean;
  readonly params?: z.ZodObject;
  readonly query?: z.ZodObject;
  readonly request?: RequestSpec;
  readonly replies: Readonly<Record<number, ReplySpec>>;
}

const FORBIDDEN: ReplySpec = { description: 'Wrong or missing key, or a foreign origin or host.', schema: ErrorBody };
const INVALID: ReplySpec = {
  description: 'The body is not what is expected; `errors` says where (V0 §2.1).',
  schema: ErrorBody,
};
const INVALID_QUERY: ReplySpec = {
  description: 'A parameter is not what is expected; `errors` says which and what is allowed.',
  schema: ErrorBody,
};
const NO_FILE: ReplySpec = { description: 'There is no such file.', schema: ErrorBody };
const FILE_FORBIDDEN: ReplySpec = {
  description: 'The account of the sandbox may not do that, or the path is outside of `--confine`; or as elsewhere.',
  schema: ErrorBody,
};
const CONFLICT: ReplySpec = {
  description: 'There is something else at this path, such as a directory.',
  schema: ErrorBody,
};
const CHANGED: ReplySpec = { description: '`If-Match` or `If-None-Match` says otherwise.', schema: ErrorBody };
const DISK_FULL: ReplySpec = { description: 'The disk is full; nothing was stored.', schema: ErrorBody };
const TRANSFER_FAILED: ReplySpec = {
  description: 'Any failure, as V0 answers it; `detail` says which.',
  schema: ErrorBody,
};
const TOO_LARGE: ReplySpec = { description: 'The body is larger than the server takes.', schema: ErrorBody };
const NO_SESSION: ReplySpec = { description: 'There is no such session.', schema: ErrorBody };
const NO_BROWSER: ReplySpec = { description: 'The browser, or the page in it, does not answer.', schema: ErrorBody };
const INTERNAL: ReplySpec = { description: 'A fault of the server.', schema: ErrorBody };

const RUN_EXAMPLES = {
  run: { summary: 'A command', value: { action: { action: 'run', args: { command: 'echo hi' }, timeout: 30 } } },
  input: {
    summary: 'Input for the program that runs',
    value: { action: { action: 'run', args: { command: 'y', is_input: true } } },
  },
  poll: { summary: 'New output of the program that runs', value: { action: { action: 'run', args: { command: '' } } } },
  session: {
    summary: 'A command in a shell of its own',
    value: { action: { action: 'run', args: { command: 'npm test', session: 'tests', blocking: true }, timeout: 600 } },
  },
} as const satisfies Record<string, Example>;

const RUN_REPLY_EXAMPLES = {
  completed: {
    summary: 'A command that completed',
    value: {
      message: 'Command `echo hi` executed with exit code 0.',
      observation: 'run',
      content: 'hi',
      extras: {
        command: 'echo hi',
        metadata: {
          exit_code: 0,
          pid: -1,
          username: 'root',
          hostname: 'vm',
          working_dir: '/workspace',
          py_interpreter_path: '/usr/bin/python',
          prefix: '',
          suffix: '\n[The command completed with exit code 0.]',
        },
        hidden: false,
      },
      success: true,
      action_id: '0f8b1f5e-4a3c-4f0e-9a53-0d6a3c1c2b11',
      duration_ms: 4.2,
    },
  },
  error: {
    summary: 'An action with a mistake',
    value: {
      message: 'action.args.command: expected a string, got null. Send {"action":"run","args":{"command":"..."}}.',
      observation: 'error',
      content: 'action.args.command: expected a string, got null. Send {"action":"run","args":{"command":"..."}}.',
      extras: { error_id: '' },
    },
  },
} as const satisfies Record<string, Example>;

/** Every HTTP operation; `openapi.yaml` is made from this table. */
export const ROUTES: readonly Route[] = [
  {
    method: 'get',
    path: '/alive',
    operationId: 'getAlive',
    summary: 'Whether actions can be taken',
    isAuthRequired: false,
    replies: {
      200: { description: 'Actions can be taken (V0 §2.2).', schema: AliveReply },
      503: { description: 'Not yet, or no more.', schema: NotAliveReply },
    },
  },
  {
    method: 'get',
    path: '/health',
    operationId: 'getHealth',
    summary: 'Whether the process is up',
    isAuthRequired: false,
    replies: { 200: { description: 'The process is up.', schema: HealthReply } },
  },
  {
    method: 'get',
    path: '/ready',
    operationId: 'getReady',
    summary: 'State of every subsystem',
    isAuthRequired: false,
    replies: {
      200: { description: 'Everything that is needed is ready.', schema: ReadyReply },
      503: { description: 'Something that is needed is not ready.', schema: ReadyReply },
    },
  },
  {
    method: 'get',
    path: '/server_info',
    operationId: 'getServerInfo',
    summary: 'Uptime, idle time, resources, version and what the sandbox has',
    isAuthRequired: false,
    replies: { 200: { description: 'V0 §2.3 and more.', schema: ServerInfoReply } },
  },
  {
    method: 'post',
    path: '/execute_action',
    operationId: 'executeAction',
    summary: 'Carry out one action and answer its observation',
    description:
      'Whatever an agent can do wrong, in the action or by it, is answered with 200 and an observation, mostly an `error`. ' +
      'The action goes on when the client goes away. Actions of one session run in order, others side by side. ' +
      'Arguments that a type does not have are ignored.',
    isAuthRequired: true,
    request: { schema: ExecuteActionRequest, examples: RUN_EXAMPLES },
    replies: {
      200: { description: 'The observation (V0 §4).', schema: ExecuteActionReply, examples: RUN_REPLY_EXAMPLES },
      202: { description: 'With `Prefer: respond-async`; `Location` says where to ask.', schema: ActionAcceptedReply },
      403: FORBIDDEN,
      413: TOO_LARGE,
      422: INVALID,
      429: { description: 'Too many actions run or wait; `Retry-After` says when to try again.', schema: ErrorBody },
      500: INTERNAL,
      503: { description: 'The server is shutting down.', schema: ErrorBody },
    },
  },
  {
    method: 'get',
    path: '/actions',
    operationId: 'listActions',
    summary: 'Actions in flight and those the event log keeps, newest first',
    isAuthRequired: true,
    query: ActionsQuery,
    replies: { 200: { description: 'Without observations.', schema: ActionsReply }, 403: FORBIDDEN, 422: INVALID },
  },
  {
    method: 'get',
    path: '/actions/{id}',
    operationId: 'getAction',
    summary: 'One action, with its observation once it is over',
    isAuthRequired: true,
    params: ActionParams,
    query: ActionQuery,
    replies: {
      200: { description: 'The action.', schema: ActionRecord },
      403: FORBIDDEN,
      404: { description: 'There is no such action.', schema: ErrorBody },
      422: INVALID,
    },
  },
  {
    method: 'post',
    path: '/actions/{id}/cancel',
    operationId: 'cancelAction',
    summary: 'End an action: one that waits is removed, one at work interrupted, then terminated, then killed',
    description:
      'Answers when it is over. The shell of a command survives. An action that was over already is not changed.',
    isAuthRequired: true,
    params: ActionParams,
    replies: {
      200: { description: 'The action as it is now.', schema: ActionRecord },
      403: FORBIDDEN,
      404: { description: 'There is no such action.', schema: ErrorBody },
    },
  },
  {
    method: 'post',
    path: '/secrets',
    operationId: 'registerSecrets',
    summary: 'Mask values from now on in events, logs and observations',
    isAuthRequired: true,
    request: { schema: SecretsRequest },
    replies: { 200: { description: 'How many were taken.', schema: SecretsReply }, 403: FORBIDDEN, 422: INVALID },
  },
  {
    method: 'get',
    path: '/metrics',
    operationId: 'getMetrics',
    summary: 'Metrics in Prometheus text format',
    isAuthRequired: true,
    replies: { 200: { description: 'Text.', mediaType: 'text/plain' }, 403: FORBIDDEN },
  },
  {
    method: 'get',
    path: '/sessions',
    operationId: 'listSessions',
    summary: 'The shells, kernels and browser contexts there are',
    isAuthRequired: true,
    replies: { 200: { description: 'In no particular order.', schema: SessionsReply }, 403: FORBIDDEN },
  },
  {
    method: 'delete',
    path: '/sessions/{lane}',
    operationId: 'closeSession',
    summary: 'End a session and everything started from it',
    description: 'The next action of that name makes a new one.',
    isAuthRequired: true,
    params: SessionParams,
    replies: {
      200: { description: 'It has ended.', schema: SessionClosedReply },
      403: FORBIDDEN,
      404: { description: 'There is no such session.', schema: ErrorBody },
    },
  },
  {
    method: 'get',
    path: '/vscode/connection_token',
    operationId: 'getVscodeToken',
    summary: 'The token of the VS Code server that runs beside this one',
    description:
      'Its address is `http://HOST:VSCODE_PORT/?tkn=TOKEN&folder=DIRECTORY`. Waits up to 8 s for one that starts.',
    isAuthRequired: true,
    replies: { 200: { description: 'With `--plugins vscode`.', schema: VscodeTokenReply }, 403: FORBIDDEN },
  },
  {
    method: 'post',
    path: '/sessions/{lane}/interrupt',
    operationId: 'interruptSession',
    summary: 'Interrupt what a kernel runs',
    description:
      'The cell ends with a KeyboardInterrupt and its action is answered. Shells: cancel the action instead.',
    isAuthRequired: true,
    params: SessionParams,
    replies: {
      200: { description: 'Whether anything ran.', schema: SessionInterruptedReply },
      403: FORBIDDEN,
      404: { description: 'There is no such session, or it is no kernel.', schema: ErrorBody },
    },
  },
  {
    method: 'post',
    path: '/sessions/{lane}/restart',
    operationId: 'restartSession',
    summary: 'Give a session a fresh kernel',
    description:
      'Variables are lost; the directory and the environment are kept. A running cell is answered. Shells: delete the session instead.',
    isAuthRequired: true,
    params: SessionParams,
    replies: {
      200: { description: 'The old kernel has ended.', schema: SessionRestartedReply },
      403: FORBIDDEN,
      404: { description: 'There is no such session, or it is no kernel.', schema: ErrorBody },
    },
  },
  {
    method: 'post',
    path: '/list_files',
    operationId: 'listFiles',
    summary: 'Names in a directory',
    isAuthRequired: true,
    request: {
      schema: ListFilesRequest,
      examples: {
        workspace: { summary: 'The initial working directory', value: {} },
        path: { summary: 'A directory', value: { path: '/tmp' } },
      },
    },
    replies: {
      200: { description: 'Directories first, each with a trailing `/` (V0 §2.7).', schema: ListFilesReply },
      403: FORBIDDEN,
      413: TOO_LARGE,
      422: INVALID,
    },
  },
  {
    method: 'post',
    path: '/upload_file',
    operationId: 'uploadFile',
    summary: 'Store a file, or unpack a zip archive, in a directory',
    description:
      'Of any size. An archive is refused as a whole when an entry would leave the directory, and when it is a bomb ' +
      '(`--max-unzip-bytes`, `--max-unzip-ratio`, `--max-unzip-entries`).',
    isAuthRequired: true,
    query: UploadFileQuery,
    request: { schema: UploadFileForm, mediaType: 'multipart/form-data' },
    replies: {
      200: { description: 'All of it is there (V0 §2.5).', schema: UploadFileReply },
      403: FORBIDDEN,
      422: { description: 'The form, a parameter or the archive is not what is expected.', schema: ErrorBody },
      500: TRANSFER_FAILED,
      507: DISK_FULL,
    },
  },
  {
    method: 'get',
    path: '/download_files',
    operationId: 'downloadFiles',
    summary: 'A directory, or one file, as a zip archive',
    description:
      'Made while it is sent, without compression. Files only; what cannot be read is left out and named in the entry `.download-skipped.txt`.',
    isAuthRequired: true,
    query: DownloadFilesQuery,
    replies: {
      200: { description: 'The archive (V0 §2.6).', mediaType: 'application/zip' },
      403: FORBIDDEN,
      422: INVALID_QUERY,
      500: TRANSFER_FAILED,
    },
  },
  {
    method: 'get',
    path: '/files/{path}',
    operationId: 'getFile',
    summary: 'A file, or the entries of a directory',
    description:
      'A file comes as it is, with `ETag`, `Last-Modified`, one `Range` and the usual conditions; a directory as JSON. `HEAD` works too.',
    isAuthRequired: true,
    params: FilePathParams,
    replies: {
      200: { description: 'Of a directory; a file comes with its own type.', schema: DirectoryReply },
      206: { description: 'A part of a file.', mediaType: '*/*' },
      304: { description: 'The file is still the same.', mediaType: '*/*' },
      403: FILE_FORBIDDEN,
      404: NO_FILE,
      409: { description: 'A pipe, socket or device.', schema: ErrorBody },
      416: { description: 'There is no such range.', schema: ErrorBody },
    },
  },
  {
    method: 'put',
    path: '/files/{path}',
    operationId: 'putFile',
    summary: 'Store the body as a file',
    description:
      'Of any type and size. Readers see the old or the new file, whole. Missing directories are made. `If-Match` and `If-None-Match` guard against lost updates.',
    isAuthRequired: true,
    params: FilePathParams,
    query: PutFileQuery,
    request: { mediaType: '*/*' },
    replies: {
      200: { description: 'The file was replaced.', schema: PutFileReply },
      201: { description: 'The file is new.', schema: PutFileReply },
      403: FILE_FORBIDDEN,
      409: CONFLICT,
      412: CHANGED,
      422: INVALID_QUERY,
      507: DISK_FULL,
    },
  },
  {
    method: 'delete',
    path: '/files/{path}',
    operationId: 'deleteFile',
    summary: 'Remove a file, a link or a directory',
    isAuthRequired: true,
    params: FilePathParams,
    query: DeleteFileQuery,
    replies: {
      200: { description: 'It is gone.', schema: DeleteFileReply },
      403: FILE_FORBIDDEN,
      404: NO_FILE,
      409: { description: 'The directory is not empty, and `recursive` was not asked for.', schema: ErrorBody },
      412: CHANGED,
      422: INVALID_QUERY,
    },
  },
  {
    method: 'post',
    path: '/files/search',
    operationId: 'searchFiles',
    summary: 'Find files by name and content',
    description: 'One JSON object a line, as they are found; the last one is `{"done": true, …}`.',
    isAuthRequired: true,
    request: {
      schema: SearchFilesRequest,
      examples: {
        name: { summary: 'By name', value: { path: '/workspace', glob: ['**/*.py'] } },
        content: { summary: 'By content', value: { path: '/workspace', pattern: 'TODO', glob: ['*.ts'], limit: 100 } },
      },
    },
    replies: {
      200: { description: 'Each line is one of these.', schema: SearchFilesLine, mediaType: 'application/x-ndjson' },
      403: FILE_FORBIDDEN,
      404: NO_FILE,
      409: CONFLICT,
      413: TOO_LARGE,
      422: INVALID,
    },
  },
  {
    method: 'get',
    path: '/files/watch',
    operationId: 'watchFiles',
    summary: 'Changes below a directory, as they happen',
    description:
      'Over a WebSocket, a JSON text frame for each event, or as Server-Sent Events; `ready` comes first. A client that reads too ' +
      'slowly gets `resync` in place of what it missed.',
    isAuthRequired: true,
    query: WatchFilesQuery,
    replies: {
      200: { description: 'The data of each event.', schema: WatchEvent, mediaType: 'text/event-stream' },
      403: FILE_FORBIDDEN,
      404: NO_FILE,
      422: INVALID_QUERY,
    },
  },
  {
    method: 'get',
    path: '/events',
    operationId: 'listEvents',
    summary: 'A page of the event log',
    description:
      'Everything that happened, oldest first. Go on with `after` = `next`: it is the last event that was looked at, so a filter ' +
      'that finds nothing makes progress too. A cursor that retention has overtaken begins with the oldest; for one that is ahead ' +
      'of the log, which then is of another generation (`stream`), the page is empty and `next` is the beginning.',
    isAuthRequired: true,
    query: EventsQuery,
    replies: {
      200: { description: 'At most `limit` events and about 4 MiB.', schema: EventsReply },
      403: FORBIDDEN,
      422: INVALID_QUERY,
      500: INTERNAL,
    },
  },
  {
    method: 'get',
    path: '/events/stream',
    operationId: 'streamEvents',
    summary: 'The event log as it grows: WebSocket or Server-Sent Events',
    description:
      'A WebSocket gets one JSON text frame (at most 256 KiB) for each event; with `Accept: text/event-stream` the same comes as ' +
      'Server-Sent Events (`id` is the seq, `event` the kind, `data` the JSON; `Last-Event-ID` resumes). First comes ' +
      '`{"kind":"hello","stream","oldest","latest"}`; then, with `after`, all events with a higher seq, one ' +
      '`{"kind":"caught_up","seq"}`, and new events as they happen. When the events after the cursor cannot be had: ' +
      '`{"kind":"resync","reason":"generation"|"trimmed"|"ahead","stream","oldest"}`, then all from the oldest. ' +
      'A WebSocket may show its key in its first frame, `{"type":"auth","session_api_key":"..."}`, within 10 s. Close codes: 1001 ' +
      'the server shuts down, 1003 and 1008 something else than JSON text was sent, 1009 it was too large, 1011 the log cannot ' +
      'be read, 1013 too slow or too many (come back later with the last seq), 4001 wrong or missing key.',
    isAuthRequired: true,
    query: EventStreamQuery,
    replies: {
      200: {
        description: 'Server-Sent Events, without end. A WebSocket is answered with 101.',
        mediaType: 'text/event-stream',
      },
      403: FORBIDDEN,
      422: INVALID_QUERY,
      426: { description: 'Neither a WebSocket nor Server-Sent Events were asked for.', schema: ErrorBody },
      503: { description: 'Too many subscribers, or the server is shutting down.', schema: ErrorBody },
    },
  },
  {
    method: 'get',
    path: '/browser/screenshot',
    operationId: 'getBrowserScreenshot',
    summary: 'The active page of a browser session as a picture',
    isAuthRequired: true,
    query: BrowserScreenshotQuery,
    replies: {
      200: { description: 'A PNG.', mediaType: 'image/png' },
      403: FORBIDDEN,
      404: NO_SESSION,
      422: INVALID_QUERY,
      503: NO_BROWSER,
    },
  },
  {
    method: 'get',
    path: '/browser/snapshot',
    operationId: 'getBrowserSnapshot',
    summary: 'The accessibility tree of the active page as agents read it',
    isAuthRequired: true,
    query: BrowserQuery,
    replies: {
      200: { description: 'One line for each node, with its id (V0 §8.4).', mediaType: 'text/plain' },
      403: FORBIDDEN,
      404: NO_SESSION,
      422: INVALID_QUERY,
      503: NO_BROWSER,
    },
  },
  {
    method: 'get',
    path: '/browser/tabs',
    operationId: 'listBrowserTabs',
    summary: 'The tabs of a browser session',
    isAuthRequired: true,
    query: BrowserQuery,
    replies: {
      200: { description: 'In the order they were opened.', schema: BrowserTabsReply },
      403: FORBIDDEN,
      404: NO_SESSION,
      422: INVALID_QUERY,
    },
  },
  {
    method: 'get',
    path: '/browser/cdp/json/version',
    operationId: 'getBrowserCdp',
    summary: "Where to attach to the browser's DevTools protocol, with --expose-cdp",
    description:
      "For any client of it: Playwright's `connectOverCDP('http://HOST:PORT/browser/cdp', { headers })` asks here for the address of " +
      'the WebSocket, which needs the key too. Whoever attaches sees all sessions of the browser.',
    isAuthRequired: true,
    replies: {
      200: { description: 'As the browser says it, with the address of this server.' },
      403: FORBIDDEN,
      503: NO_BROWSER,
    },
  },
  {
    method: 'get',
    path: '/openapi.json',
    operationId: 'getOpenApi',
    summary: 'This document as JSON',
    isAuthRequired: true,
    replies: { 200: { description: 'OpenAPI 3.1.' }, 403: FORBIDDEN },
  },
];
