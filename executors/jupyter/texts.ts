import { pythonFloat } from '../../src/protocol/observations.ts';

/** V0 §6.2. */
export const NO_OUTPUT = '[Code executed successfully with no output]';

/** V0 §6.3; the number is written as Python prints a float. */
export function timedOut(seconds: number): string {
  return `[Execution timed out (${pythonFloat(seconds)} seconds).]`;
}

/** V0 §6.4. */
export function extras(cwd: string, interpreter: string): string {
  return `\n[Jupyter current working directory: ${cwd}]\n[Jupyter Python interpreter: ${interpreter}]`;
}

export const CANCELLED = '[The cell was cancelled.]';
export const STOPPED = '[The server is shutting down; the cell was stopped.]';
export const ASKED_INPUT =
  '[The cell asked for input, which nobody can give: it was interrupted. Pass values in the code.]';
export const KERNEL_EXITED =
  '[The cell ended its kernel: all variables are lost. The next cell runs in a new kernel, in the same directory and with the same environment.]';

export const NOT_INTERRUPTED =
  '[The cell did not react to the interrupt, so the kernel was restarted: all variables are lost. The next cell runs in the new kernel.]';

/** @param cause such as `killed by signal 9` */
export function kernelDied(cause: string): string {
  return `[The kernel died (${cause}): all variables are lost. The next cell runs in a new kernel, in the same directory and with the same environment.]`;
}

/** @param cause such as `the Jupyter server does not answer: connect ECONNREFUSED 127.0.0.1:8888` */
export function serverGone(cause: string): string {
  return `[The kernel cannot be reached (${cause}): whether the cell goes on is unknown, and all variables are lost. The next cell asks the server for a new kernel.]`;
}

export function diedBefore(cause: string): string {
  return `[The kernel had died (${cause}) before this cell: all variables are lost, and a new kernel was started.]`;
}

export const OUTPUT_LOST =
  '[While the cell ran the connection to the kernel broke, or brought what cannot be read: some of its output may be missing.]';

export function directoryGone(wanted: string, actual: string): string {
  return `[The shell's directory ${wanted} cannot be entered: the kernel stays in ${actual}.]`;
}

export function cutNote(file: { readonly path: string; readonly bytes: number; readonly isWhole: boolean }): string {
  return `\n[Full output${file.isWhole ? '' : ' (its beginning)'}: ${file.path}, ${file.bytes} bytes]`;
}

export function stoppedCells(failed: number, total: number): string {
  const rest = total - failed;
  const others = rest === 1 ? 'the one after it was' : `the ${rest} after it were`;
  return `[Cell ${failed} of ${total} failed; ${others} not run.]`;
}

export const INSTALL_HINT =
  'Install it with `python3 -m venv .venv && .venv/bin/pip install jupyter_kernel_gateway ipykernel` and pass --jupyter-python .venv/bin/python, or name a server with --jupyter-url. Meanwhile run Python with a `run` action.';
