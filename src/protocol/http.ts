import { z } from 'zod';
import { ExecutableAction } from './actions.ts';
import { Observation } from './observations.ts';
import { expectation } from './problems.ts';

/** A subsystem that is `lazy` starts with its first action; one that `failed` does not hold up the others. */
export const SubsystemStatus = z.enum(['off', 'lazy', 'starting', 'ready', 'failed']);

/** Reply of `GET /alive` (V0 §2.2). */
export const AliveReply = z.object({ status: z.literal('ok') });

/** Reply of `GET /alive` while actions cannot be taken: before that and while shutting down. */
export const NotAliveReply = z.object({ status: z.literal('not initialized') });

/** Reply of `GET /vscode/connection_token` (V0 §2.10). */
export const VscodeTokenReply = z.object({
  token: z.string().nullable().describe('null: no VS Code runs; `/ready` says why.'),
});

/** Reply of `GET /health`: the process is up. */
export const HealthReply = z.object({ status: z.literal('ok') });

/** Reply of `GET /ready`. */
export const ReadyReply = z.object({
  status: z
    .enum(['ready', 'starting', 'stopping', 'failed'])
    .describe('`failed`: a subsystem that is needed could not be started; `reasons` has why.'),
  subsystems: z.record(z.string(), SubsystemStatus),
  reasons: z.record(z.string(), z.string()).exactOptional().describe('Why a subsystem is not ready, by name.'),
});

/** What the server process uses (V0 §2.3); sizes in bytes, percentages 0 to 100. */
export const Resources = z.object({
  cpu_percent: z.number().describe('Of one core.'),
  memory: z.object({ rss: z.number(), vms: z.number(), percent: z.number().describe('Of the physical memory.') }),
  disk: z
    .object({ total: z.number(), used: z.number(), free: z.number(), percent: z.number() })
    .describe('The file system of `/`.'),
  io: z.object({ read_bytes: z.number(), write_bytes: z.number() }),
});

/** The box around the server. */
export const SandboxInfo = z.object({
  os: z.string(),
  arch: z.string(),
  tools: z.record(z.string(), z.string().nullable()).describe('Version by name, null: not there.'),
});

/** Reply of `GET /server_info`: V0's fields (V0 §2.3) and ours. */
export const ServerInfoReply = z.object({
  uptime: z.number().describe('Seconds since the start.'),
  idle_time: z.number().describe('Seconds since the last action ended; 0 while one runs or waits.'),
  resources: Resources,
  version: z.string().describe('Of the server.'),
  protocol: z.string().describe('Of this interface.'),
  capabilities: z.array(z.string()).describe('What this server can do, such as action types.'),
  sandbox: SandboxInfo,
  running_actions: z.int().describe('Actions at work now.'),
});

/** Body of `POST /execute_action` (V0 §2.4), as it should be. The server itself looks only at the envelope: see `ActionEnvelope`. */
export const ExecuteActionRequest = z.object({ action: ExecutableAction });

/** All that makes a body a client's fault when it is missing; what is in `action` is the agent's, and answered with 200. */
export const ActionEnvelope = z.object({ action: z.record(z.string(), z.unknown()) });

/** Reply of `POST /execute_action` (V0 §4). */
export const ExecuteActionReply = Observation;

export const CALL_STATUSES = [
  'queued',
  'running',
  'awaiting_approval',
  'finished',
  'cancelled',
  'interrupted',
] as const;

/** Reply of `POST /execute_action` with `Prefer: respond-async`; `Location` says where to ask. */
export const ActionAcceptedReply = z.object({ action_id: z.string(), status: z.enum(CALL_STATUSES) });

/** An action, in flight or over. */
export const ActionRecord = z.object({
  action_id: z.string(),
  action: z.unknown().describe('As it was sent, without secrets; of a hidden one only its type.'),
  status: z.enum(CALL_STATUSES),
  lane: z.string().nullable().describe('Its queue; null: it has none.'),
  created: z.string().describe('ISO 8601, UTC.'),
  started: z.string().nullable().describe('ISO 8601, UTC.'),
  finished: z.string().nullable().describe('ISO 8601, UTC.'),
  observation: z.unknown().optional().describe('Once it is over.'),
});

/** Path of `/actions/{id}`. */
export const ActionParams = z.object({ id: z.string().describe('The `action_id`.') });

/** Query of `GET /actions/{id}`. */
export const ActionQuery = z.object({
  wait: z.int().min(0).max(300).exactOptional().describe('Seconds to wait for the end of the action.'),
});

/** Query of `GET /actions`. */
export const ActionsQuery = z.object({
  status: z.enum(CALL_STATUSES).exactOptional(),
  limit: z.int().min(1).max(500).exactOptional().describe('Default 50.'),
});

/** Reply of `GET /actions`: newest first, without observations. */
export const ActionsReply = z.object({ actions: z.array(ActionRecord) });

/** Body of `POST /secrets`. */
export const SecretsRequest = z.object({
  values: z.array(z.string()).describe('Values of at least 8 characters to mask from now on.'),
});

/** Reply of `POST /secrets`: how many values were taken, and how many were too short or too many. */
export const SecretsReply = z.object({ accepted: z.int(), refused: z.int() });

/** A shell, kernel or browser context. */
export const SessionInfo = z.object({
  name: z.string().describe('`args.session` of its actions.'),
  lane: z.string().describe('Its queue, such as `bash:default`.'),
  kind: z.string().describe('The executor it belongs to.'),
  state: z.enum(['idle', 'running', 'starting']),
  cwd: z.string().nullable(),
  pid: z.int().nullable(),
  created: z.string().describe('ISO 8601, UTC.'),
  last_used: z.string().describe('ISO 8601, UTC.'),
});

/** Reply of `GET /sessions`. */
export const SessionsReply = z.object({ sessions: z.array(SessionInfo) });

/** Path of `DELETE /sessions/{lane}`. */
export const SessionParams = z.object({
  lane: z.string().describe('The `lane` of `GET /sessions`, such as `bash:default`.'),
});

/** Reply of `DELETE /sessions/{lane}`. */
export const SessionClosedReply = z.object({ closed: z.string().describe('The lane.') });

/** Reply of `POST /sessions/{lane}/interrupt`. */
export const SessionInterruptedReply = z.object({ interrupted: z.boolean().describe('False: nothing ran.') });

/** Reply of `POST /sessions/{lane}/restart`. */
export const SessionRestartedReply = z.object({ restarted: z.string().describe('The lane.') });

/** Body of `POST /list_files` (V0 §2.7). */
export const ListFilesRequest = z.object({
  path: z
    .string()
    .nullable()
    .optional()
    .describe(
      'Directory; a relative one counts from the initial working directory, which is also meant by null or nothing.',
    ),
});

/** Reply of `POST /list_files`: directories first, with a trailing `/`; empty for whatever cannot be listed (V0 §2.7). */
export const ListFilesReply = z.array(z.string());

/** The kinds of events (DESIGN §4). */
export const EventKind = z.enum(['action', 'output', 'observation', 'server']);

/** An event as it was recorded, with its payload at the top level. */
export const Event = z.looseObject({
  seq: z.int().min(1).describe('Contiguous from 1 within a generation.'),
  id: z.string(),
  time: z.string().describe('ISO 8601, UTC.'),
  kind: EventKind,
  action_id: z.string().exactOptional().describe('The action that it belongs to; in all but `server` events.'),
  lane: z.string().exactOptional(),
  source: z.string().exactOptional(),
});

const eventCursor = z.int({ error: expectation('an integer >= 0, the seq of an event') }).min(0);
const eventFilter = {
  kind: z
    .array(EventKind)
    .min(1)
    .exactOptional()
    .describe('Only events of these kinds; may be repeated, or a list with commas.'),
  action_id: z
    .string()
    .min(1, { error: expectation('an action id') })
    .exactOptional()
    .describe('Only events of this action.'),
  session_api_key: z.string().exactOptional().describe('The key, for clients that cannot set a header.'),
};

/** Query of `GET /events`. */
export const EventsQuery = z.object({
  after: eventCursor.exactOptional().describe('Events with a higher seq; 0 unless given.'),
  limit: z
    .int({ error: expectation('an integer from 1 to 1000') })
    .min(1)
    .max(1000)
    .exactOptional()
    .describe('Most events in the answer; 100 unless given. There are fewer when they are large.'),
  ...eventFilter,
});

/** Query of `GET /events/stream`. */
export const EventStreamQuery = z.object({
  after: eventCursor
    .exactOptional()
    .describe(
      'Replay events with a higher seq, then go on live; without it only new ones. `Last-Event-ID` counts more.',
    ),
  stream: z
    .string()
    .exactOptional()
    .describe(
      'The generation that `after` belongs to, from `hello` or `GET /events`; when there is another now: `resync`.',
    ),
  ...eventFilter,
});

/** Reply of `GET /events`. */
export const EventsReply = z.object({
  stream: z.string().describe('Generation: another one means that the log began anew, and cursors with it.'),
  oldest: z.int().describe('The oldest seq that is kept; 0: no event yet.'),
  latest: z.int().describe('The newest seq.'),
  events: z.array(Event),
  next: z.int().describe('`after` of the next call. There is nothing more for now when it is `latest`.'),
});

const TRUE_WORDS = new Set(['true', '1', 'on', 'yes', 't', 'y']);
const FALSE_WORDS = new Set(['false', '0', 'off', 'no', 'f', 'n']);
const FLAG_WORDS = 'one of true, false, 1, 0, on, off, yes, no, t, f, y, n';

/** A boolean of a query, in any of the words V0 takes, in any case. */
const queryFlag = z
  .string()
  .toLowerCase()
  .refine((word) => TRUE_WORDS.has(word) || FALSE_WORDS.has(word), { error: expectation(FLAG_WORDS) })
  .transform((word) => TRUE_WORDS.has(word));

/** A path for the system, which ends names at a NUL. */
const path = z
  .string()
  .refine((text) => !text.includes('\0'), { error: expectation('a path without a NUL character') });

const absolutePath = path.refine((text) => text.startsWith('/'), {
  error: expectation('an absolute path, such as /workspace'),
});

/** Query of `POST /upload_file` (V0 §2.5). */
export const UploadFileQuery = z.object({
  destination: path.default('/').describe('Directory, absolute; made with those above it if it is missing.'),
  recursive: queryFlag.default(false).describe(`Unpack the file, a zip archive, in the directory; ${FLAG_WORDS}.`),
});

/** Body of `POST /upload_file`, as multipart/form-data. */
export const UploadFileForm = z.object({
  file: z.file().describe('With a filename, of which the last part counts.'),
});

/** Reply of `POST /upload_file` (V0 §2.5). */
export const UploadFileReply = z.object({
  filename: z.string(),
  destination: z.string(),
  recursive: z.boolean(),
});

/** Query of `GET /download_files` (V0 §2.6). */
export const DownloadFilesQuery = z.object({ path: path.describe('Directory or file, absolute.') });

/** Path of `/files/{path}`. */
export const FilePathParams = z.object({
  path: z.string().describe('Absolute path without its first slash; may have slashes.'),
});

/** An entry of a directory. */
export const DirectoryEntry = z.object({
  name: z.string(),
  type: z.enum(['file', 'directory', 'symbolic link', 'named pipe', 'socket', 'device']),
  size: z.int().describe('Bytes.'),
  mtime: z.string().describe('ISO 8601, UTC.'),
  mode: z.string().describe('Permission bits in octal, such as `0644`.'),
  target: z.string().exactOptional().describe('Where a symbolic link points.'),
});

/** Reply of `GET /files/{path}` for a directory. */
export const DirectoryReply = z.object({
  path: z.string(),
  entries: z.array(DirectoryEntry).describe('By name.'),
  truncated: z.boolean().describe('Whether there are more.'),
});

/** Query of `PUT /files/{path}`. */
export const PutFileQuery = z.object({
  mode: z
    .string()
    .regex(/^0?[0-7]{3}$/, { error: expectation('permission bits in octal, such as 0644') })
    .transform((text) => Number.parseInt(text, 8))
    .exactOptional()
    .describe('Permission bits in octal; without it those of the old file, or of a new one by the umask.'),
});

/** Reply of `PUT /files/{path}`. */
export const PutFileReply = z.object({ path: z.string(), size: z.int().describe('Bytes.'), etag: z.string() });

/** Query of `DELETE /files/{path}`. */
export const DeleteFileQuery = z.object({
  recursive: queryFlag.default(false).describe('Remove a directory with all that is in it.'),
});

/** Reply of `DELETE /files/{path}`. */
export const DeleteFileReply = z.object({ deleted: z.string().describe('The path.') });

/** Body of `POST /files/search`. */
export const SearchFilesRequest = z.object({
  path: absolutePath.describe('Directory, absolute.'),
  glob: z
    .array(
      z
        .string()
        .min(1)
        .max(1000)
        .regex(/^[^\0]*$/, { error: expectation('a glob without a NUL character') }),
    )
    .max(100)
    .default([])
    .describe('Only files that match one of these, such as `**/*.ts`; with a leading `!` none that match.'),
  pattern: z
    .string()
    .min(1)
    .max(10_000)
    .regex(/^[^\0\n]*$/, { error: expectation('text of one line, without a NUL character') })
    .exactOptional()
    .describe('Text to find in files; without it, names are answered.'),
  regex: z.boolean().default(false).describe('Whether `pattern` is a regular expression.'),
  ignore_case: z.boolean().default(false),
  hidden: z.boolean().default(false).describe('Also files whose name begins with a dot, and ignored ones.'),
  limit: z.int().min(1).max(100_000).default(1000).describe('Most results.'),
});

/** One line of the reply of `POST /files/search`. */
export const SearchFilesLine = z.union([
  z.object({
    path: z.string().describe('Absolute.'),
    line: z.int().exactOptional().describe('From 1.'),
    text: z.string().exactOptional().describe('The line, cut at 1000 characters.'),
  }),
  z.object({
    done: z.literal(true),
    truncated: z.boolean().describe('Whether there may be more.'),
    error: z.string().exactOptional(),
  }),
]);

/** Query of `GET /files/watch`. */
export const WatchFilesQuery = z.object({
  path: absolutePath.describe('Directory or file, absolute; with all that is below.'),
  session_api_key: z.string().exactOptional().describe('The key, for clients that cannot set a header.'),
});

/** Data of an event of `GET /files/watch`. */
export const WatchEvent = z.object({
  kind: z.enum(['ready', 'add', 'change', 'unlink', 'addDir', 'unlinkDir', 'resync', 'error']),
  path: z.string().exactOptional(),
  reason: z.string().exactOptional(),
});

const browserSession = z.string().default('default').describe('Name of the browser session.');

/** Query of `GET /browser/snapshot` and `GET /browser/tabs`. */
export const BrowserQuery = z.object({ session: browserSession });

/** Query of `GET /browser/screenshot`. */
export const BrowserScreenshotQuery = z.object({
  session: browserSession,
  full_page: queryFlag.default(false).describe(`The whole page, not only what a person sees of it; ${FLAG_WORDS}.`),
});

/** Reply of `GET /browser/tabs`: in the order they were opened. */
export const BrowserTabsReply = z.object({
  tabs: z.array(z.object({ index: z.int(), url: z.string(), title: z.string(), active: z.boolean() })),
});

/** Every error of HTTP (V0 §2.1). */
export const ErrorBody = z.object({
  detail: z.string().describe('What went wrong, and what to do.'),
  errors: z.string().exactOptional().describe('One line for each problem of the request.'),
});

export type SubsystemStatus = z.infer<typeof SubsystemStatus>;
export type AliveReply = z.infer<typeof AliveReply>;
export type HealthReply = z.infer<typeof HealthReply>;
export type ReadyReply = z.infer<typeof ReadyReply>;
export type Resources = z.infer<typeof Resources>;
export type SandboxInfo = z.infer<typeof SandboxInfo>;
export type ServerInfoReply = z.infer<typeof ServerInfoReply>;
export type ActionEnvelope = z.infer<typeof ActionEnvelope>;
export type ExecuteActionReply = z.infer<typeof ExecuteActionReply>;
export type SessionInfo = z.infer<typeof SessionInfo>;
export type SessionsReply = z.infer<typeof SessionsReply>;
export type SessionParams = z.infer<typeof SessionParams>;
export type ListFilesRequest = z.infer<typeof ListFilesRequest>;
export type ListFilesReply = z.infer<typeof ListFilesReply>;
export type EventsQuery = z.infer<typeof EventsQuery>;
export type EventStreamQuery = z.infer<typeof EventStreamQuery>;
export type UploadFileQuery = z.infer<typeof UploadFileQuery>;
export type UploadFileReply = z.infer<typeof UploadFileReply>;
export type SearchFilesRequest = z.infer<typeof SearchFilesRequest>;
export type SearchFilesLine = z.infer<typeof SearchFilesLine>;
export type WatchEvent = z.infer<typeof WatchEvent>;
export type ErrorBody = z.infer<typeof ErrorBody>;
