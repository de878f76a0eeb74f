import { randomUUID } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { COLUMNS, ROWS } from '../executors/bash/output.ts';
import { BashExecutor, type BashOptions } from '../executors/bash/executor.ts';
import { FileService } from '../executors/files/service.ts';
import { aliveRoute } from '../routes/alive.get.ts';
import { executeActionRoute } from '../routes/execute-action.post.ts';
import { fileRoutes } from '../routes/files-all.ts';
import { healthRoute } from '../routes/health.get.ts';
import { openApiRoute } from '../routes/openapi.get.ts';
import { readyRoute } from '../routes/ready.get.ts';
import { serverInfoRoute } from '../routes/server-info.get.ts';
import { closeSessionRoute } from '../routes/sessions.delete.ts';
import { listSessionsRoute } from '../routes/sessions.get.ts';
import { buildApp } from './app.ts';
import type { Config } from './config.ts';
import { type CallSummary, Dispatcher } from './dispatch/dispatcher.ts';
import type { AnyExecutor } from './dispatch/executor.ts';
import { Guard, isLoopbackAddress } from './guard.ts';
import type { ReadyReply, ServerInfoReply } from './protocol/http.ts';
import { type Account, ownAccount, prepareWorkingDirectory, provideAccount } from './sandbox/account.ts';
import { childEnvironment } from './sandbox/child-env.ts';
import { probeSandbox, type SandboxFacts, systemFacts } from './sandbox/probe.ts';
import { createFileAccess, type FileAccess } from './sandbox/file-access.ts';
import { endProcesses } from './sandbox/processes.ts';
import type { Logger } from './telemetry/logger.ts';
import { ResourceMeter } from './telemetry/resources.ts';
import { PROTOCOL, VERSION } from './version.ts';

/** Time for running actions to be answered, for their processes to go by themselves, and for open connections to be closed. */
const ANSWER_LIMIT_MS = 1500;
const PROCESS_GRACE_MS = 700;
const CONNECTION_LIMIT_MS = 500;

/** When the sandbox's tools are looked for, unless somebody asks earlier. */
const PROBE_DELAY_MS = 5000;

const RUNTIME_PREFIX = 'actiond-';

/** Names every process of this server, wherever it went: one constant entry in the sandbox's environment. */
const MARK_VARIABLE = 'ACTIOND_INSTANCE';

/** One server: everything it consists of, and its life. */
export class Server {
  readonly #config: Config;
  readonly #log: Logger;
  readonly #startedAt = performance.now();
  readonly #mark = `${MARK_VARIABLE}=${randomUUID()}`;
  readonly #meter = new ResourceMeter();
  readonly #unknownArgs = new Map<string, number>();
  readonly #runtimeDir: string;
  readonly #env: Record<string, string>;
  readonly #executors: readonly AnyExecutor[];
  readonly #files: FileService;
  readonly #dispatcher: Dispatcher;
  readonly #app: FastifyInstance;
  #tools: SandboxFacts['tools'] = {};
  #probeTimer: NodeJS.Timeout | undefined;
  #isProbed = false;
  #phase: 'starting' | 'ready' | 'stopping' = 'starting';

  private constructor(config: Config, log: Logger, account: Account, access: FileAccess) {
    this.#config = config;
    this.#log = log;
    this.#runtimeDir = makeRuntimeDir();
    const [markName = '', markValue = ''] = this.#mark.split('=');
    this.#env = {
      ...childEnvironment(config.childEnv, account, account.uid !== process.getuid?.()),
      [markName]: markValue,
    };
    const bash = new BashExecutor(bashOptions(config, account, this.#env, this.#runtimeDir));
    this.#files = new FileService({
      ...config.limits,
      access,
      workingDir: config.workingDir,
      currentDir: () => bash.cwd,
    });
    this.#executors = [bash, this.#files.executor];
    this.#dispatcher = new Dispatcher({
      executors: this.#executors,
      maxInFlight: config.limits.maxActionsInFlight,
      unavailable: unavailableText,
      onSummary: (summary) => logSummary(log, summary),
    });
    this.#app = this.#buildApp();
  }

  /**
   * Listens, then starts what actions need; `/alive` answers 503 until then. Rejects when the address is taken or the account cannot
   * be made, and leaves nothing behind.
   */
  static async start(config: Config, log: Logger): Promise<Server> {
    const warn = (text: string): void => log.warn(text);
    const { username, userId } = config;
    const isSwitching = username !== undefined && config.v0.suToUser;
    const account = isSwitching ? await provideAccount({ username, userId }, warn) : ownAccount();
    mkdirSync(config.workingDir, { recursive: true });
    const isSwitched = account.uid !== process.getuid?.();
    if (isSwitched) await prepareWorkingDirectory(config.workingDir, account, config.v0.sandboxGroup, warn);
    const access = await createFileAccess(isSwitched ? account : undefined, config.confine);
    const server = new Server(config, log, account, access);
    try {
      await server.#app.listen({ port: config.port, host: config.host });
    } catch (error) {
      rmSync(server.#runtimeDir, { recursive: true, force: true });
      throw error;
    }
    await server.#startExecutors();
    return server;
  }

  /** The port it listens on. */
  get port(): number {
    return (this.#app.server.address() as AddressInfo).port;
  }

  /** Ends running actions with an answer, then connections, then every process. Resolves within five seconds. */
  async stop(): Promise<void> {
    if (this.#phase === 'stopping') return;
    this.#phase = 'stopping';
    clearTimeout(this.#probeTimer);
    await this.#dispatcher.stop(ANSWER_LIMIT_MS);
    const closed = this.#app.close();
    const cut = setTimeout(() => this.#app.server.closeAllConnections(), CONNECTION_LIMIT_MS);
    await Promise.all(this.#executors.map((executor) => executor.stop()));
    const left = await endProcesses({ mark: this.#mark }, PROCESS_GRACE_MS);
    if (left > 0) this.#log.warn({ processes: left }, 'some processes could not be ended');
    await closed;
    clearTimeout(cut);
    rmSync(this.#runtimeDir, { recursive: true, force: true });
  }

  #buildApp(): FastifyInstance {
    const { limits, apiKeys, allowOrigins, host } = this.#config;
    return buildApp({
      ...limits,
      guard: new Guard({ apiKeys, allowOrigins, isLoopback: isLoopbackAddress(host) }),
      log: this.#log,
      plugins: [
        aliveRoute(() => this.#phase === 'ready'),
        healthRoute,
        readyRoute(() => this.#readiness()),
        serverInfoRoute(() => this.#describe()),
        executeActionRoute(this.#dispatcher, (type, names) => this.#countUnknown(type, names)),
        listSessionsRoute(() => this.#executors.flatMap((executor) => executor.sessions())),
        closeSessionRoute((lane) => this.#closeSession(lane)),
        ...fileRoutes(this.#files),
        openApiRoute(loadOpenApi),
      ],
    });
  }

  async #startExecutors(): Promise<void> {
    await Promise.all(this.#executors.map((executor) => executor.start()));
    for (const executor of this.#executors) {
      const { status, reason } = executor.health();
      if (status === 'failed') this.#log.error({ subsystem: executor.name, reason }, 'subsystem failed to start');
    }
    if (this.#phase === 'starting') this.#phase = 'ready';
    this.#probeTimer = setTimeout(() => this.#probe(), PROBE_DELAY_MS).unref();
  }

  /** Once, and not while a start or the first actions want the machine. */
  #probe(): void {
    if (this.#isProbed || this.#phase !== 'ready') return;
    this.#isProbed = true;
    void probeSandbox(this.#env).then(({ tools }) => (this.#tools = tools));
  }

  #readiness(): ReadyReply {
    const states = this.#executors.map((executor) => [executor.name, executor.health()] as const);
    const isReady = this.#phase === 'ready' && states.every(([, { status }]) => status !== 'failed');
    const reasons = states.flatMap(([name, { reason }]) => (reason === undefined ? [] : [[name, reason]]));
    return {
      status: isReady ? 'ready' : this.#phase === 'stopping' ? 'stopping' : 'starting',
      subsystems: {
        ...Object.fromEntries(states.map(([name, { status }]) => [name, status])),
        jupyter: 'off',
        browser: 'off',
        events: 'off',
      },
      ...(reasons.length > 0 ? { reasons: Object.fromEntries(reasons) } : {}),
    };
  }

  async #describe(): Promise<ServerInfoReply> {
    this.#probe();
    return {
      uptime: (performance.now() - this.#startedAt) / 1000,
      idle_time: this.#dispatcher.idleSeconds,
      resources: await this.#meter.measure(),
      version: VERSION,
      protocol: PROTOCOL,
      capabilities: this.#executors.flatMap((executor) => executor.actionTypes),
      sandbox: { ...systemFacts(), tools: this.#tools },
      running_actions: this.#dispatcher.running,
    };
  }

  async #closeSession(lane: string): Promise<boolean> {
    for (const executor of this.#executors) if (await executor.closeSession(lane)) return true;
    return false;
  }

  #countUnknown(type: string, names: readonly string[]): void {
    for (const name of names) {
      const key = `${type}.${name}`;
      const count = (this.#unknownArgs.get(key) ?? 0) + 1;
      if (count === 1 && this.#unknownArgs.size < MAX_UNKNOWN_NAMES)
        this.#log.warn({ arg: key }, 'unknown argument ignored');
      if (count > 1 || this.#unknownArgs.size < MAX_UNKNOWN_NAMES) this.#unknownArgs.set(key, count);
    }
  }
}

/** Names of unknown arguments that are counted; clients could invent them without end. */
const MAX_UNKNOWN_NAMES = 1000;

function bashOptions(config: Config, account: Account, env: Record<string, string>, runtimeDir: string): BashOptions {
  const isSwitched = account.uid !== process.getuid?.();
  const owner = isSwitched ? account : undefined;
  return {
    shell: { env, account: owner, runtimeDir, columns: COLUMNS, rows: ROWS },
    spill: {
      directory: join(config.stateDir, 'output'),
      maxFileBytes: config.limits.maxOutputFileBytes,
      maxTotalBytes: config.limits.maxOutputTotalBytes,
      owner,
    },
    username: account.name,
    hostname: hostname().split('.')[0] ?? '',
    silenceSeconds: config.bash.noChangeTimeoutMs / 1000,
    multiCommand: config.bash.multiCommand,
    workingDir: config.workingDir,
    maxSessions: config.limits.maxSessions,
  };
}

async function loadOpenApi(): Promise<object> {
  const { buildOpenApi } = await import('./openapi.ts');
  return buildOpenApi(VERSION);
}

function unavailableText(actionType: string): string {
  switch (actionType) {
    case 'browse':
    case 'browse_interactive':
      return 'Browser functionality is not supported or disabled.';
    case 'run_ipython':
      return "Jupyter is not available on this server: run Python with a `run` action, e.g. python3 - <<'PY'.";
    default:
      return `Action type ${JSON.stringify(actionType)} is not carried out by this server.`;
  }
}

function logSummary(log: Logger, { call, outcome, queuedMs, durationMs, cause }: CallSummary): void {
  const line = {
    action_id: call.id,
    type: call.action.action,
    lane: call.lane,
    outcome,
    queued_ms: Math.round(queuedMs),
    duration_ms: Math.round(durationMs * 10) / 10,
  };
  if (cause === undefined) log.info(line, 'action');
  else log.error({ ...line, err: cause }, 'action');
}

/** A private folder for names that must exist for a moment; those of servers that died are removed on the way. */
function makeRuntimeDir(): string {
  for (const name of readdirSync(tmpdir())) {
    const pid = new RegExp(`^${RUNTIME_PREFIX}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) removeQuietly(join(tmpdir(), name));
  }
  const directory = mkdtempSync(join(tmpdir(), `${RUNTIME_PREFIX}${process.pid}-`));
  chmodSync(directory, 0o711);
  return directory;
}

function removeQuietly(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch {
    // Another user's.
  }
}
