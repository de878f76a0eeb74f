import { createHash } from 'node:crypto';
import type { Action } from '../protocol/actions.ts';
import type { IdempotencyKey } from './call.ts';

/** Longest accepted `Idempotency-Key`, in characters. */
export const MAX_KEY_CHARS = 255;

/**
 * The key under which an action must not run twice: the header's, or for V0's clients, which send an action again when a connection
 * drops (V0 §9.4), its `id` and `timestamp` together with what it asks for. Clients may put a secret into it: only a digest of it is kept.
 */
export function idempotencyOf(action: Action, header: string | undefined): IdempotencyKey | undefined {
  const { id, timestamp } = action;
  if (header !== undefined) return { key: `header:${digest(header)}`, hash: hashOf(action) };
  if (id === undefined || timestamp === undefined) return undefined;
  const hash = hashOf(action);
  return { key: `v0:${digest(JSON.stringify([id, timestamp, hash]))}`, hash };
}

function hashOf({ action, args, timeout }: Action): string {
  return digest(JSON.stringify([action, args, timeout ?? null]));
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
