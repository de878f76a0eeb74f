import { createHash } from 'node:crypto';
import type { Action } from '../protocol/actions.ts';
import type { IdempotencyKey } from './call.ts';

/** Longest accepted `Idempotency-Key`, in characters. */
export const MAX_KEY_CHARS = 255;

/**
 * The key under which an action must not run twice: the header's, or for V0's clients, which send an action again when a connection
 * drops (V0 §9.4), its `id` and `timestamp` together with what it asks for.
 */
export function idempotencyOf(action: Action, header: string | undefined): IdempotencyKey | undefined {
  const { id, timestamp } = action;
  if (header !== undefined) return { key: `header:${header}`, hash: hashOf(action) };
  if (id === undefined || timestamp === undefined) return undefined;
  const hash = hashOf(action);
  return { key: `v0:${String(id)}:${timestamp}:${hash}`, hash };
}

function hashOf({ action, args, timeout }: Action): string {
  return createHash('sha256')
    .update(JSON.stringify([action, args, timeout ?? null]))
    .digest('base64url');
}
