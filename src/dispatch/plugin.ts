import type { z } from 'zod';
import type { SessionInfo } from '../protocol/http.ts';
import type { ActionContext, SubsystemHealth } from './executor.ts';

/** What the function that a plugin exports as its default is called with. */
export interface PluginHost {
  /** The zod that the server itself uses, to build the schemas with. */
  readonly z: typeof z;
  /** Absolute; where relative paths of the agent begin at first. */
  readonly workingDir: string;
  /** The directory of the default shell after its last command. */
  readonly currentDir: () => string;
  /** The environment of the sandbox's programs, without the server's own keys. */
  readonly env: Readonly<Record<string, string>>;
  readonly log: { info(text: string): void; warn(text: string): void };
}

/** An action as a plugin gets it: `args` are what its schema made of them. */
export interface PluginAction {
  readonly action: string;
  readonly args: Readonly<Record<string, unknown>>;
  /** Hard limit in seconds; absent: none. */
  readonly timeout?: number;
}

/** What a plugin answers: an observation in the shape of V0 §4, of whatever kind it likes. */
export interface PluginResult {
  readonly observation: { readonly observation: string; readonly content: string; readonly extras?: object };
}

/** What a plugin returns. All but `name`, `actions` and `execute` may be left out. */
export interface Plugin {
  /** The subsystem's name in `/ready`, of lower-case letters, digits, `-` and `_`. */
  readonly name: string;
  /** The schema of `args` for each action type it serves. */
  readonly actions: Readonly<Record<string, z.ZodObject>>;
  execute(action: PluginAction, context: ActionContext): Promise<PluginResult>;
  /** FIFO queue of an action, by default one for the whole plugin; undefined: beside any other. */
  laneOf?(action: PluginAction): string | undefined;
  start?(): Promise<void>;
  stop?(): Promise<void>;
  health?(): SubsystemHealth;
  sessions?(): SessionInfo[];
  closeSession?(lane: string): Promise<boolean>;
}
