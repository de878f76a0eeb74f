import type { Action } from '../protocol/actions.ts';
import type { AbortReason } from './executor.ts';

export type CallStatus = 'queued' | 'running' | 'finished' | 'cancelled' | 'interrupted';

/** What makes a repeat of an action known as one. */
export interface IdempotencyKey {
  readonly key: string;
  /** Of the whole action: the same key with another one is a mistake of the client. */
  readonly hash: string;
}

/** One action on its way. */
export interface Call {
  readonly id: string;
  readonly action: Action;
  readonly lane: string | undefined;
  readonly isHidden: boolean;
  readonly idempotency: IdempotencyKey | undefined;
  readonly created: Date;
  readonly controller: AbortController;
  status: CallStatus;
  started: Date | undefined;
  finished: Date | undefined;
}

export function isOver({ status }: Call): boolean {
  return status !== 'queued' && status !== 'running';
}

/** Asks a call to end; the first reason counts. */
export function abort(call: Call, reason: AbortReason): void {
  if (!call.controller.signal.aborted) call.controller.abort(reason);
}
