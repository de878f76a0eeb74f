import { join } from 'node:path';
import type { ActionContext, ActionResult, SubsystemHealth } from '../../src/dispatch/executor.ts';
import type { RunIpythonAction } from '../../src/protocol/actions.ts';
import type { SessionInfo } from '../../src/protocol/http.ts';
import { errorObservation } from '../../src/protocol/observations.ts';
import { MAX_TEXT_CODE_POINTS } from './cell-run.ts';
import { ChildGateway, ExternalGateway, type Gateway } from './gateway.ts';
import { KernelPool, type PreparedKernel } from './kernel-pool.ts';
import type { JupyterOptions } from './options.ts';
import { JupyterError, UnknownKernelError, UnreachableError } from './rest.ts';
import { KernelSession } from './session.ts';

/** Everything behind `run_ipython`: the server of kernels, and the sessions. Loaded with the first use. */
export class JupyterService {
  readonly #options: JupyterOptions;
  readonly #pool: KernelPool;
  readonly #sessions = new Map<string, KernelSession>();
  #health: SubsystemHealth = { status: 'starting' };
  #isStopped = false;

  constructor(options: JupyterOptions) {
    this.#options = options;
    this.#pool = new KernelPool({
      gateway: createGateway(options),
      warm: options.warm,
      withSkills: options.withSkills,
      onLog: options.onLog,
    });
  }

  get health(): SubsystemHealth {
    return this.#health;
  }

  /** Starts the kernel of a session before its first cell; a failure shows in `health`. */
  async warmUp(name: string): Promise<void> {
    await this.#session(name, undefined)
      .start()
      .catch(() => undefined);
  }

  async execute(action: RunIpythonAction, context: ActionContext): Promise<ActionResult> {
    const { args } = action;
    const session = this.#sessions.get(args.session);
    if (!session && this.#sessions.size >= this.#options.maxSessions)
      return refusal(
        `There are ${this.#options.maxSessions} kernels already (--max-sessions). End one with DELETE /sessions/{lane}, or use another session.`,
      );
    const running = session?.kernelName;
    if (args.kernel !== undefined && running !== undefined && running !== args.kernel)
      return refusal(
        `The session ${args.session} has the kernel ${running}. Use another args.session for ${args.kernel}, or end this one with DELETE /sessions/${this.#options.laneOf(args.session)}.`,
      );
    try {
      return await this.#session(args.session, args.kernel).execute(action, context);
    } catch (error) {
      if (!session) this.#sessions.delete(args.session);
      if (error instanceof JupyterError) return refusal(error.message);
      throw error;
    }
  }

  sessions(): SessionInfo[] {
    return Array.from(this.#sessions.values(), (session) => session.info());
  }

  session(name: string): KernelSession | undefined {
    return this.#sessions.get(name);
  }

  async closeSession(name: string): Promise<boolean> {
    const session = this.#sessions.get(name);
    if (!session) return false;
    this.#sessions.delete(name);
    await session.stop();
    return true;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    const sessions = [...this.#sessions.values()];
    this.#sessions.clear();
    await Promise.all([this.#pool.stop(), ...sessions.map((session) => session.stop())]);
  }

  #session(name: string, kernelName: string | undefined): KernelSession {
    let session = this.#sessions.get(name);
    if (!session) {
      const { spill, secrets, env, shell, laneOf } = this.#options;
      session = new KernelSession({
        name,
        lane: laneOf(name),
        kernelName,
        spill: { ...spill, memoryBytes: MAX_TEXT_CODE_POINTS },
        secrets,
        shell: () => shell(name),
        baseEnv: env,
        startKernel: (spec) => this.#take(spec, shell(name).cwd),
      });
      this.#sessions.set(name, session);
    }
    return session;
  }

  async #take(spec: string | undefined, directory: string): Promise<PreparedKernel> {
    if (this.#health.status !== 'ready') this.#health = { status: 'starting' };
    try {
      const prepared = await this.#pool.take(spec, directory);
      this.#health = { status: 'ready' };
      return prepared;
    } catch (error) {
      // That one kernel of many does not start says nothing about the server.
      const isOwnFault =
        spec !== undefined &&
        error instanceof JupyterError &&
        !(error instanceof UnreachableError) &&
        this.#health.status === 'ready';
      if (error instanceof UnknownKernelError) this.#health = { status: 'ready' };
      else if (!isOwnFault && !this.#isStopped)
        this.#health = { status: 'failed', reason: error instanceof Error ? error.message : String(error) };
      throw error;
    }
  }
}

function createGateway(options: JupyterOptions): Gateway {
  const { server, account, env, runtimeDir, interpreters, onLog } = options;
  if (server) return new ExternalGateway(server.url, server.token);
  return new ChildGateway({ interpreters, account, env, directory: join(runtimeDir, 'jupyter'), onLog });
}

function refusal(message: string): ActionResult {
  return { observation: errorObservation(message) };
}
