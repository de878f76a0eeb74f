import type { z } from 'zod';
import {
  AliveReply,
  ErrorBody,
  ExecuteActionReply,
  ExecuteActionRequest,
  HealthReply,
  ListFilesReply,
  ListFilesRequest,
  NotAliveReply,
  ReadyReply,
  ServerInfoReply,
  SessionClosedReply,
  SessionParams,
  SessionsReply,
} from './http.ts';

/** Something to try, by name; shown in the document. */
export interface Example {
  readonly summary: string;
  readonly value: unknown;
}

export interface RequestSpec {
  readonly schema: z.ZodType;
  readonly examples?: Readonly<Record<string, Example>>;
}

export interface ReplySpec {
  readonly description: string;
  /** Of the JSON body; none: the body is any JSON object. */
  readonly schema?: z.ZodType;
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
  readonly request?: RequestSpec;
  readonly replies: Readonly<Record<number, ReplySpec>>;
}

const FORBIDDEN: ReplySpec = { description: 'Wrong or missing key, or a foreign origin or host.', schema: ErrorBody };
const INVALID: ReplySpec = {
  description: 'The body is not what is expected; `errors` says where (V0 §2.1).',
  schema: ErrorBody,
};
const TOO_LARGE: ReplySpec = { description: 'The body is larger than the server takes.', schema: ErrorBody };
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
    method: 'get',
    path: '/openapi.json',
    operationId: 'getOpenApi',
    summary: 'This document as JSON',
    isAuthRequired: true,
    replies: { 200: { description: 'OpenAPI 3.1.' }, 403: FORBIDDEN },
  },
];
