import type { ActionResult } from './executor.ts';

/** The answer to an action. */
export interface Reply extends ActionResult {
  readonly action_id: string;
  /** Milliseconds at work. */
  readonly duration_ms: number;
}
