// The baseline of a shell: bash on node-pty with nothing in between.

import { spawn } from 'node-pty';

/** The daemon's own terminal size, so that neither side wraps more. */
const SIZE = { cols: 1000, rows: 1000 };

/** A bash that runs `echo` and does not echo what is typed. */
export class RawShell {
  #pty = spawn('bash', ['--norc', '--noprofile', '--noediting'], { ...SIZE, env: { ...process.env, PS1: '' } });
  #seen = '';
  #wanted = '';
  #onFound = () => {};

  static async start(context) {
    const shell = new RawShell();
    context.defer(() => shell.#pty.kill('SIGKILL'));
    shell.#pty.onData((text) => shell.#read(text));
    // The quotes tell the output from the echo of the line itself.
    await shell.#request("stty -echo; echo rea''dy", 'ready');
    return shell;
  }

  echo(token) {
    return this.#request(`echo ${token}`, token);
  }

  #request(line, wanted) {
    return new Promise((resolve) => {
      this.#seen = '';
      this.#wanted = `${wanted}\r\n`;
      this.#onFound = resolve;
      this.#pty.write(`${line}\n`);
    });
  }

  #read(text) {
    this.#seen += text;
    if (this.#seen.includes(this.#wanted)) this.#onFound();
  }
}

/** Reads all that a command prints on a terminal, in chunks; resolves with the number of bytes when it has ended. */
export function drainCommand(command, onChunk = () => {}) {
  const pty = spawn('bash', ['-c', command], { ...SIZE, encoding: null });
  let bytes = 0;
  pty.onData((chunk) => {
    bytes += chunk.length;
    onChunk(chunk);
  });
  return new Promise((resolve) => {
    pty.onExit(() => resolve(bytes));
  });
}
