import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { COLUMNS, ROWS } from '../executors/bash/output.ts';
import { BashExecutor, type BashOptions } from '../executors/bash/executor.ts';
import { FileService } from '../executors/files/service.ts';
import { cancelActionRoute } from '../routes/actions.cancel.post.ts';
import { getActionRoute, listActionsRoute } from '../routes/actions.get.ts';
import { aliveRoute } from '../routes/alive.get.ts';
import { eventsRoute } from '../routes/events.get.ts';
import { eventStreamRoute } from '../routes/events.stream.get.ts';
import { EventStreams } from '../routes/events.stream.peers.ts';
import { executeActionRoute } from '../routes/execute-action.post.ts';
import { fileRoutes } from '../routes/files-all.ts';
import { healthRoute } from '../routes/health.get.ts';
import { metricsRoute } from '../routes/metrics.get.ts';
import { openApiRoute } from '../routes/openapi.get.ts';
import { readyRoute } from '../routes/ready.get.ts';
import { registerSecretsRoute } from '../routes/secrets.post.ts';
import { serverInfoRoute } from '../routes/server-info.get.ts';
import { closeSessionRoute } from '../routes/sessions.delete.ts';
import { listSessionsRoute } from '../routes/sessions.get.ts';
import { buildApp } from './app.ts';
import type { Config } from './config.ts';
import { Actions } from './dispatch/actions.ts';
import { type CallSummary, Dispatcher } from './dispatch/dispatcher.ts';
import type { AnyExecutor } from './dispatch/executor.ts';
import { History } from './dispatch/history.ts';
import { closeInterrupted } from './dispatch/interrupted.ts';
import { Journal } from './dispatch/journal.ts';
import { unavailableText } from './dispatch/unavailable.ts';
import { EventLog } from './events/event-log.ts';
import { Guard, isLoopbackAddress } from './guard.ts';
import type { ReadyReply, ServerInfoReply } from './protocol/http.ts';
import {
  type Account,
  DirectoryError,
  makeDirectory,
  ownAccount,
  prepareWorkingDirectory,
  provideAccount,
} from './sandbox/account.ts';
import { childEnvironment } from './sandbox/child-env.ts';
import { probeSandbox, type SandboxFacts, systemFacts } from './sandbox/probe.ts';
import { createFileAccess, type FileAccess } from './sandbox/file-access.ts';
import { MemoryGuard } from './sandbox/memory-guard.ts';
import { endProcesses } from './sandbox/processes.ts';
import { makeRuntimeDir } from './sandbox/runtime-dir.ts';
import { type Secrets, secretsOf } from './sandbox/secrets.ts';
import type { Logger } from './telemetry/logger.ts';
import { Metrics, type MetricsSources } from './telemetry/metrics.ts';
import { ResourceMeter } from './telemetry/resources.ts';
import { logSummary } from './telemetry/summary.ts';
import { PROTOCOL, VERSION } from './version.ts';
import { FileViewer, VIEWER_ADDRESS_FILE } from './viewer/file-viewer.ts';

/** Time for running actions to be answered, for their processes to go by themselves, and for open connections to be closed. */
const ANSWER_LIMIT_MS = 1500;
const PROCESS_GRACE_MS = 700;
const CONNECTION_LIMIT_MS = 500;

/** When the sandbox's tools are looked for, unless somebody asks earlier. */
const PROBE_DELAY_MS = 5000;

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
  readonly #events: EventLog;
  readonly #secrets: Secrets;
  readonly #journal: Journal;
  readonly #history: History;
  readonly #dispatcher: Dispatcher;
  readonly #actions: Actions;
  readonly #metrics: Metrics;
  readonly #guard: Guard;
  readonly #streams: EventStreams;
  readonly #app: FastifyInstance;
  #tools: SandboxFacts['tools'] = {};
  #viewer: FileViewer | undefined;
  #probeTimer: NodeJS.Timeout | undefined;
  #isProbed = false;
  #phase: 'starting' | 'ready' | 'stopping' = 'starting';

  private constructor(
    config: Config,
    log: Logger,
    secrets: Secrets,
    account: Account,
    access: FileAccess,
    events: EventLog,
  ) {
    this.#config = config;
    this.#log = log;
    this.#events = events;
    this.#runtimeDir = makeRuntimeDir();
    this.#secrets = secrets;
    this.#journal = new Journal({
      writer: events,
      secrets: this.#secrets,
      maxOutputBytes: config.limits.maxOutputEventBytes,
      onOutput: (chars) => this.#metrics.countOutput(chars),
    });
    this.#history = new History(events);
    const [markName = '', markValue = ''] = this.#mark.split('=');
    this.#env = {
      ...childEnvironment(config.childEnv, account, account.uid !== process.getuid?.()),
      [markName]: markValue,
    };
    const bash = new BashExecutor(bashOptions(config, account, this.#env, this.#runtimeDir, secrets));
    this.#files = new FileService({
      ...config.limits,
      access,
      env: this.#env,
      workingDir: config.workingDir,
      currentDir: () => bash.cwd,
    });
    this.#executors = [bash, this.#files.executor];
    const memory = new MemoryGuard();
    this.#dispatcher = new Dispatcher({
      executors: this.#executors,
      journal: this.#journal,
      history: this.#history,
      maxInFlight: config.limits.maxActionsInFlight,
      overload: () => memory.shortage(),
      unavailable: unavailableText,
      onSummary: (summary) => this.#onSummary(summary),
    });
    this.#actions = new Actions(this.#dispatcher, this.#history, this.#secrets);
    this.#metrics = new Metrics(this.#metricsSources());
    const { apiKeys, allowOrigins, host } = config;
    this.#guard = new Guard({ apiKeys, allowOrigins, isLoopback: isLoopbackAddress(host) });
    this.#streams = new EventStreams({
      reader: events,
      guard: this.#guard,
      log,
      maxSubscribers: config.limits.maxSubscribers,
    });
    this.#app = this.#buildApp();
  }

  /**
   * Listens, then starts what actions need; `/alive` answers 503 until then. Rejects when the address is taken or the account cannot
   * be made, and leaves nothing behind.
   */
  static async start(config: Config, log: Logger, secrets: Secrets = secretsOf(config)): Promise<Server> {
    const warn = (text: string): void => log.warn(text);
    const { username, userId } = config;
    const isSwitching = username !== undefined && config.v0.suToUser;
    const account = isSwitching ? await provideAccount({ username, userId }, warn) : ownAccount();
    await naming('--working-dir', config.workingDir, makeDirectory(config.workingDir));
    const logDir = join(config.stateDir, 'events');
    // The log is nobody else's; beside it lie output files that the sandbox's user may open.
    await naming('--state-dir', config.stateDir, makeDirectory(logDir, 0o700));
    const isSwitched = account.uid !== process.getuid?.();
    if (isSwitched) await prepareWorkingDirectory(config.workingDir, account, config.v0.sandboxGroup, warn);
    const access = await createFileAccess(isSwitched ? account : undefined, config.confine);
    // What the start itself drops is in the extent that `started` tells.
    let recordTrim: ((oldest: number) => void) | undefined;
    const opened = EventLog.open({
      ...config.log,
      directory: logDir,
      onProblem: (text, error) => log.error({ err: error }, text),
      onTrim: ({ oldest }) => {
        log.info({ oldest }, 'event log trimmed');
        recordTrim?.(oldest);
      },
    });
    const events = await naming('--state-dir', config.stateDir, opened);
    const server = new Server(config, log, secrets, account, access, events);
    recordTrim = (oldest) => server.#journal.note('trimmed', { oldest });
    try {
      await server.#app.listen({ port: config.port, host: config.host });
    } catch (error) {
      await events.close();
      rmSync(server.#runtimeDir, { recursive: true, force: true });
      throw error;
    }
    await Promise.all([server.#startExecutors(), server.#openJournal()]);
    if (server.#phase === 'starting') server.#phase = 'ready';
    await server.#startViewer();
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
    await this.#journal.server('stopping').catch(ignore);
    await this.#dispatcher.stop(ANSWER_LIMIT_MS);
    const closed = this.#app.close();
    const cut = setTimeout(() => this.#app.server.closeAllConnections(), CONNECTION_LIMIT_MS);
    await Promise.all([...this.#executors.map((executor) => executor.stop()), this.#viewer?.stop()]);
    const left = await endProcesses({ mark: this.#mark }, PROCESS_GRACE_MS);
    if (left > 0) this.#log.warn({ processes: left }, 'some processes could not be ended');
    await closed;
    clearTimeout(cut);
    this.#metrics.stop();
    await this.#events.close();
    rmSync(this.#runtimeDir, { recursive: true, force: true });
  }

  #buildApp(): FastifyInstance {
    return buildApp({
      ...this.#config.limits,
      guard: this.#guard,
      log: this.#log,
      mask: (text) => this.#secrets.mask(text),
      plugins: [
        aliveRoute(() => this.#phase === 'ready'),
        healthRoute,
        readyRoute(() => this.#readiness()),
        serverInfoRoute(() => this.#describe()),
        executeActionRoute(this.#dispatcher, {
          countUnknownArgs: (type, names) => this.#countUnknown(type, names),
          mask: (text) => this.#secrets.mask(text),
        }),
        listSessionsRoute(() => this.#secrets.maskValue(this.#executors.flatMap((executor) => executor.sessions()))),
        closeSessionRoute(
          (lane) => this.#closeSession(lane),
          (text) => this.#secrets.mask(text),
        ),
        listActionsRoute(this.#actions),
        getActionRoute(this.#actions),
        cancelActionRoute(this.#dispatcher, this.#actions),
        eventsRoute(this.#events, this.#guard),
        eventStreamRoute(this.#streams),
        metricsRoute(this.#metrics),
        registerSecretsRoute(this.#secrets),
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
    this.#probeTimer = setTimeout(() => this.#probe(), PROBE_DELAY_MS).unref();
  }

  /** For the browser; the rest works without it. */
  async #startViewer(): Promise<void> {
    if (!this.#config.browser.enabled) return;
    const viewer = new FileViewer({ read: (path) => this.#files.readWhole(path), addressFile: VIEWER_ADDRESS_FILE });
    this.#viewer = viewer;
    await viewer.start().catch((error: unknown) => this.#log.warn({ err: error }, 'the file viewer cannot be reached'));
  }

  /** Nothing of the last run stays open: what it had begun is answered as interrupted. */
  async #openJournal(): Promise<void> {
    try {
      const { openActions, wasClean } = this.#events.recovered;
      await closeInterrupted(openActions, this.#events);
      const { oldest } = this.#events.extent;
      const interrupted = openActions.length;
      await this.#journal.server('started', { version: VERSION, was_clean: wasClean, interrupted, oldest });
    } catch (error) {
      this.#log.error({ err: error }, 'the event log cannot be written');
    }
  }

  #onSummary(summary: CallSummary): void {
    logSummary(this.#log, summary);
    this.#metrics.observe(summary);
  }

  #metricsSources(): MetricsSources {
    return {
      sessions: () => this.#executors.reduce((sum, executor) => sum + executor.sessions().length, 0),
      inFlight: () => this.#dispatcher.inFlight,
      running: () => this.#dispatcher.running,
      log: () => this.#events.stats(),
      subscribers: () => this.#streams.counters.subscribers,
      droppedReaders: () => this.#streams.counters.droppedReaders,
    };
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
        events: this.#events.stats().isWritable ? 'ready' : 'failed',
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

function bashOptions(
  config: Config,
  account: Account,
  env: Record<string, string>,
  runtimeDir: string,
  secrets: Secrets,
): BashOptions {
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
    secrets,
    username: account.name,
    hostname: hostname().split('.')[0] ?? '',
    silenceSeconds: config.bash.noChangeTimeoutMs / 1000,
    multiCommand: config.bash.multiCommand,
    workingDir: config.workingDir,
    maxSessions: config.limits.maxSessions,
  };
}

/** Says which flag a directory came from that cannot be used. An error that is not the system's says by itself what to do. */
async function naming<T>(flag: string, directory: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const isSystems = error instanceof DirectoryError || (error instanceof Error && 'code' in error);
    if (!isSystems) throw error;
    throw new Error(`${flag} ${directory}: ${error.message}; choose a directory that this user may make and write`, {
      cause: error,
    });
  }
}

async function loadOpenApi(): Promise<object> {
  const { buildOpenApi } = await import('./openapi.ts');
  return buildOpenApi(VERSION);
}

function ignore(): void {
  // The log says by itself that it cannot be written.
}
