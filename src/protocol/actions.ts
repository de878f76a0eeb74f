import { z } from 'zod';
import { hasDeprecated, replaceDeprecated } from './deprecated-args.ts';
import { describeProblems, describeValue, expectation, quote } from './problems.ts';

/**
 * Longest hard timeout in seconds: what a timer of the platform can hold (2^31 - 1 ms, 24.8 days; a longer one would fire
 * at once). More is taken as this.
 */
export const MAX_TIMEOUT_SECONDS = 2_147_483;

/** Session and kernel names: they appear in lanes and paths. */
const NAME = /^[A-Za-z0-9_.-]{1,64}$/;
const NAME_RULE = '1 to 64 letters, digits, "_", "." or "-"';
const NUMERIC = /^\s*[+-]?\d{1,15}\s*$/;

/** A string that is handed to the operating system, which ends strings at a NUL. */
function osString(): z.ZodString {
  return z.string().refine((value) => !value.includes('\0'), { error: nulProblem });
}

function nulProblem({ input }: { readonly input?: unknown }): string {
  return `must not contain a NUL character (there is one at index ${String(input).indexOf('\0')})`;
}

function flag(description: string): z.ZodDefault<z.ZodBoolean> {
  return z.boolean().default(false).describe(description);
}

function text(description: string): z.ZodDefault<z.ZodString> {
  return z.string().default('').describe(description);
}

function line(defaultValue: number, description: string): z.ZodDefault<z.ZodInt> {
  return z.int().default(defaultValue).describe(description);
}

const thought = text("The agent's reasoning; kept, never executed (V0 §3.2).");
const security_risk = z
  .literal([-1, 0, 1, 2])
  .default(-1)
  .describe(
    'Risk as the agent judges it: -1 unknown, 0 low, 1 medium, 2 high. Not used for execution; an invalid one is dropped (V0 §3.1).',
  );
const confirmation_state = z
  .enum(['confirmed', 'rejected', 'awaiting_confirmation'])
  .default('confirmed')
  .describe("State of the client's own confirmation; the server ignores it (V0 §3.2).");
const session = z
  .string()
  .regex(NAME, { error: expectation(NAME_RULE) })
  .default('default')
  .describe('Named session, created on first use: a shell, kernel or browser context of its own. Extension of V0.');
const path = osString().describe(
  'Path of the file; a relative one counts from the working directory of the shell (V0 §7.1).',
);
const return_axtree = flag('Whether to answer the accessibility tree (V0 §4.2).');

/** Arguments of `run` (V0 §3.2). */
export const RunArgs = z.object({
  command: osString().describe(
    'What to type into the shell. Empty: new output of the running program. `C-c`, `C-z`, `C-d`, …: that key (V0 §5.2, §5.6).',
  ),
  is_input: flag('The command is input for the program that runs, not a command of its own (V0 §5.2).'),
  thought,
  blocking: flag('Wait without the limit for silence; only `timeout` ends the wait (V0 §3.1).'),
  is_static: flag('Run in a fresh shell that ends with the command (V0 §5.7).'),
  cwd: osString().nullable().default(null).describe('Working directory; only with `is_static` (V0 §3.2).'),
  hidden: flag('Keep command and output out of logs and events; the answer has `extras.hidden` (V0 §4.1).'),
  confirmation_state,
  security_risk,
  session,
});

/** Arguments of `run_ipython` (V0 §3.2). `code` may be left out (`''`) when there are `cells`, which run in order after it. */
export const RunIpythonArgs = z
  .object({
    code: osString().default('').describe('The cell to run. Required unless `cells` is there (V0 §3.2).'),
    thought,
    include_extra: z
      .boolean()
      .default(true)
      .describe('Add the working directory and interpreter to the answer (V0 §6).'),
    confirmation_state,
    security_risk,
    kernel_init_code: text('Accepted and never used (V0 §3.2).'),
    session,
    kernel: z
      .string()
      .regex(NAME, { error: expectation(NAME_RULE) })
      .optional()
      .describe('Kernel specification, such as `python3`, for a session that is yet to start. Extension of V0.'),
    cells: z
      .array(osString())
      .min(1)
      .optional()
      .describe('Several cells, run in order until one fails. Extension of V0.'),
    stop_on_error: z
      .boolean()
      .default(true)
      .describe('Whether a failed cell of several keeps those after it from running. Extension of V0.'),
  })
  .meta({ anyOf: [{ required: ['code'] }, { required: ['cells'] }] });

/** Arguments of `read` (V0 §3.2). */
export const ReadArgs = z.object({
  path,
  start: line(0, 'First line, from 0; only with `impl_source` `default` (V0 §7.2).'),
  end: line(-1, 'Line after the last one, from 0; -1: to the end (V0 §7.2).'),
  thought,
  security_risk,
  impl_source: z
    .enum(['default', 'oh_aci'])
    .default('default')
    .describe('Plain text, or the numbered view of the editor (V0 §7).'),
  view_range: z
    .array(z.int())
    .nullable()
    .default(null)
    .describe(
      'First and last line, from 1, -1 = the end; only with `oh_aci`. Any other number of elements is answered by the editor (V0 §7.4).',
    ),
});

/** Arguments of `write` (V0 §3.2). */
export const WriteArgs = z.object({
  path,
  content: z.string().describe('What to write; a line end is added (V0 §7.3).'),
  start: line(0, 'First line to replace, from 0 (V0 §7.3).'),
  end: line(-1, 'Line after the last one to replace; -1: to the end (V0 §7.3).'),
  thought,
  security_risk,
});

/** Arguments of `edit` (V0 §3.2). A numeric string in `insert_line` becomes a number; another one is the editor's to answer (V0 §7.4). */
export const EditArgs = z.object({
  path,
  command: text(
    '`view`, `create`, `str_replace`, `insert` or `undo_edit`; anything else is answered by the editor (V0 §7.4).',
  ),
  file_text: z.string().nullable().default(null).describe('Whole content, for `create`.'),
  old_str: z.string().nullable().default(null).describe('Text to replace, for `str_replace`.'),
  new_str: z.string().nullable().default(null).describe('Text to put in, for `str_replace` and `insert`.'),
  insert_line: z
    .union([z.int(), z.string().transform((given) => (NUMERIC.test(given) ? Number(given) : given)), z.null()], {
      error: expectation('an integer or a numeric string'),
    })
    .default(null)
    .describe('Line after which to insert, from 1; 0: at the start (V0 §3.2).'),
  content: text("Used by `llm_based_edit` alone, which is the client's business (V0 §3.2)."),
  start: line(1, 'Used by `llm_based_edit` alone.'),
  end: line(-1, 'Used by `llm_based_edit` alone.'),
  thought,
  security_risk,
  impl_source: z
    .enum(['oh_aci', 'llm_based_edit'])
    .default('oh_aci')
    .describe('The editor; only `oh_aci` is executed (V0 §3.2).'),
});

/** Arguments of `browse` (V0 §3.2). */
export const BrowseArgs = z.object({
  url: osString().describe('Address of the page (V0 §8).'),
  thought,
  security_risk,
  return_axtree,
  session,
});

/** Arguments of `browse_interactive` (V0 §3.2). */
export const BrowseInteractiveArgs = z.object({
  browser_actions: z
    .string()
    .describe(
      "Calls in BrowserGym's action language, such as `goto('http://localhost')`; parsed, never evaluated (V0 §8).",
    ),
  thought,
  browsergym_send_msg_to_user: text('Message to the user; kept (V0 §3.2).'),
  security_risk,
  return_axtree,
  session,
});

/** What is beside `action` and `args` (V0 §3.1). All but `timeout` is kept for the log and never used for execution. */
const ENVELOPE = {
  timeout: z
    .number({ error: expectation('a finite number of seconds >= 0') })
    .min(0, { error: expectation('a finite number of seconds >= 0') })
    .exactOptional()
    .describe(
      'Hard limit in seconds; absent or null: none. The answer comes at the latest then, the program goes on (V0 §3.1, §5.2).',
    ),
  id: z.union([z.number(), z.string()]).exactOptional().describe("The client's number of the action (V0 §3.1)."),
  timestamp: z.string().exactOptional().describe("The client's time, ISO 8601 (V0 §3.1)."),
  source: z.string().exactOptional().describe('`agent`, `user` or `environment` (V0 §3.1).'),
  cause: z
    .union([z.number(), z.string()])
    .exactOptional()
    .describe('Id of the event that led to this action (V0 §3.1).'),
  message: z.string().exactOptional().describe('The action in words (V0 §3.1).'),
};

export const RunAction = z.object({ action: z.literal('run'), args: RunArgs, ...ENVELOPE });
export const RunIpythonAction = z.object({ action: z.literal('run_ipython'), args: RunIpythonArgs, ...ENVELOPE });
export const ReadAction = z.object({ action: z.literal('read'), args: ReadArgs, ...ENVELOPE });
export const WriteAction = z.object({ action: z.literal('write'), args: WriteArgs, ...ENVELOPE });
export const EditAction = z.object({ action: z.literal('edit'), args: EditArgs, ...ENVELOPE });
export const BrowseAction = z.object({ action: z.literal('browse'), args: BrowseArgs, ...ENVELOPE });
export const BrowseInteractiveAction = z.object({
  action: z.literal('browse_interactive'),
  args: BrowseInteractiveArgs,
  ...ENVELOPE,
});

// The rest is answered by V0's client itself and never executed here: known, so that the answer can say so.
const anyObject = z.record(z.string(), z.unknown());
const urls = z.array(z.string()).nullable().default(null);
const eventId = z.int().nullable().default(null);
const nullableText = z.string().nullable().default(null);

export const CallToolMcpAction = z.object({
  action: z.literal('call_tool_mcp'),
  args: z.object({ name: z.string(), arguments: anyObject.default({}), thought, security_risk }),
  ...ENVELOPE,
});
export const NullAction = z.object({ action: z.literal('null'), args: z.object({}), ...ENVELOPE });
export const ThinkAction = z.object({ action: z.literal('think'), args: z.object({ thought }), ...ENVELOPE });
export const FinishAction = z.object({
  action: z.literal('finish'),
  args: z.object({ final_thought: z.string().default(''), outputs: anyObject.default({}), thought }),
  ...ENVELOPE,
});
export const RejectAction = z.object({
  action: z.literal('reject'),
  args: z.object({ outputs: anyObject.default({}), thought }),
  ...ENVELOPE,
});
export const DelegateAction = z.object({
  action: z.literal('delegate'),
  args: z.object({ agent: z.string(), inputs: anyObject, thought }),
  ...ENVELOPE,
});
export const RecallAction = z.object({
  action: z.literal('recall'),
  args: z.object({ recall_type: z.string(), query: z.string().default(''), thought }),
  ...ENVELOPE,
});
export const ChangeAgentStateAction = z.object({
  action: z.literal('change_agent_state'),
  args: z.object({ agent_state: z.string(), thought }),
  ...ENVELOPE,
});
export const MessageAction = z.object({
  action: z.literal('message'),
  args: z.object({
    content: z.string(),
    file_urls: urls,
    image_urls: urls,
    wait_for_response: z.boolean().default(false),
    security_risk,
  }),
  ...ENVELOPE,
});
export const SystemAction = z.object({
  action: z.literal('system'),
  args: z.object({
    content: z.string(),
    tools: z.array(z.unknown()).nullable().default(null),
    openhands_version: nullableText,
    agent_class: nullableText,
  }),
  ...ENVELOPE,
});
export const CondensationAction = z.object({
  action: z.literal('condensation'),
  args: z.object({
    forgotten_event_ids: z.array(z.int()).nullable().default(null),
    forgotten_events_start_id: eventId,
    forgotten_events_end_id: eventId,
    summary: nullableText,
    summary_offset: eventId,
  }),
  ...ENVELOPE,
});
export const CondensationRequestAction = z.object({
  action: z.literal('condensation_request'),
  args: z.object({}),
  ...ENVELOPE,
});
export const TaskTrackingAction = z.object({
  action: z.literal('task_tracking'),
  args: z.object({ command: z.string().default('view'), task_list: z.array(anyObject).default([]), thought }),
  ...ENVELOPE,
});
export const LoopRecoveryAction = z.object({
  action: z.literal('loop_recovery'),
  args: z.object({ option: z.int().default(1) }),
  ...ENVELOPE,
});

/** The types that V0's server executes (V0 §3.2). */
export const ExecutableAction = z.discriminatedUnion('action', [
  RunAction,
  RunIpythonAction,
  ReadAction,
  WriteAction,
  EditAction,
  BrowseAction,
  BrowseInteractiveAction,
]);

/** Every action of V0 §3.2; the executed ones first. */
export const Action = z.discriminatedUnion('action', [
  ...ExecutableAction.options,
  CallToolMcpAction,
  NullAction,
  ThinkAction,
  FinishAction,
  RejectAction,
  DelegateAction,
  RecallAction,
  ChangeAgentStateAction,
  MessageAction,
  SystemAction,
  CondensationAction,
  CondensationRequestAction,
  TaskTrackingAction,
  LoopRecoveryAction,
]);

export type Action = z.infer<typeof Action>;
export type ActionType = Action['action'];
/** From a type string to its action: `ActionMap['run']` is `RunAction`. */
export type ActionMap = { [A in Action as A['action']]: A };

export type RunArgs = z.infer<typeof RunArgs>;
export type RunIpythonArgs = z.infer<typeof RunIpythonArgs>;
export type ReadArgs = z.infer<typeof ReadArgs>;
export type WriteArgs = z.infer<typeof WriteArgs>;
export type EditArgs = z.infer<typeof EditArgs>;
export type BrowseArgs = z.infer<typeof BrowseArgs>;
export type BrowseInteractiveArgs = z.infer<typeof BrowseInteractiveArgs>;
export type RunAction = ActionMap['run'];
export type RunIpythonAction = ActionMap['run_ipython'];
export type ReadAction = ActionMap['read'];
export type WriteAction = ActionMap['write'];
export type EditAction = ActionMap['edit'];
export type BrowseAction = ActionMap['browse'];
export type BrowseInteractiveAction = ActionMap['browse_interactive'];

/** The executed types, as an unknown type's answer lists them. */
export const EXECUTABLE_ACTION_TYPES: readonly ActionType[] = ExecutableAction.options.map(
  (option) => option.shape.action.value,
);

/**
 * What became of an action from the wire.
 *
 * `unknownArgs`: names in `args` that the type does not have; they were dropped. `hidden`: a failed `run` asked to be hidden,
 * so it must be answered with a `run` observation (V0 §4.1). `message`: one line for each problem, made for the agent.
 */
export type ParsedAction =
  | { readonly ok: true; readonly action: Action; readonly unknownArgs: string[] }
  | { readonly ok: false; readonly hidden: boolean; readonly actionType?: string; readonly message: string };

/** The schema of one action type, for `parseAction`. */
export type ActionSchema = (typeof Action.options)[number];
type JsonObject = Readonly<Record<string, unknown>>;

const SCHEMAS: ReadonlyMap<string, ActionSchema> = new Map(
  Action.options.map((schema) => [schema.shape.action.value, schema]),
);
/** Action types that plugins add, by their name. */
export type AddedActions = ReadonlyMap<string, ActionSchema>;
const NONE_ADDED: AddedActions = new Map();

/** Whether V0 has an action of this name (V0 §3.2). */
export function isBuiltinAction(type: string): boolean {
  return SCHEMAS.has(type);
}

/** The schema of an action type that a plugin adds, from the one of its `args`. */
export function addedAction(type: string, args: z.ZodObject): ActionSchema {
  // Outside V0's closed union: only the executor that brought the schema gets such an action.
  return z.object({ action: z.literal(type), args, ...ENVELOPE }) as unknown as ActionSchema;
}

const PARSE_OPTIONS = { error: expectation() };
/** Shortest arguments that are accepted, for the hint in a message. */
const SAMPLE_ARGS: Readonly<Partial<Record<string, JsonObject>>> = {
  run: { command: '...' },
  run_ipython: { code: '...' },
  read: { path: '...' },
  write: { path: '...', content: '...' },
  edit: { path: '...', command: 'str_replace', old_str: '...', new_str: '...' },
  browse: { url: 'http://...' },
  browse_interactive: { browser_actions: "goto('http://...')" },
  call_tool_mcp: { name: '...', arguments: {} },
  delegate: { agent: '...', inputs: {} },
  recall: { recall_type: 'knowledge' },
  change_agent_state: { agent_state: '...' },
  message: { content: '...' },
  system: { content: '...' },
};

/**
 * Reads the `action` of a request: fills in the defaults, takes deprecated spellings (V0 §3.1), drops what it does not know,
 * and takes null in a field that has a default for that default. Never throws; a failure is an answer for the agent.
 * @param added types that plugins serve, beside V0's
 */
export function parseAction(input: unknown, added: AddedActions = NONE_ADDED): ParsedAction {
  if (!isObject(input)) return failure({}, [`action: expected an object, got ${describeValue(input)}`]);
  const type = input['action'];
  const schema = typeof type === 'string' ? (SCHEMAS.get(type) ?? added.get(type)) : undefined;
  if (!schema) return failure(input, [unknownTypeProblem(type, added)]);
  const rawArgs = input['args'] === undefined ? {} : input['args'];
  if (!isObject(rawArgs)) return failure(input, [`action.args: expected an object, got ${describeValue(rawArgs)}`]);
  const { args, unknownArgs } = knownArgs(schema.shape.args.shape, rawArgs);
  const missing = missingCode(input['action'], args, rawArgs);
  const parsed = schema.safeParse(envelopeOf(input, rawArgs, args), PARSE_OPTIONS);
  if (!parsed.success) return failure(input, [...missing, ...describeProblems('action', parsed.error.issues)]);
  return missing.length > 0 ? failure(input, missing) : { ok: true, action: parsed.data, unknownArgs };
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function unknownTypeProblem(type: unknown, added: AddedActions): string {
  const available = [...EXECUTABLE_ACTION_TYPES, ...added.keys()].join(', ');
  if (typeof type === 'string')
    return `action.action: there is no action type ${quote(type)}. Available: ${available}.`;
  return `action.action: expected one of ${available}, got ${describeValue(type)}.`;
}

/** The arguments that the type has. Only names of the shape are copied, so a `__proto__` from the wire stays harmless. */
function knownArgs(
  shape: Readonly<Record<string, z.ZodType>>,
  raw: JsonObject,
): { args: JsonObject; unknownArgs: string[] } {
  const current = hasDeprecated(raw) ? replaceDeprecated(raw) : raw;
  const args: Record<string, unknown> = {};
  const unknownArgs: string[] = [];
  for (const key of Object.keys(current)) {
    const field = Object.hasOwn(shape, key) ? shape[key] : undefined;
    if (!field) unknownArgs.push(key);
    else if (current[key] !== null || !nullMeansDefault(field)) args[key] = current[key];
  }
  return { args, unknownArgs };
}

function nullMeansDefault(field: z.ZodType): boolean {
  return field.safeParse(undefined).success && !field.safeParse(null).success;
}

/** What of the envelope is kept. Fields that execution ignores are dropped when they are malformed, not refused. */
function envelopeOf(input: JsonObject, rawArgs: JsonObject, args: JsonObject): JsonObject {
  const envelope: Record<string, unknown> = { action: input['action'], args };
  const { timeout, id, cause, source, message } = input;
  const timestamp = input['timestamp'] ?? rawArgs['timestamp'];
  if (timeout !== undefined && timeout !== null) envelope['timeout'] = timeoutOf(timeout);
  if (isId(id)) envelope['id'] = id;
  if (typeof timestamp === 'string') envelope['timestamp'] = timestamp;
  if (typeof source === 'string') envelope['source'] = source;
  if (isId(cause)) envelope['cause'] = cause;
  if (typeof message === 'string') envelope['message'] = message;
  return envelope;
}

function timeoutOf(value: unknown): unknown {
  return typeof value === 'number' && Number.isFinite(value) ? Math.min(value, MAX_TIMEOUT_SECONDS) : value;
}

function isId(value: unknown): boolean {
  return typeof value === 'string' || (typeof value === 'number' && Number.isFinite(value));
}

/** The one rule between two fields, which the schema states for readers only: a cell is needed, be it an empty one. */
function missingCode(type: unknown, args: JsonObject, rawArgs: JsonObject): string[] {
  if (type !== 'run_ipython' || args['code'] !== undefined || args['cells'] !== undefined) return [];
  return [`action.args.code: expected a string, got ${describeValue(rawArgs['code'])}`];
}

function failure(input: JsonObject, problems: readonly string[]): ParsedAction {
  const actionType = input['action'];
  const args = input['args'];
  const message = problems.join('\n') + hint(actionType, problems);
  const hidden = actionType === 'run' && isObject(args) && Boolean(args['hidden']);
  return typeof actionType === 'string' ? { ok: false, hidden, actionType, message } : { ok: false, hidden, message };
}

/** An example to follow, where the arguments are at fault. */
function hint(actionType: unknown, problems: readonly string[]): string {
  if (typeof actionType !== 'string' || !problems.some((problem) => problem.startsWith('action.args'))) return '';
  return `. Send ${JSON.stringify({ action: actionType, args: SAMPLE_ARGS[actionType] ?? {} })}.`;
}
