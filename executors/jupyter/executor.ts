import type { ActionContext, ActionResult, Executor, SubsystemHealth } from '../../src/dispatch/executor.ts';
import type { RunIpythonAction } from '../../src/protocol/actions.ts';
import type { SessionInfo } from '../../src/protocol/http.ts';
import { errorObservation } from '../../src/protocol/observations.ts';
import { missingForKernels } from './interpreter.ts';
import type { JupyterOptions } from './options.ts';
import type { JupyterService } from './service.ts';

const LANE_PREFIX = 'ipython:';
const DEFAULT_SESSION = 'default';
/** Code of one action, in characters: more is no cell but data. */
const MAX_CODE_CHARS = 8 * 1024 * 1024;

/** Serves `run_ipython`: one kernel for each session name, started with its first cell (V0 §6). */
export class JupyterExecutor implements Executor<'run_ipython'> {
  readonly name = 'jupyter';
  readonly isOptional = true;
  readonly actionTypes = ['run_ipython'] as const;
  readonly #options: JupyterOptions;
  #loading: Promise<JupyterService> | undefined;
  #service: JupyterService | undefined;
  /** Until the first cell. */
  #before: SubsystemHealth = { status: 'lazy' };
  #isStopped = false;

  constructor(options: Omit<JupyterOptions, 'laneOf'>) {
    this.#options = { ...options, laneOf: (session) => LANE_PREFIX + session };
  }

  laneOf({ args }: RunIpythonAction): string {
    return LANE_PREFIX + args.session;
  }

  /** Nobody waits for a kernel that may never be needed. */
  async start(): Promise<void> {
    if (!this.#options.isEager) {
      void this.#lookForJupyter();
      return;
    }
    const service = await this.#load();
    void service.warmUp(DEFAULT_SESSION);
  }

  async execute(action: RunIpythonAction, context: ActionContext): Promise<ActionResult> {
    if (this.#isStopped) return { observation: errorObservation('The server is shutting down.') };
    const problem = problemOf(action);
    if (problem !== undefined) return { observation: errorObservation(problem) };
    return (await this.#load()).execute(action, context);
  }

  health(): SubsystemHealth {
    return this.#service?.health ?? this.#before;
  }

  /** Whether a kernel could be started, without starting one. */
  async #lookForJupyter(): Promise<void> {
    const { server, interpreters, env, account } = this.#options;
    const reason = server ? undefined : await missingForKernels(interpreters, env, account);
    if (reason !== undefined) this.#before = { status: 'failed', reason };
  }

  sessions(): SessionInfo[] {
    return this.#service?.sessions() ?? [];
  }

  async closeSession(lane: string): Promise<boolean> {
    return (await this.#service?.closeSession(sessionOf(lane))) ?? false;
  }

  async interruptSession(lane: string): Promise<boolean | undefined> {
    return lane.startsWith(LANE_PREFIX) ? this.#service?.session(sessionOf(lane))?.interrupt() : undefined;
  }

  async restartSession(lane: string): Promise<boolean> {
    const session = lane.startsWith(LANE_PREFIX) ? this.#service?.session(sessionOf(lane)) : undefined;
    await session?.restart();
    return session !== undefined;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    const service = this.#service ?? (await this.#loading);
    await service?.stop();
  }

  #load(): Promise<JupyterService> {
    this.#loading ??= import('./service.ts').then(({ JupyterService: Service }) => {
      this.#service = new Service(this.#options);
      return this.#service;
    });
    return this.#loading;
  }
}

function sessionOf(lane: string): string {
  return lane.startsWith(LANE_PREFIX) ? lane.slice(LANE_PREFIX.length) : '';
}

/** Half of a surrogate pair, which no encoding can carry. */
const LONE_SURROGATE = /\p{Surrogate}/u;

function problemOf({ args }: RunIpythonAction): string | undefined {
  const named: [string, string][] = [['args.code', args.code]];
  for (const [index, cell] of (args.cells ?? []).entries()) named.push([`args.cells[${index}]`, cell]);
  for (const [name, code] of named) {
    if (code.length > MAX_CODE_CHARS)
      return `${name}: ${code.length} characters are more than a cell may have (${MAX_CODE_CHARS}). Write the code to a file and run it with %run, or the data to a file and read it.`;
    const at = code.search(LONE_SURROGATE);
    if (at >= 0)
      return `${name}: there is half of a surrogate pair at index ${at}, which is no character. Write it as an escape, such as "\\\\ud800".`;
  }
  return undefined;
}
