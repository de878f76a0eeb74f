import { readFile } from 'node:fs/promises';
import type { Account } from './account.ts';

/** An account as the kernel sees it when it decides about a file. */
export interface Identity {
  readonly uid: number;
  readonly gid: number;
  /** Of the account and of all groups it is a member of. */
  readonly gids: ReadonlySet<number>;
}

export type Right = 'read' | 'write' | 'search';

const RIGHT_BITS: Readonly<Record<Right, number>> = { read: 4, write: 2, search: 1 };

/** The account with its groups, from /etc/group; a machine without that file has only the primary group. */
export async function identityOf({ name, uid, gid }: Account): Promise<Identity> {
  const table = await readFile('/etc/group', 'utf8').catch(() => '');
  const gids = table
    .split('\n')
    .map((line) => line.split(':'))
    .filter(([, , , members = '']) => members.split(',').includes(name))
    .map(([, , id]) => Number(id));
  return { uid, gid, gids: new Set([gid, ...gids]) };
}

/** Whether the mode bits of a file give a right; access control lists are not looked at. */
export function hasRight(
  { uid, gids }: Identity,
  stats: { readonly uid: number; readonly gid: number; readonly mode: number },
  right: Right,
): boolean {
  if (uid === 0) return true;
  const shift = stats.uid === uid ? 6 : gids.has(stats.gid) ? 3 : 0;
  return ((stats.mode >> shift) & RIGHT_BITS[right]) !== 0;
}
