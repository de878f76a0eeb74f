import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ExecuteRequest, isObject, type JsonObject } from './messages.ts';

/** Marks what a kernel says to the daemon, beside the outputs of cells. */
const ENVIRONMENT_MIME = 'application/x-actiond-environment+json';
const STATE_MIME = 'application/x-actiond-state+json';
/** Module of the kernel that holds our functions. */
const MODULE = '_actiond';
const RESULT = 'actiond';

/** Beside the sources, or where the build puts assets: beside the bundle, or above its chunks. */
const PLACES = ['python', 'executors/jupyter/python', '../executors/jupyter/python'];

/** Variables by name; null removes one. */
export type EnvironmentChanges = Readonly<Record<string, string | null>>;

function pythonDirectory(): string {
  const found = PLACES.map((place) => join(import.meta.dirname, place)).find((path) =>
    existsSync(join(path, 'gateway.py')),
  );
  if (found === undefined) throw new Error('the Python part of the Jupyter executor is missing; build again');
  return found;
}

export function gatewaySource(): string {
  return readFileSync(join(pythonDirectory(), 'gateway.py'), 'utf8');
}

/** What prepares a fresh kernel; the answer of {@link stateOf} has `executable`, `pid` and `problem`. */
export function setUpRequest(withSkills: boolean): ExecuteRequest {
  const directory = pythonDirectory();
  const setUp = readFileSync(join(directory, 'kernel_setup.py'), 'utf8');
  const skills = join(directory, 'agent_skills');
  const sources = Object.fromEntries(
    readdirSync(skills)
      .filter((name) => name.endsWith('.py'))
      .map((name) => [name.slice(0, -'.py'.length), readFileSync(join(skills, name), 'utf8')]),
  );
  // One expression, so that no name is left in the user's namespace.
  const load = `(lambda m: (m.__dict__.__setitem__("SOURCES", __import__("json").loads(${literal(JSON.stringify(sources))})), exec(compile(${literal(setUp)}, "<actiond>", "exec"), m.__dict__), __import__("sys").modules.__setitem__("${MODULE}", m)))(__import__("types").ModuleType("${MODULE}"))`;
  return {
    code: load,
    silent: true,
    userExpressions: { [RESULT]: `${call('set_up')}(${withSkills ? 'True' : 'False'})` },
  };
}

/** Takes the kernel to a directory and changes its variables; the state has `cwd` and `problem`. */
export function enterRequest(directory: string | undefined, changes: EnvironmentChanges): ExecuteRequest {
  const where = directory === undefined ? 'None' : literal(directory);
  const variables = `__import__("json").loads(${literal(JSON.stringify(changes))})`;
  return { code: '', silent: true, userExpressions: { [RESULT]: `${call('enter')}(${where}, ${variables})` } };
}

function call(name: string): string {
  return `__import__("sys").modules["${MODULE}"].${name}`;
}

/** A JSON string is a Python string literal too: `JSON.stringify` writes only control characters and lone surrogates as escapes. */
function literal(text: string): string {
  return JSON.stringify(text);
}

/** What our function in the kernel returned, out of an `execute_reply`; undefined when it could not run. */
export function stateOf(reply: JsonObject): JsonObject | undefined {
  const expressions = reply['user_expressions'];
  const result = isObject(expressions) ? expressions[RESULT] : undefined;
  const data = isObject(result) ? result['data'] : undefined;
  const state = isObject(data) ? data[STATE_MIME] : undefined;
  return isObject(state) ? state : undefined;
}

/** Changed variables, when an output is their announcement and nothing for a notebook. */
export function announcedEnvironment(content: JsonObject): EnvironmentChanges | undefined {
  const data = content['data'];
  const changes = isObject(data) ? data[ENVIRONMENT_MIME] : undefined;
  if (!isObject(changes)) return undefined;
  return Object.fromEntries(
    Object.entries(changes).filter(
      (entry): entry is [string, string | null] => entry[1] === null || typeof entry[1] === 'string',
    ),
  );
}
