import { parsePythonLiteral } from './python-literal.ts';

const FILE_EDITOR_PREFIX = 'print(file_editor(**';
const FILE_EDITOR_SUFFIX = '))';
const SECURITY_RISKS: ReadonlySet<unknown> = new Set([-1, 0, 1, 2]);

/** In none of today's types; `timestamp` belongs to the envelope. */
const DEPRECATED = [
  'keep_prompt',
  'task_completed',
  'is_confirmed',
  'images_urls',
  'timestamp',
  'translated_ipython_code',
] as const;

type Args = Readonly<Record<string, unknown>>;

/** Whether there is anything for `replaceDeprecated` to do. */
export function hasDeprecated(args: Args): boolean {
  return DEPRECATED.some((name) => name in args) || ('security_risk' in args && !isSecurityRisk(args['security_risk']));
}

/**
 * A copy of the arguments in today's spelling: what old clients and recorded trajectories send (V0 §3.1).
 */
export function replaceDeprecated(args: Args): Record<string, unknown> {
  const rest: Record<string, unknown> = { ...args };
  const { is_confirmed, images_urls, translated_ipython_code } = args;
  for (const name of DEPRECATED) delete rest[name];
  if (is_confirmed !== undefined) rest['confirmation_state'] ??= confirmationState(is_confirmed);
  if (images_urls !== undefined) rest['image_urls'] ??= images_urls;
  if (translated_ipython_code !== undefined) mergeFileEditorCall(rest, translated_ipython_code);
  if (!isSecurityRisk(rest['security_risk'])) delete rest['security_risk'];
  return rest;
}

function isSecurityRisk(value: unknown): boolean {
  return SECURITY_RISKS.has(value);
}

/** The field once held a boolean. */
function confirmationState(value: unknown): unknown {
  if (typeof value !== 'boolean') return value;
  return value ? 'confirmed' : 'awaiting_confirmation';
}

/** `print(file_editor(**{…}))` was how an old client spelled an edit; its entries win over the arguments beside it. */
function mergeFileEditorCall(args: Record<string, unknown>, code: unknown): void {
  if (typeof code === 'string' && code.startsWith(FILE_EDITOR_PREFIX) && code.endsWith(FILE_EDITOR_SUFFIX)) {
    const call = parsePythonLiteral(code.slice(FILE_EDITOR_PREFIX.length, -FILE_EDITOR_SUFFIX.length));
    if (typeof call === 'object' && call !== null && !Array.isArray(call)) Object.assign(args, call);
  }
  // A view is a `read`, which has no command.
  if (args['command'] === 'view') delete args['command'];
}
