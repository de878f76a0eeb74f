import { execFile } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { INSTALL_HINT } from './texts.ts';

type Env = Readonly<Record<string, string>>;

/** A program by its path, or by its name on the PATH of `env`. */
export function findInterpreter(name: string, env: Env): string | undefined {
  const paths = name.includes('/')
    ? [name]
    : (env['PATH'] ?? '').split(delimiter).map((directory) => join(directory, name));
  return paths.find((path) => isExecutable(path));
}

const HAS_JUPYTER = [
  'import importlib.util, sys',
  "sys.exit(not all(importlib.util.find_spec(name) for name in ('kernel_gateway', 'ipykernel')))",
].join('; ');
const LOOK_LIMIT_MS = 30_000;

/** @returns what is missing for a kernel, in words that say what to do; undefined when an interpreter has all of it */
export async function missingForKernels(interpreters: readonly string[], env: Env): Promise<string | undefined> {
  const found = interpreters.map((name) => findInterpreter(name, env)).filter((path) => path !== undefined);
  for (const interpreter of found) if (await hasJupyter(interpreter, env)) return undefined;
  const where = found.length > 0 ? `${found.join(' and ')} ${found.length > 1 ? 'have' : 'has'} no` : 'There is no';
  return `${where} jupyter_kernel_gateway with ipykernel. ${INSTALL_HINT}`;
}

function hasJupyter(interpreter: string, env: Env): Promise<boolean> {
  return new Promise((resolve) => {
    execFile(interpreter, ['-c', HAS_JUPYTER], { cwd: '/', env: { ...env }, timeout: LOOK_LIMIT_MS }, (error) =>
      resolve(error === null),
    );
  });
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
