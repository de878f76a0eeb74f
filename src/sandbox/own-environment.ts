import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** Fields of /proc/self/stat behind the program's name, which are the third and on: where the initial environment lies. */
const ENV_START_FIELD = 50 - 3;

/**
 * Takes variables out of this process: out of `env`, and out of the initial environment, which the kernel shows to every process of the
 * same user as /proc/PID/environ as long as this one lives. Copies elsewhere in the memory stay.
 *
 * @param env `process.env`
 * @throws when the kernel does not let a process write to its own memory; `env` is without them then, /proc is not
 */
export function eraseVariables(env: Record<string, string | undefined>, isErased: (name: string) => boolean): void {
  for (const name of Object.keys(env)) if (isErased(name)) delete env[name];
  // One byte is one character, so that places in the text are places in the memory.
  const initial = readFileSync('/proc/self/environ', 'latin1');
  const entries = entriesOf(initial).filter(({ text }) => isErased(text.split('=', 1)[0] ?? ''));
  if (entries.length === 0) return;
  const base = environmentAddress();
  const memory = openSync('/proc/self/mem', 'r+');
  try {
    for (const { at, text } of entries) writeSync(memory, Buffer.alloc(text.length), 0, text.length, base + at);
  } finally {
    closeSync(memory);
  }
  const left = entriesOf(readFileSync('/proc/self/environ', 'latin1'));
  if (left.some(({ text }) => isErased(text.split('=', 1)[0] ?? ''))) throw new Error('the kernel still shows them');
}

function entriesOf(environment: string): { readonly at: number; readonly text: string }[] {
  let at = 0;
  return environment.split('\0').map((text) => {
    const entry = { at, text };
    at += text.length + 1;
    return entry;
  });
}

function environmentAddress(): number {
  const stat = readFileSync('/proc/self/stat', 'latin1');
  const address = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[ENV_START_FIELD]);
  // The kernel says 0 to whom it does not want to tell.
  if (!Number.isSafeInteger(address) || address <= 0) throw new Error('the kernel does not tell where it lies');
  return address;
}
