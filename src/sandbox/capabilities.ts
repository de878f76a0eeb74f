import { readFileSync } from 'node:fs';

/** What giving shells to another account takes, with the bit of each. */
const NEEDED: Readonly<Record<string, bigint>> = { CHOWN: 0n, KILL: 5n, SETGID: 6n, SETUID: 7n };

/**
 * Which capabilities root lacks to run programs as somebody else, as in a container that has dropped them.
 *
 * @param status text in the form of `/proc/self/status`
 */
export function missingCapabilities(status = readStatus()): string[] {
  const [, hexadecimal] = /^CapEff:\s*([0-9a-f]+)$/m.exec(status) ?? [];
  if (hexadecimal === undefined) return [];
  const effective = BigInt(`0x${hexadecimal}`);
  return Object.entries(NEEDED).flatMap(([name, bit]) => ((effective >> bit) & 1n ? [] : [name]));
}

function readStatus(): string {
  try {
    return readFileSync('/proc/self/status', 'latin1');
  } catch {
    return '';
  }
}
