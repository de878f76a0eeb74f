import { randomUUID } from 'node:crypto';
import { constants, existsSync, rmSync } from 'node:fs';
import { access as checkAccess } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { COLUMNS, ROWS } from '../executors/bash/output.ts';
import { BashExecutor, type BashOptions } from '../executors/bash/executor.ts';
import type { BrowserOptions } from '../executors/browser/executor.ts';
import { BrowserService } from '../executors/browser/service.ts';
import { FileService } from '../executors/files/service.ts';
import { JupyterExecutor } from '../executors/jupyter/executor.ts';
import { basePathOf, type VscodeOptions } from '../executors/vscode/options.ts';
import { VscodeService } from '../executors/vscode/service.ts';
import { cancelActionRoute } from '../routes/actions.cancel.post.ts';
import { getActionRoute, listActionsRoute } from '../routes/actions.get.ts';
import { aliveRoute } from '../routes/alive.get.ts';
import { browserCdpRoute } from '../routes/browser-cdp.get.ts';
import { browserViewRoutes } from '../routes/browser-view.get.ts';
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
import { controlSessionRoutes } from '../routes/sessions.control.post.ts';
import { closeSessionRoute } from '../routes/sessions.delete.ts';
import { listSessionsRoute } from '../routes/sessions.get.ts';
import { vscodeTokenRoute } from '../routes/vscode-connection-token.get.ts';
import { buildApp } from './app.ts';
import type { Config } from './config.ts';
import { Actions } from './dispatch/actions.ts';
import { type CallSummary, Dispatcher } from './dispatch/dispatcher.ts';
import type { AnyExecutor } from './dispatch/executor.ts';
import { History } from './dispatch/history.ts';
import { closeInterrupted } from './dispatch/interrupted.ts';
import { Journal } from './dispatch/journal.ts';
import { type LoadedPlugin, loadPlugins } from './dispatch/plugins.ts';
import { unavailableText } from './dispatch/unavailable.ts';
import { EventLog } from './events/event-log.ts';
import { Guard, isLoopbackAddress } from './guard.ts';
import type { ActionSchema } from './protocol/actions.ts';
import type { ReadyReply, ServerInfoReply } from './protocol/http.ts';
import { MAX_CONTENT_CODE_POINTS } from './protocol/observations.ts';
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
import { endPredecessors, InstanceFile } from './sandbox/predecessor.ts';
import { ProcessScanner } from './sandbox/process-scanner.ts';
import { endProcesses, findProcesses, ownOrphans, type ProcessQuery, signalProcess } from './sandbox/processes.ts';
import { makeRuntimeDir } from './sandbox/runtime-dir.ts';
import { type Secrets, secretsOf } from './sandbox/secrets.ts';
import type { ShellStates } from './sandbox/shell-state.ts';
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
/** Time for one executor to end; what it leaves is ended with all other processes. */
const EXECUTOR_LIMIT_MS = 1200;
/** For plugins to load before actions are taken; those that need longer join later. */
const PLUGIN_WAIT_MS = 10_000;

/** When the sandbox's tools are looked for, unless somebody asks earlier. */
const PROBE_DELAY_MS = 5000;

/** Names every process of this server, wherever it went: one constant entry in the sandbox's environment. */
const MARK_VARIABLE = 'ACTIOND_INSTANCE';

function eventDirectory({ stateDir }: Config): string {
  return join(stateDir, 'events');
}

/** One server: everything it consists of, and its life. */
export class Server {
  readonly #config: Config;
  readonly #log: Logger;
  readonly #startedAt = performance.now();
  readonly #mark = `${MARK_VARIABLE}=${randomUUID()}`;
  readonly #meter = new ResourceMeter();
  readonly #runtimeDir: string;
  readonly #instance: InstanceFile;
  /** Of shells and other programs of the sandbox, when it is not our own. */
  readonly #shellAccount: Account | undefined;
  readonly #env: Record<string, string>;
  readonly #executors: AnyExecutor[];
  readonly #addedActions = new Map<string, ActionSchema>();
  readonly #bash: BashExecutor;
  readonly #vscode: VscodeService | undefined;
  readonly #loadingPlugins = new Set<string>();
  /** Path and reason. */
  readonly #pluginFailures = new Map<string, string>();
  readonly #files: FileService;
  /** undefined: switched off. */
  readonly #browser: BrowserService | undefined;
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
  /** The event log has closed what the last run left open. */
  #opened = Promise.resolve();
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
    this.#runtimeDir = makeRuntimeDir(config.stateDir);
    this.#instance = new InstanceFile(eventDirectory(config));
    this.#secrets = secrets;
    this.#secrets.add(config.jupyter.token);
    this.#journal = new Journal({
      writer: events,
      secrets: this.#secrets,
      maxOutputBytes: config.limits.maxOutputEventBytes,
      onOutput: (bytes) => this.#metrics.countOutput(bytes),
    });
    this.#history = new History(events);
    const [markName = '', markValue = ''] = this.#mark.split('=');
    this.#env = {
      ...childEnvironment(config.childEnv, account, account.uid !== process.getuid?.()),
      [markName]: markValue,
    };
    this.#shellAccount = account.uid === process.getuid?.() ? undefined : account;
    const bash = new BashExecutor(bashOptions(config, account, this.#env, this.#runtimeDir, secrets));
    this.#bash = bash;
    this.#vscode = config.plugins.includes('vscode') ? new VscodeService(this.#vscodeOptions(account)) : undefined;
    this.#files = new FileService({
      ...config.limits,
      access,
      env: this.#env,
      workingDir: config.workingDir,
      currentDir: () => bash.cwd,
    });
    const jupyter = new JupyterExecutor(
      jupyterOptions(config, account, this.#env, this.#runtimeDir, log, secrets, (name) => bash.shellState(name)),
    );
    this.#browser = config.browser.enabled ? new BrowserService(this.#browserOptions(account, access)) : undefined;
    this.#executors = [bash, this.#files.executor, jupyter, ...(this.#browser ? [this.#browser.executor] : [])];
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
   *
   * @param signal ends the wait for the start: the server is there to be stopped
   */
  static async start(
    config: Config,
    log: Logger,
    secrets: Secrets = secretsOf(config),
    signal: AbortSignal = new AbortController().signal,
  ): Promise<Server> {
    const warn = (text: string): void => log.warn(text);
    const { username, userId } = config;
    const isSwitching = username !== undefined && config.v0.suToUser;
    const account = isSwitching ? await provideAccount({ username, userId }, warn) : ownAccount();
    await naming('--working-dir', config.workingDir, makeDirectory(config.workingDir));
    const logDir = eventDirectory(config);
    // The log is nobody else's; beside it lie output files that the sandbox's user may open.
    await naming('--state-dir', config.stateDir, makeDirectory(logDir, 0o700));
    const isSwitched = account.uid !== process.getuid?.();
    if (isSwitched) await prepareWorkingDirectory(config.workingDir, account, config.v0.sandboxGroup, warn);
    else await warnOfClosedDirectory(config.workingDir, warn);
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
    await Promise.race([server.#startParts(), aborted(signal)]);
    return server;
  }

  async #startParts(): Promise<void> {
    this.#vscode?.start();
    this.#opened = this.#openJournal();
    const ended = endPredecessors(this.#instance.add(this.#mark), PROCESS_GRACE_MS).then(() =>
      this.#instance.settle(this.#mark),
    );
    await Promise.all([this.#loadPlugins(), this.#startExecutors(), this.#opened, ended]);
    if (this.#phase !== 'starting') return;
    this.#phase = 'ready';
    await this.#startViewer();
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
    await this.#opened;
    await this.#journal.server('stopping').catch(ignore);
    await this.#dispatcher.stop(ANSWER_LIMIT_MS);
    const closed = this.#app.close();
    const cut = setTimeout(() => this.#app.server.closeAllConnections(), CONNECTION_LIMIT_MS);
    const parts = [
      ...this.#executors.map((executor) => [executor.name, executor.stop()] as const),
      ['viewer', this.#viewer?.stop()] as const,
      ['vscode', this.#vscode?.stop()] as const,
    ];
    await Promise.all(parts.map(([name, stopped]) => this.#endsInTime(name, stopped)));
    const left = await endProcesses(this.#ownProcesses(), PROCESS_GRACE_MS);
    if (left > 0) this.#log.warn({ processes: left }, 'some processes could not be ended');
    await closed;
    clearTimeout(cut);
    this.#metrics.stop();
    if (left === 0) this.#instance.remove();
    await this.#events.close();
    rmSync(this.#runtimeDir, { recursive: true, force: true });
  }

  /** For a stop that has no time left: nothing is answered or waited for. */
  killProcesses(): void {
    for (const { pid } of findProcesses(this.#ownProcesses())) signalProcess(pid, 'SIGKILL');
  }

  #ownProcesses(): ProcessQuery {
    const orphans = ownOrphans();
    return { mark: this.#mark, ...(orphans ? { orphans } : {}) };
  }

  async #endsInTime(name: string, stopped: Promise<unknown> | undefined): Promise<void> {
    const late = delay(EXECUTOR_LIMIT_MS, 'late' as const, { ref: false });
    try {
      if ((await Promise.race([stopped, late])) === 'late')
        this.#log.warn({ subsystem: name }, 'did not stop in time: its processes are ended');
    } catch (error) {
      this.#log.warn({ err: error, subsystem: name }, 'could not be stopped');
    }
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
        executeActionRoute({
          dispatcher: this.#dispatcher,
          addedActions: this.#addedActions,
          countUnknownArgs: (type, names) => this.#countUnknown(type, names),
          mask: (text) => this.#secrets.mask(text),
        }),
        listSessionsRoute(() => this.#secrets.maskValue(this.#executors.flatMap((executor) => executor.sessions()))),
        closeSessionRoute(
          (lane) => this.#closeSession(lane),
          (text) => this.#secrets.mask(text),
        ),
        controlSessionRoutes({
          interrupt: (lane) => this.#interruptSession(lane),
          restart: (lane) => this.#restartSession(lane),
        }),
        listActionsRoute(this.#actions),
        getActionRoute(this.#actions),
        cancelActionRoute(this.#dispatcher, this.#actions),
        eventsRoute(this.#events, this.#guard),
        eventStreamRoute(this.#streams),
        metricsRoute(this.#metrics),
        registerSecretsRoute(this.#secrets),
        vscodeTokenRoute(async () => (await this.#vscode?.token()) ?? null),
        ...fileRoutes(this.#files, this.#guard),
        ...this.#browserRoutes(),
        openApiRoute(loadOpenApi),
      ],
    });
  }

  /**
   * What `--plugin` names. One that cannot be loaded is told in the log and in `/ready`; one that takes long is not waited for, and its
   * actions are served from when it is there.
   */
  async #loadPlugins(): Promise<void> {
    const { pluginPaths: paths, workingDir, v0 } = this.#config;
    if (paths.length === 0) return;
    const loaded = loadPlugins({
      paths,
      takenNames: [...this.#executors.map(({ name }) => name), ...SUBSYSTEM_NAMES],
      startLimitMs: v0.initPluginTimeoutMs,
      account: this.#shellAccount,
      host: {
        z,
        workingDir,
        currentDir: () => this.#bash.cwd,
        env: this.#env,
        log: { info: (text) => this.#log.info(text), warn: (text) => this.#log.warn(text) },
      },
      onLoading: (path) => this.#loadingPlugins.add(path),
      onLoaded: (path, plugin) => this.#addPlugin(path, plugin),
      onFailed: (path, reason) => this.#refusePlugin(path, reason),
    });
    await Promise.race([loaded, delay(PLUGIN_WAIT_MS, undefined, { ref: false })]);
    for (const path of this.#loadingPlugins)
      this.#log.warn({ plugin: path }, 'plugin is still loading: its actions are served later');
  }

  #addPlugin(path: string, { executor, schemas }: LoadedPlugin): void {
    this.#loadingPlugins.delete(path);
    if (this.#phase === 'stopping') return void executor.stop();
    this.#executors.push(executor);
    this.#dispatcher.add(executor);
    for (const [type, schema] of schemas) this.#addedActions.set(type, schema);
    // Does not wait for the plugin.
    void executor.start();
  }

  #refusePlugin(path: string, reason: string): void {
    this.#loadingPlugins.delete(path);
    this.#pluginFailures.set(path, reason);
    this.#log.error({ plugin: path, reason }, 'plugin could not be loaded');
  }

  #browserRoutes(): ((app: FastifyInstance) => void)[] {
    const browser = this.#browser;
    if (!browser) return [];
    const views = browserViewRoutes(browser, (value) => this.#secrets.maskValue(value));
    return this.#config.browser.exposeCdp ? [views, browserCdpRoute(() => browser.endpoint())] : [views];
  }

  #browserOptions(account: Account, access: FileAccess): BrowserOptions {
    const { browser, workingDir, limits } = this.#config;
    const isSwitched = account.uid !== process.getuid?.();
    return {
      ...browser,
      access,
      workingDir,
      maxSessions: limits.maxSessions,
      isEager: browser.start === 'eager',
      launch: {
        path: browser.path,
        env: this.#env,
        account: isSwitched ? account : undefined,
        runtimeDir: this.#runtimeDir,
        hasPort: browser.exposeCdp,
        extraArguments: browser.extraArguments,
        warn: (text) => this.#log.warn(text),
      },
      onState: (status, reason) => {
        this.#log[status === 'failed' ? 'error' : 'info']({ subsystem: 'browser', status, reason }, 'browser');
        this.#journal.server('subsystem', { subsystem: 'browser', status, reason }).catch(ignore);
      },
    };
  }

  async #startExecutors(): Promise<void> {
    const executors = [...this.#executors];
    await Promise.all(executors.map((executor) => executor.start()));
    for (const executor of executors) {
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
    await viewer
      .start()
      .catch((error: unknown) => this.#log.warn({ reason: String(error) }, 'the file viewer cannot be reached'));
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
    const states = [
      ...this.#executors.map((executor) => [executor.name, executor.health()] as const),
      ...(this.#vscode ? [['vscode', this.#vscode.health()] as const] : []),
    ];
    const isBroken = this.#executors.some(
      ({ isOptional }, index) => !isOptional && states[index]?.[1].status === 'failed',
    );
    const reasons = [
      ...states.flatMap(([name, { reason }]) => (reason === undefined ? [] : [[name, reason]])),
      ...Array.from(this.#pluginFailures, ([path, reason]) => [path, `the plugin could not be loaded: ${reason}`]),
    ];
    return {
      status: isBroken && this.#phase === 'ready' ? 'failed' : this.#phase,
      subsystems: {
        ...Object.fromEntries(states.map(([name, { status }]) => [name, status])),
        ...Object.fromEntries(Array.from(this.#loadingPlugins, (path) => [path, 'starting'])),
        ...Object.fromEntries(Array.from(this.#pluginFailures.keys(), (path) => [path, 'failed'])),
        browser: 'off',
        ...Object.fromEntries(states.map(([name, { status }]) => [name, status])),
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

  #vscodeOptions({ name }: Account): VscodeOptions {
    const { v0, workingDir } = this.#config;
    const isAllowed = ['root', 'openhands', v0.runtimeUsername].includes(name);
    return {
      port: v0.vscodePort,
      directory: existsSync(v0.vscodeDir) ? v0.vscodeDir : workingDir,
      settingsDirectory: existsSync(v0.workspaceBase) ? v0.workspaceBase : workingDir,
      basePath: basePathOf(v0.vscodeBasePath, v0.runtimeUrl, v0.runtimeId),
      refusal: isAllowed ? undefined : `${name} gets no VS Code: set RUNTIME_USERNAME=${name} to allow it`,
      account: this.#shellAccount,
      env: this.#env,
      runtimeDir: this.#runtimeDir,
      startLimitMs: v0.initPluginTimeoutMs,
      onLog: (text) => this.#log.info(`vscode: ${text}`),
    };
  }

  async #closeSession(lane: string): Promise<boolean> {
    for (const executor of this.#executors) if (await executor.closeSession(lane)) return true;
    return false;
  }

  async #interruptSession(lane: string): Promise<boolean | undefined> {
    for (const executor of this.#executors) {
      const interrupted = await executor.interruptSession?.(lane);
      if (interrupted !== undefined) return interrupted;
    }
    return undefined;
  }

  async #restartSession(lane: string): Promise<boolean> {
    for (const executor of this.#executors) if (await executor.restartSession?.(lane)) return true;
    return false;
  }

  #countUnknown(type: string, names: readonly string[]): void {
    for (const name of names) {
      const arg = `${type}.${name}`;
      if (this.#metrics.countUnknownArg(arg)) this.#log.warn({ arg }, 'unknown argument ignored');
    }
  }
}

/** Parts that `/ready` tells of, beside the executors. */
const SUBSYSTEM_NAMES = ['events', 'browser', 'vscode', 'mcp', 'agent_skills'];

function bashOptions(
  config: Config,
  account: Account,
  env: Record<string, string>,
  runtimeDir: string,
  secrets: Secrets,
): BashOptions {
  const isSwitched = account.uid !== process.getuid?.();
  const owner = isSwitched ? account : undefined;
  const scanner = new ProcessScanner();
  return {
    shell: { env, account: owner, runtimeDir, columns: COLUMNS, rows: ROWS },
    spill: {
      directory: join(config.stateDir, 'output'),
      maxFileBytes: config.limits.maxOutputFileBytes,
      maxTotalBytes: config.limits.maxOutputTotalBytes,
      owner,
      memoryBytes: MAX_CONTENT_CODE_POINTS,
    },
    secrets,
    username: account.name,
    hostname: hostname().split('.')[0] ?? '',
    silenceSeconds: config.bash.noChangeTimeoutMs / 1000,
    multiCommand: config.bash.multiCommand,
    list: () => scanner.list(),
    workingDir: config.workingDir,
    maxSessions: config.limits.maxSessions,
  };
}

function jupyterOptions(
  config: Config,
  account: Account,
  env: Record<string, string>,
  runtimeDir: string,
  log: Logger,
  secrets: Secrets,
  shell: ShellStates,
): ConstructorParameters<typeof JupyterExecutor>[0] {
  const { url, token, python, warm } = config.jupyter;
  const owner = account.uid === process.getuid?.() ? undefined : account;
  return {
    server: url === undefined ? undefined : { url, token },
    interpreters: python === undefined ? defaultInterpreters() : [python],
    account: owner,
    env,
    runtimeDir,
    spill: {
      directory: join(config.stateDir, 'output'),
      maxFileBytes: config.limits.maxOutputFileBytes,
      maxTotalBytes: config.limits.maxOutputTotalBytes,
      owner,
    },
    secrets,
    shell,
    maxSessions: config.limits.maxSessions,
    warm,
    isEager: config.plugins.includes('jupyter') || warm > 0,
    withSkills: config.plugins.length === 0 || config.plugins.includes('agent_skills'),
    onLog: (text) => log.debug({ subsystem: 'jupyter' }, text.trimEnd()),
  };
}

/** The environment that scripts/setup.sh makes, seen from the sources and from the bundle; then whatever the sandbox has. */
function defaultInterpreters(): string[] {
  const own = ['..', '../..'].map((up) => join(import.meta.dirname, up, '.venv/bin/python')).find(existsSync);
  return [...(own === undefined ? [] : [own]), 'python3', 'python'];
}

/** A volume of somebody else's: shells start above it, and whoever runs the sandbox should know why. */
async function warnOfClosedDirectory(directory: string, warn: (text: string) => void): Promise<void> {
  await checkAccess(directory, constants.W_OK | constants.X_OK).catch((error: unknown) =>
    warn(
      `--working-dir ${directory}: uid ${process.getuid?.()}, gid ${process.getgid?.()} cannot work in it (${String(error)})`,
    ),
  );
}

/** Says which flag a directory came from that cannot be used. An error that is not the system's says by itself what to do. */
async function naming<T>(flag: string, directory: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const isSystems = error instanceof DirectoryError || (error instanceof Error && 'code' in error);
    if (!isSystems) throw error;
    throw new Error(
      `${flag} ${directory}: ${error.message}; choose a directory that this user (uid ${process.getuid?.()}, gid ${process.getgid?.()}) may make and write`,
      {
        cause: error,
      },
    );
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

async function loadOpenApi(): Promise<object> {
  const { buildOpenApi } = await import('./openapi.ts');
  return buildOpenApi(VERSION);
}

function ignore(): void {
  // The log says by itself that it cannot be written.
}
