import type { Action, ActionMap, ActionType } from '../protocol/actions.ts';
import type { Observation } from '../protocol/observations.ts';
import type { SessionInfo } from '../protocol/http.ts';

/** What a handler is given beside the action. */
export interface ActionContext {
  readonly actionId: string;
  /** Aborted when the action must end: the server stops, or somebody cancels. `reason` is an `AbortReason`. */
  readonly signal: AbortSignal;
  /** `performance.now()` of the moment the action arrived, for limits that count from there. */
  readonly arrivedAt: number;
  /**
   * Takes secrets out of a text. It is needed before a text is cut, or with `isCut` for what stands before the cut: half a secret would not be
   * found later. All else is masked on its way out.
   */
  readonly mask: (text: string, isCut?: boolean) => string;
  /** Live output, in order; undefined when nobody listens or the action is hidden. */
  readonly emit: ((text: string) => void) | undefined;
}

export type AbortReason = 'shutdown' | 'cancel';

/** A handler's answer; fields beside the observation stand at the top level of the reply. */
export interface ActionResult {
  readonly observation: Observation;
  readonly truncated?: boolean;
  readonly output_file?: string;
  /** Outputs of a notebook's cells, in the form of nbformat 4. */
  readonly outputs?: readonly object[];
  /** What became of each cell of an action that has several. */
  readonly cells?: readonly object[];
  /** What it shows is of a hidden action: it is answered, but kept nowhere. */
  readonly hidden?: true;
  /** It was not begun: its idempotency key may be used again. */
  readonly refused?: true;
}

export type SubsystemStatus = 'off' | 'lazy' | 'starting' | 'ready' | 'failed';

export interface SubsystemHealth {
  readonly status: SubsystemStatus;
  /** Why it is not ready, in words that say what to do. */
  readonly reason?: string;
}

/** One kind of work: a shell, a kernel, files, a browser. */
export interface Executor<K extends ActionType = ActionType> {
  readonly name: string;
  /** The server is ready without it, and goes on when it fails. */
  readonly isOptional?: boolean;
  /** The action types it serves. */
  readonly actionTypes: readonly K[];
  /** The FIFO queue of an action; undefined when it may run beside any other. */
  laneOf(action: ActionMap[K]): string | undefined;
  /** Resolves when actions can be taken; a failure shows in `health`. */
  start(): Promise<void>;
  /** Answers every action; rejects only for a fault of its own. */
  execute(action: ActionMap[K], context: ActionContext): Promise<ActionResult>;
  health(): SubsystemHealth;
  sessions(): SessionInfo[];
  /** @returns false when there is no such session */
  closeSession(lane: string): Promise<boolean>;
  /** Interrupts what a session runs. @returns false when nothing runs in it, undefined when there is no such session */
  interruptSession?(lane: string): Promise<boolean | undefined>;
  /** Gives a session a fresh start under its name. @returns false when there is no such session */
  restartSession?(lane: string): Promise<boolean>;
  /** Ends everything it started. */
  stop(): Promise<void>;
}

/** An executor whose action types are not known to the caller. */
export interface AnyExecutor extends Omit<Executor, 'laneOf' | 'execute'> {
  laneOf(action: Action): string | undefined;
  execute(action: Action, context: ActionContext): Promise<ActionResult>;
}
