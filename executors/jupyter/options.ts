import type { Secrets } from '../../src/sandbox/secrets.ts';
import type { ShellStates } from '../../src/sandbox/shell-state.ts';
import type { SpillOptions } from '../../src/sandbox/spill.ts';
import type { KernelAccount } from './interpreter.ts';

export interface JupyterOptions {
  /** A server that is there already; undefined starts one of our own. */
  readonly server: { readonly url: string; readonly token: string } | undefined;
  /** Interpreters that may have Jupyter, in order; names are looked up on the PATH of `env`. */
  readonly interpreters: readonly string[];
  /** Account to switch to; undefined keeps the server's own. */
  readonly account: KernelAccount | undefined;
  readonly env: Readonly<Record<string, string>>;
  /** Private directory of the server, for a folder of ours. */
  readonly runtimeDir: string;
  readonly spill: Omit<SpillOptions, 'memoryBytes'>;
  readonly secrets: Secrets;
  readonly shell: ShellStates;
  readonly maxSessions: number;
  /** Kernels kept ready. */
  readonly warm: number;
  /** Whether the kernel is started with the server. */
  readonly isEager: boolean;
  /** Whether agent_skills are in every kernel from the start (V0 §6.5). */
  readonly withSkills: boolean;
  readonly laneOf: (session: string) => string;
  readonly onLog: (text: string) => void;
}
