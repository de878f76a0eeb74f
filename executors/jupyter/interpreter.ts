import { execFile } from 'node:child_process';
import { delimiter, join } from 'node:path';
import { isExecutable } from '../../src/util/access.ts';
import { INSTALL_HINT } from './texts.ts';

type Env = Readonly<Record<string, string>>;

/** Whom kernels run as. */
export interface KernelAccount {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

/** Exit codes of a shell that cannot execute a program, or reach it. */
const NOT_EXECUTED: ReadonlySet<number | undefined> = new Set([126, 127]);

/**
 * A command as the account; undefined keeps the server's own. The shell between is what gets the rights of the account alone: setpriv still
 * has root's when it executes a program, which then cannot execute itself.
 */
export function commandAs(account: KernelAccount | undefined, command: readonly string[]): string[] {
  if (!account) return [...command];
  const { uid, gid } = account;
  return [
    'setpriv',
    `--reuid=${uid}`,
    `--regid=${gid}`,
    '--init-groups',
    '--',
    '/bin/sh',
    '-c',
    'exec "$@"',
    'sh',
    ...command,
  ];
}

/** @returns what to do when {@link commandAs} ended with the code because the account may not execute the interpreter */
export function notExecutable(account: KernelAccount | undefined, exitCode: number | undefined): string | undefined {
  if (!account || !NOT_EXECUTED.has(exitCode)) return undefined;
  return `the account ${account.name} cannot execute it: pass --jupyter-python with an interpreter outside of private directories, or give the account access`;
}

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
export async function missingForKernels(
  interpreters: readonly string[],
  env: Env,
  account: KernelAccount | undefined,
): Promise<string | undefined> {
  const found: string[] = [];
  const refused: string[] = [];
  for (const name of interpreters) {
    const interpreter = findInterpreter(name, env);
    if (interpreter === undefined) continue;
    const exitCode = await lookForJupyter(interpreter, env, account);
    if (exitCode === 0) return undefined;
    const refusal = notExecutable(account, exitCode);
    if (refusal === undefined) found.push(interpreter);
    else refused.push(`${interpreter}: ${refusal}.`);
  }
  if (found.length === 0 && refused.length > 0) return `Jupyter cannot be started. ${refused.join(' ')}`;
  const where = found.length > 0 ? `${found.join(' and ')} ${found.length > 1 ? 'have' : 'has'} no` : 'There is no';
  return [`${where} jupyter_kernel_gateway with ipykernel.`, ...refused, INSTALL_HINT].join(' ');
}

/** @returns the exit code; undefined when there is none */
function lookForJupyter(
  interpreter: string,
  env: Env,
  account: KernelAccount | undefined,
): Promise<number | undefined> {
  const [file = '', ...args] = commandAs(account, [interpreter, '-c', HAS_JUPYTER]);
  return new Promise((resolve) => {
    execFile(file, args, { cwd: '/', env: { ...env }, timeout: LOOK_LIMIT_MS }, (error) =>
      resolve(error === null ? 0 : typeof error.code === 'number' ? error.code : undefined),
    );
  });
}
