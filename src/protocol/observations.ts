import { z } from 'zod';

/** Longest `content` of a `run` observation, in Unicode code points (V0 §4.2). */
export const MAX_CONTENT_CODE_POINTS = 30_000;

/** Stands in the middle of a cut text (V0 §4.2). */
export const TRUNCATION_NOTICE = '\n[... Observation truncated due to length ...]\n';

/**
 * What may stand beside V0's fields in an answer. V0's client ignores unknown keys here, and crashes on unknown ones in
 * `extras` (V0 §4.1): extensions go nowhere else.
 */
const EXTENSIONS = {
  id: z.union([z.number(), z.string()]).exactOptional().describe('Number of the observation.'),
  timestamp: z.string().exactOptional().describe('When the observation was made, ISO 8601 in UTC.'),
  cause: z.union([z.number(), z.string()]).exactOptional().describe('`id` of the action, if the client sent one.'),
  action_id: z.string().exactOptional().describe("The server's name of the action."),
  duration_ms: z.number().exactOptional().describe('Time at work in milliseconds, without the time in the queue.'),
  truncated: z.boolean().exactOptional().describe('Whether `content` is only a part of the output.'),
  output_file: z.string().exactOptional().describe('File in the sandbox with all of the output.'),
};

/** State of the shell after a command (V0 §4.2). All defaults while the command is still running. */
export const RunMetadata = z.strictObject({
  exit_code: z.int().default(-1).describe('-1: still running, or unknown.'),
  pid: z.int().default(-1).describe('`$!`, the last background job; -1: none.'),
  username: z.string().nullable().default(null),
  hostname: z.string().nullable().default(null).describe('Short host name.'),
  working_dir: z.string().nullable().default(null),
  py_interpreter_path: z.string().nullable().default(null).describe('First `python` on the PATH; empty: none.'),
  prefix: z.string().default('').describe('What an agent sees before the content (V0 §5.3).'),
  suffix: z.string().default('').describe('What an agent sees after the content (V0 §5.3).'),
});

const url = z.string();
/** `data:image/png;base64,…` */
const image = z.string().nullable();
const anyObject = z.record(z.string(), z.unknown());

export const RunExtras = z.strictObject({ command: z.string(), metadata: RunMetadata, hidden: z.boolean() });
export const RunIpythonExtras = z.strictObject({
  code: z.string(),
  image_urls: z.array(url).nullable().describe('Images that the cell displayed, as data URLs.'),
});
export const ReadExtras = z.strictObject({ path: z.string(), impl_source: z.enum(['default', 'oh_aci']) });
export const WriteExtras = z.strictObject({ path: z.string() });
export const EditExtras = z.strictObject({
  path: z.string(),
  prev_exist: z.boolean().describe('Always false in V0.'),
  old_content: z.string().nullable().describe("The action's `old_str`, not the file's content."),
  new_content: z.string().nullable().describe("The action's `new_str`, not the file's content."),
  impl_source: z.enum(['oh_aci', 'llm_based_edit']),
  diff: z.string().describe('Unified diff (V0 §7.6).'),
  _diff_cache: z.null(),
});
/** One element of the page (V0 §4.2); `bbox` is x, y, width and height in CSS pixels. */
export const ElementProperties = z.strictObject({
  visibility: z.number(),
  bbox: z.array(z.number()).length(4).nullable(),
  clickable: z.boolean(),
  set_of_marks: z.boolean().nullable(),
});
export const BrowseExtras = z.strictObject({
  url: url.describe('Address of the current page.'),
  trigger_by_action: z.enum(['browse', 'browse_interactive']),
  screenshot: image.describe('The viewport as a PNG data URL; empty after an internal error.'),
  screenshot_path: z.string().nullable().describe('The same as a file in the sandbox.'),
  set_of_marks: image.describe('The viewport with marked elements, as a PNG data URL.'),
  error: z.boolean().describe('Whether the action failed.'),
  goal_image_urls: z.array(url),
  open_pages_urls: z.array(url).describe('Addresses of all tabs.'),
  active_page_index: z.int().describe('-1: none.'),
  dom_object: anyObject.describe('Always empty.'),
  axtree_object: anyObject.describe('Empty unless `return_axtree`.'),
  extra_element_properties: z
    .record(z.string(), ElementProperties)
    .describe('By element id; empty unless `return_axtree`.'),
  last_browser_action: z.string(),
  last_browser_action_error: z.string().describe('Empty, or `ExceptionType: message`.'),
  focused_element_bid: z.string().nullable(),
  filter_visible_only: z.boolean().describe('Always false.'),
});
export const DownloadExtras = z.strictObject({ file_path: z.string() });
export const ErrorExtras = z.strictObject({ error_id: z.string() });
/** V0's client makes these itself; here they answer a tool call sent to this server. */
export const McpExtras = z.strictObject({ name: z.string(), arguments: anyObject });

const message = z.string().describe('The observation in words.');
const content = z.string().describe('What the agent gets to see.');
const success = z.boolean().describe('Exit code 0; always true for `run_ipython`.');

export const RunObservation = z.object({
  message,
  observation: z.literal('run'),
  content,
  extras: RunExtras,
  success,
  ...EXTENSIONS,
});
/** One cell of an action with several. All but `status` is absent when it was skipped. */
export const CellReply = z.object({
  status: z.enum(['ok', 'error', 'skipped']).describe('`skipped`: a cell before it failed, or time was up.'),
  content: z.string().exactOptional(),
  image_urls: z.array(url).nullable().exactOptional(),
  duration_ms: z.number().exactOptional(),
  output_file: z.string().exactOptional(),
});
export const RunIpythonObservation = z.object({
  message,
  observation: z.literal('run_ipython'),
  content,
  extras: RunIpythonExtras,
  success,
  outputs: z
    .array(anyObject)
    .exactOptional()
    .describe('The outputs of all cells in the form of nbformat 4, with every MIME type; absent when there are none.'),
  cells: z.array(CellReply).exactOptional().describe('What became of each cell; only for an action with `cells`.'),
  ...EXTENSIONS,
});
export const ReadObservation = z.object({
  message,
  observation: z.literal('read'),
  content,
  extras: ReadExtras,
  ...EXTENSIONS,
});
export const WriteObservation = z.object({
  message,
  observation: z.literal('write'),
  content,
  extras: WriteExtras,
  ...EXTENSIONS,
});
export const EditObservation = z.object({
  message,
  observation: z.literal('edit'),
  content,
  extras: EditExtras,
  ...EXTENSIONS,
});
export const BrowseObservation = z.object({
  message,
  observation: z.literal('browse'),
  content,
  extras: BrowseExtras,
  ...EXTENSIONS,
});
export const DownloadObservation = z.object({
  message,
  observation: z.literal('download'),
  content,
  extras: DownloadExtras,
  ...EXTENSIONS,
});
export const ErrorObservation = z.object({
  message,
  observation: z.literal('error'),
  content,
  extras: ErrorExtras,
  ...EXTENSIONS,
});
export const McpObservation = z.object({
  message,
  observation: z.literal('mcp'),
  content,
  extras: McpExtras,
  ...EXTENSIONS,
});

/** Every answer to an action (V0 §4.2). */
export const Observation = z.discriminatedUnion('observation', [
  RunObservation,
  RunIpythonObservation,
  ReadObservation,
  WriteObservation,
  EditObservation,
  BrowseObservation,
  DownloadObservation,
  ErrorObservation,
  McpObservation,
]);

export type RunMetadata = z.infer<typeof RunMetadata>;
export type ElementProperties = z.infer<typeof ElementProperties>;
export type BrowseExtras = z.infer<typeof BrowseExtras>;
export type Observation = z.infer<typeof Observation>;
/** From a type string to its observation. */
export type ObservationMap = { [O in Observation as O['observation']]: O };
export type RunObservation = ObservationMap['run'];
export type RunIpythonObservation = ObservationMap['run_ipython'];
export type ReadObservation = ObservationMap['read'];
export type WriteObservation = ObservationMap['write'];
export type EditObservation = ObservationMap['edit'];
export type BrowseObservation = ObservationMap['browse'];
export type DownloadObservation = ObservationMap['download'];
export type ErrorObservation = ObservationMap['error'];
export type McpObservation = ObservationMap['mcp'];

/** The metadata of a command that has not completed (V0 §4.2). */
export const DEFAULT_METADATA: Readonly<RunMetadata> = Object.freeze({
  exit_code: -1,
  pid: -1,
  username: null,
  hostname: null,
  working_dir: null,
  py_interpreter_path: null,
  prefix: '',
  suffix: '',
});

/** A `run` observation; `message` and `success` follow from the rest. The content is taken as it is: `truncateContent` is the caller's. */
export function runObservation(run: {
  readonly command: string;
  readonly content: string;
  readonly metadata: Readonly<RunMetadata>;
  readonly hidden: boolean;
}): RunObservation {
  const { command, metadata, hidden } = run;
  return {
    message: `Command \`${command}\` executed with exit code ${metadata.exit_code}.`,
    observation: 'run',
    content: run.content,
    extras: { command, metadata: { ...metadata }, hidden },
    success: metadata.exit_code === 0,
  };
}

/** An answer that says what went wrong, and what to do next. */
export function errorObservation(problem: string): ErrorObservation {
  return { message: problem, observation: 'error', content: problem, extras: { error_id: '' } };
}

/** The answer to an action that was not carried out. A hidden `run` gets its own kind: an `error` would crash V0's client (V0 §4.1). */
export function refusalObservation(problem: string, isHidden: boolean): ErrorObservation | RunObservation {
  if (!isHidden) return errorObservation(problem);
  return runObservation({ command: '', content: `ERROR: ${problem}`, metadata: DEFAULT_METADATA, hidden: true });
}

/** A `run_ipython` observation. `imageUrls`: data URLs, null when the cell displayed none. */
export function ipythonObservation(cell: {
  readonly code: string;
  readonly content: string;
  readonly imageUrls?: readonly string[] | null;
}): RunIpythonObservation {
  return {
    message: 'Code executed in IPython cell.',
    observation: 'run_ipython',
    content: cell.content,
    extras: { code: cell.code, image_urls: cell.imageUrls ? [...cell.imageUrls] : null },
    success: true,
  };
}

/** A `read` observation. */
export function readObservation(file: {
  readonly path: string;
  readonly content: string;
  readonly implSource: 'default' | 'oh_aci';
}): ReadObservation {
  const { path, implSource } = file;
  return {
    message: `I read the file ${path}.`,
    observation: 'read',
    content: file.content,
    extras: { path, impl_source: implSource },
  };
}

/** A `write` observation; its content is empty. */
export function writeObservation(path: string): WriteObservation {
  return { message: `I wrote to the file ${path}.`, observation: 'write', content: '', extras: { path } };
}

/** An `edit` observation, also for a failed edit (content `ERROR:\n…`, V0 §4.2). `oldStr` and `newStr` are the action's. */
export function editObservation(edit: {
  readonly path: string;
  readonly content: string;
  readonly oldStr: string | null;
  readonly newStr: string | null;
  readonly diff: string;
}): EditObservation {
  return {
    message: `I edited the file ${edit.path}.`,
    observation: 'edit',
    content: edit.content,
    extras: {
      path: edit.path,
      prev_exist: false,
      old_content: edit.oldStr,
      new_content: edit.newStr,
      impl_source: 'oh_aci',
      diff: edit.diff,
      _diff_cache: null,
    },
  };
}

/** A `browse` observation, for both browser actions. What `extras` leaves out has V0's default. */
export function browseObservation(
  text: string,
  extras: Pick<BrowseExtras, 'url' | 'trigger_by_action'> & Partial<BrowseExtras>,
): BrowseObservation {
  return {
    message: `Visited ${extras.url}`,
    observation: 'browse',
    content: text,
    extras: {
      screenshot: null,
      screenshot_path: null,
      set_of_marks: null,
      error: false,
      goal_image_urls: [],
      open_pages_urls: [],
      active_page_index: -1,
      dom_object: {},
      axtree_object: {},
      extra_element_properties: {},
      last_browser_action: '',
      last_browser_action_error: '',
      focused_element_bid: null,
      filter_visible_only: false,
      ...extras,
    },
  };
}

/** A `download` observation; the content repeats the message. */
export function downloadObservation(filePath: string): DownloadObservation {
  const words = `Downloaded the file at location: ${filePath}`;
  return { message: words, observation: 'download', content: words, extras: { file_path: filePath } };
}

/** An `mcp` observation: the content is the JSON of the tool's result (V0 §2.9). */
export function mcpObservation(call: {
  readonly name: string;
  readonly arguments: Record<string, unknown>;
  readonly content: string;
}): McpObservation {
  return {
    message: call.content,
    observation: 'mcp',
    content: call.content,
    extras: { name: call.name, arguments: call.arguments },
  };
}

/**
 * Cuts a text of more than 30 000 code points to its first and last 15 000 with a notice between (V0 §4.2).
 * A cut text comes out as it went in, still reported as truncated. Looks at most at 60 000 UTF-16 units, whatever the length.
 */
export function truncateContent(text: string): { text: string; truncated: boolean } {
  if (!hasMoreCodePoints(text, MAX_CONTENT_CODE_POINTS)) return { text, truncated: false };
  const half = MAX_CONTENT_CODE_POINTS / 2;
  return {
    text: text.slice(0, indexAfter(text, half)) + TRUNCATION_NOTICE + text.slice(indexBefore(text, half)),
    truncated: true,
  };
}

function hasMoreCodePoints(text: string, limit: number): boolean {
  if (text.length <= limit) return false;
  return text.length > 2 * limit || indexAfter(text, limit) < text.length;
}

/** Where the first `count` code points end. A lone surrogate counts as one. */
function indexAfter(text: string, count: number): number {
  let index = 0;
  for (let passed = 0; passed < count && index < text.length; passed += 1) index += isPairAt(text, index) ? 2 : 1;
  return index;
}

/** Where the last `count` code points begin. */
function indexBefore(text: string, count: number): number {
  let index = text.length;
  for (let passed = 0; passed < count && index > 0; passed += 1) index -= isPairAt(text, index - 2) ? 2 : 1;
  return index;
}

function isPairAt(text: string, index: number): boolean {
  return (text.charCodeAt(index) & 0xfc00) === 0xd800 && (text.charCodeAt(index + 1) & 0xfc00) === 0xdc00;
}

/** Python's `repr` of a float: `1.0`, `2.5`, `1e+16`, `1e-05`, `inf`, `nan`. */
export function pythonFloat(n: number): string {
  if (Number.isNaN(n)) return 'nan';
  if (!Number.isFinite(n)) return n > 0 ? 'inf' : '-inf';
  if (Object.is(n, -0)) return '-0.0';
  const [digits = '', power = ''] = n.toExponential().split('e');
  const exponent = Number(power);
  if (exponent >= -4 && exponent < 16) return Number.isInteger(n) ? `${n}.0` : String(n);
  const width = String(Math.abs(exponent)).padStart(2, '0');
  return `${digits}e${exponent < 0 ? '-' : '+'}${width}`;
}
