import { dirname } from 'node:path';
import { pathToFileURL } from 'node:url';

/** A module of JavaScript that runs inside the daemon; any other plugin is a program. */
const MODULE = /\.[cm]?[jt]s$/;

export function isModule(path: string): boolean {
  return MODULE.test(path);
}

/**
 * The module from which an error comes that nobody has caught: of a timer or a promise that it has left behind. What is thrown without a
 * stack is a module's, too: the daemon throws nothing of that kind.
 *
 * @param paths of all plugins, absolute
 * @returns undefined when it is no module's
 */
export function faultyModule(error: unknown, paths: readonly string[]): string | undefined {
  const modules = paths.filter(isModule);
  const stack = error instanceof Error && !isBareRejection(error) ? error.stack : undefined;
  if (stack === undefined) return modules[0];
  return modules.find((path) => placesOf(path).some((place) => stack.includes(place)));
}

/** What Node makes of a promise that was rejected with something else than an error. */
function isBareRejection(error: NodeJS.ErrnoException): boolean {
  return error.code === 'ERR_UNHANDLED_REJECTION';
}

/** As stacks write them: the module itself, and the packages beside it. */
function placesOf(path: string): string[] {
  const files = [path, `${dirname(path)}/node_modules/`];
  return [...files, ...files.map((file) => pathToFileURL(file).href)];
}
