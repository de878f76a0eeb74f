import { accessSync, constants, existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'vitest';
import { TestServer } from './server.ts';

const ENVIRONMENT = join(import.meta.dirname, '../../.venv/bin/python');

/** Interpreter of the kernels: `ACTIOND_JUPYTER_PYTHON`, or that of scripts/setup.sh. */
export const JUPYTER_PYTHON = process.env['ACTIOND_JUPYTER_PYTHON'] ?? ENVIRONMENT;

const PACKAGES = join(JUPYTER_PYTHON, '../../lib');

/** For `beforeEach`: tests that need a kernel are skipped, and counted, where there is none. */
export function needsJupyter(context: TestContext): void {
  context.skip(
    !isExecutable(JUPYTER_PYTHON),
    `Jupyter is not installed at ${JUPYTER_PYTHON} (sh scripts/setup.sh --test)`,
  );
}

/** As {@link needsJupyter}, for a Python package besides. */
export function needsPackage(context: TestContext, name: string): void {
  const isThere = ['python3.9', 'python3.10', 'python3.11', 'python3.12', 'python3.13', 'python3.14'].some((version) =>
    existsSync(join(PACKAGES, version, 'site-packages', name)),
  );
  context.skip(!isThere, `${name} is not installed beside ${JUPYTER_PYTHON} (sh scripts/setup.sh --test)`);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export interface CellOptions {
  readonly timeout?: number;
  readonly session?: string;
  readonly include_extra?: boolean;
  readonly kernel?: string;
  readonly cells?: readonly string[];
  readonly stop_on_error?: boolean;
}

export interface CellAnswer {
  readonly observation: string;
  readonly content: string;
  readonly images: readonly string[] | null;
  // oxlint-disable-next-line typescript/no-explicit-any -- the whole answer, for the rare rest
  readonly body: any;
}

/** A `run_ipython` of 60 s, without V0's extra lines unless asked for. */
export function cellOf(code: string, { timeout = 60, ...args }: CellOptions = {}): object {
  return { action: 'run_ipython', args: { code, include_extra: false, ...args }, timeout };
}

export async function runCell(server: TestServer, code: string, options?: CellOptions): Promise<CellAnswer> {
  const { body, observation, content } = await server.action(cellOf(code, options));
  return { observation, content, images: body.extras?.image_urls ?? null, body };
}

/** A server whose kernels come from {@link JUPYTER_PYTHON}. */
export function startJupyterServer(
  flags: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<TestServer> {
  return TestServer.start(['--jupyter-python', JUPYTER_PYTHON, ...flags], env);
}
