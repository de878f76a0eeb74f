import { z } from 'zod';
import { describeValue } from '../../src/protocol/problems.ts';
import { ActionFault } from './fault.ts';
import { MAX_NOOP_MS } from './limits.ts';
import { type Literal, type ParsedCall, parseActions } from './parse.ts';

const number = z.number();
const text = z.string();
const texts = z.union([text, z.array(text)]);
const button = z.enum(['left', 'middle', 'right']).default('left');
const modifiers = z.array(z.enum(['Alt', 'Control', 'ControlOrMeta', 'Meta', 'Shift'])).default([]);

/** The functions of the action language with their parameters in order (V0 §8.2). */
const SIGNATURES = {
  noop: z.object({ wait_ms: number.min(0).max(MAX_NOOP_MS).default(1000) }),
  goto: z.object({ url: text }),
  go_back: z.object({}),
  go_forward: z.object({}),
  click: z.object({ bid: text, button, modifiers }),
  dblclick: z.object({ bid: text, button, modifiers }),
  hover: z.object({ bid: text }),
  focus: z.object({ bid: text }),
  clear: z.object({ bid: text }),
  fill: z.object({ bid: text, value: text }),
  press: z.object({ bid: text, key_comb: text }),
  select_option: z.object({ bid: text, options: texts }),
  scroll: z.object({ delta_x: number, delta_y: number }),
  drag_and_drop: z.object({ from_bid: text, to_bid: text }),
  upload_file: z.object({ bid: text, file: texts }),
  new_tab: z.object({}),
  tab_close: z.object({}),
  tab_focus: z.object({ index: z.int() }),
  send_msg_to_user: z.object({ text }),
  report_infeasible: z.object({ reason: text }),
} as const;

type Signatures = typeof SIGNATURES;
export type CallName = keyof Signatures;
export type CallArgs<N extends CallName> = z.infer<Signatures[N]>;
/** One call, checked: nothing in it can be wrong but the page. */
export type Call = { [N in CallName]: { readonly name: N; readonly args: CallArgs<N> } }[CallName];

/**
 * A text of the action language as calls to carry out, in order.
 * @throws ActionFault before anything is carried out: SyntaxError, NameError, TypeError, ValueError
 */
export function readCalls(source: string): Call[] {
  const parsed = parseActions(source, isCallName);
  return parsed.map(checkCall);
}

function isCallName(name: string): name is CallName {
  return Object.hasOwn(SIGNATURES, name);
}

function checkCall(call: ParsedCall): Call {
  const { name } = call;
  if (!isCallName(name))
    throw new ActionFault(
      'NameError',
      `Invalid action type '${name}'. The functions are ${Object.keys(SIGNATURES).join(', ')}.`,
    );
  const args = bind(name, call);
  const result = SIGNATURES[name].safeParse(args);
  if (result.success) return { name, args: result.data } as Call;
  const [issue] = result.error.issues;
  throw wrongArgument(name, String(issue?.path[0] ?? ''), args);
}

/** Positional arguments take the names of the parameters. */
function bind(name: CallName, { positional, named }: ParsedCall): Record<string, Literal> {
  const parameters = Object.keys(SIGNATURES[name].shape);
  if (positional.length > parameters.length)
    throw new ActionFault(
      'TypeError',
      `${synopsis(name)} takes ${parameters.length} arguments, but ${positional.length} were given.`,
    );
  const args: Record<string, Literal> = {};
  parameters.forEach((parameter, index) => {
    const value = positional[index];
    if (value !== undefined) args[parameter] = value;
  });
  for (const [parameter, value] of named) {
    if (!parameters.includes(parameter))
      throw new ActionFault('TypeError', `${synopsis(name)} has no argument '${parameter}'.`);
    if (Object.hasOwn(args, parameter))
      throw new ActionFault('TypeError', `${synopsis(name)} got two values for '${parameter}'.`);
    args[parameter] = value;
  }
  return args;
}

function synopsis(name: CallName): string {
  return `${name}(${Object.keys(SIGNATURES[name].shape).join(', ')})`;
}

function wrongArgument(name: CallName, parameter: string, args: Readonly<Record<string, Literal>>): ActionFault {
  const value = args[parameter];
  if (value === undefined)
    return new ActionFault('TypeError', `${synopsis(name)}: the argument '${parameter}' is missing.`);
  // V0's words for an element id (V0 §8.2).
  if (parameter.endsWith('bid')) return new ActionFault('ValueError', `expected a string, got ${describeValue(value)}`);
  return new ActionFault(
    'TypeError',
    `${synopsis(name)}: ${parameter}: expected ${EXPECTED[parameter] ?? 'a string'}, got ${describeValue(value)}.`,
  );
}

const EXPECTED: Readonly<Record<string, string>> = {
  wait_ms: `milliseconds from 0 to ${MAX_NOOP_MS}`,
  delta_x: 'a number of pixels',
  delta_y: 'a number of pixels',
  index: 'the number of a tab, from 0',
  button: "'left', 'middle' or 'right'",
  modifiers: "a list of 'Alt', 'Control', 'ControlOrMeta', 'Meta' or 'Shift'",
  options: 'a string or a list of strings',
  file: 'a path or a list of paths',
};
