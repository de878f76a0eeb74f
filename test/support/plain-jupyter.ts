import { type ChildProcess, spawn } from 'node:child_process';
import { JUPYTER_PYTHON } from './jupyter.ts';

/**
 * Starts a Jupyter server as people run it, on a port of loopback.
 * @param directory for its files; absolute
 */
export function startPlainJupyter(port: number, token: string, directory: string): ChildProcess {
  const flags = [
    `--port=${port}`,
    '--ip=127.0.0.1',
    '--no-browser',
    '--allow-root',
    `--IdentityProvider.token=${token}`,
  ];
  return spawn(JUPYTER_PYTHON, ['-m', 'jupyter_server', ...flags], {
    cwd: directory,
    env: { ...process.env, JUPYTER_RUNTIME_DIR: directory, JUPYTER_CONFIG_DIR: directory },
    stdio: 'ignore',
  });
}

/** Whether a Jupyter server answers there. */
export async function isJupyterUp(port: number): Promise<boolean> {
  return (await fetch(`http://127.0.0.1:${port}/api`).catch(() => undefined))?.ok === true;
}
