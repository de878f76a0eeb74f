import { z } from 'zod';
import { ExecutableAction } from './actions.ts';
import { Observation } from './observations.ts';

/** A subsystem that is `lazy` starts with its first action; one that `failed` does not hold up the others. */
export const SubsystemStatus = z.enum(['off', 'lazy', 'starting', 'ready', 'failed']);

/** Reply of `GET /alive` (V0 §2.2). */
export const AliveReply = z.object({ status: z.literal('ok') });

/** Reply of `GET /alive` while actions cannot be taken: before that and while shutting down. */
export const NotAliveReply = z.object({ status: z.literal('not initialized') });

/** Reply of `GET /health`: the process is up. */
export const HealthReply = z.object({ status: z.literal('ok') });

/** Reply of `GET /ready`. */
export const ReadyReply = z.object({
  status: z.enum(['ready', 'starting', 'stopping']),
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

export const CALL_STATUSES = ['queued', 'running', 'awaiting_approval', 'finished', 'cancelled', 'interrupted'] as const;

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
export type ErrorBody = z.infer<typeof ErrorBody>;
