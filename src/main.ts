import { rmSync, writeFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { type Config, isServerSecret, loadConfig } from './config.ts';
import { faultyModule, isModule } from './dispatch/plugin-faults.ts';
import { DEFAULT_PATH } from './sandbox/child-env.ts';
import { openFilesProblem } from './sandbox/open-files.ts';
import { memoryProblem } from './sandbox/out-of-memory.ts';
import { eraseVariables } from './sandbox/own-environment.ts';
import { secretsOf } from './sandbox/secrets.ts';
import { substituteTemporaryDirectory } from './sandbox/temporary-directory.ts';
import { Server } from './server.ts';
import { createLogger, type Logger } from './telemetry/logger.ts';
import { VERSION } from './version.ts';

/** A shutdown that takes longer is cut off. Below five seconds: what runs the container needs its part of them. */
const SHUTDOWN_LIMIT_MS = 4200;

/** Percent by which the heap may grow between two full collections: what an action leaves for the collector would else be tens of megabytes. */
const HEAP_GROWTH = '--heap-growing-percent=40';

async function main(): Promise<void> {
  // A version of V8 that does not know it says so on stderr and goes on.
  setFlagsFromString(HEAP_GROWTH);
  process.env['PATH'] ||= DEFAULT_PATH;
  const loaded = loadConfig(process.argv.slice(2), process.env, process.cwd(), VERSION);
  if (loaded.kind === 'print') {
    process.stdout.write(`${loaded.text}\n`);
    return;
  }
  if (loaded.kind === 'error') fail(2, loaded.message);
  nameProcess();
  const problem = openFilesProblem();
  if (problem !== undefined) fail(1, problem);
  const shortage = memoryProblem();
  if (shortage !== undefined) process.stderr.write(`actiond: ${shortage}\n`);
  const { warnings } = loaded;
  const config = await withTemporaryDirectory(loaded.config);
  const unerased = eraseKeys();
  const secrets = secretsOf(config);
  const log = createLogger(config.logLevel, secrets);
  for (const warning of [...warnings, ...unerased]) log.warn(warning);
  let toKill: Server | undefined;
  onFaults(config.pluginPaths, log, (text) => {
    toKill?.killProcesses();
    fail(1, secrets.mask(text));
  });
  const interrupted = new AbortController();
  const starting = Server.start(config, log, secrets, interrupted.signal);
  const stop = async (signal: string): Promise<void> => {
    log.info({ signal }, 'stopping');
    interrupted.abort();
    await (await starting).stop();
  };
  onSignals(stop, () => {
    log.warn('stopping took too long: what is left is killed');
    toKill?.killProcesses();
  });
  const server = await starting.catch((error: unknown) => fail(1, startFailure(error, config.host, config.port)));
  toKill = server;
  log.info(
    {
      version: VERSION,
      host: config.host,
      port: server.port,
      working_dir: config.workingDir,
      state_dir: config.stateDir,
    },
    'serving',
  );
}

/** An agent's `pkill node` is meant for the programs of the agent. Arguments stay as they are. */
function nameProcess(): void {
  try {
    writeFileSync('/proc/self/comm', 'actiond');
  } catch {
    // It has another name then.
  }
}

/** The server's own programs and those of the sandbox get another directory where the usual one cannot be written. */
async function withTemporaryDirectory(config: Config): Promise<Config> {
  const directory = await substituteTemporaryDirectory(config.stateDir);
  if (directory === undefined) return config;
  process.env['TMPDIR'] = directory;
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  return { ...config, childEnv: { ...config.childEnv, TMPDIR: directory } };
}

/** @returns warnings */
function eraseKeys(): string[] {
  try {
    eraseVariables(process.env, isServerSecret);
    return [];
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return [
      `The keys stay readable in /proc/${process.pid}/environ for this user's commands (${reason}): start as root with --username.`,
    ];
  }
}

/** A fault of a plugin's module that nobody has caught costs the plugin only; one of the daemon's own ends it, with all it has started. */
function onFaults(plugins: readonly string[], log: Logger, end: (text: string) => never): void {
  process.on('uncaughtException', (error: unknown) => {
    const plugin = plugins.some(isModule) ? faultyModule(error, plugins) : undefined;
    if (plugin === undefined) end(error instanceof Error ? (error.stack ?? error.message) : String(error));
    log.error({ err: error, plugin }, 'the plugin has failed outside of its actions: the server goes on');
  });
}

/** @param cutOff called when stopping takes too long */
function onSignals(stop: (signal: string) => Promise<void>, cutOff: () => void): void {
  let isStopping = false;
  const handle = (signal: NodeJS.Signals): void => {
    if (isStopping) return;
    isStopping = true;
    setTimeout(() => {
      cutOff();
      process.exit(0);
    }, SHUTDOWN_LIMIT_MS).unref();
    stop(signal).then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on('SIGTERM', handle);
  process.on('SIGINT', handle);
  // A terminal that goes away must not take the server's sandbox down half-way.
  process.on('SIGHUP', handle);
}

function startFailure(error: unknown, host: string, port: number): string {
  if (!(error instanceof Error)) return String(error);
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (syscall === 'getaddrinfo') return `--host ${host} is no name that can be looked up (${code}): ${HOST_REMEDY}`;
  if (syscall !== 'listen') return error.message;
  switch (code) {
    case 'EADDRINUSE':
      return `port ${port} on ${host} is already in use: stop what uses it or choose another port`;
    case 'EACCES':
      return `port ${port} on ${host} may not be opened by this user: choose one above 1023`;
    case 'EADDRNOTAVAIL':
      return `--host ${host} is no address of this machine: ${HOST_REMEDY}`;
    default:
      return `--host ${host} cannot be listened on (${error.message}): ${HOST_REMEDY}`;
  }
}

const HOST_REMEDY = 'choose one, such as 127.0.0.1, or 0.0.0.0 for all of them';

function fail(code: number, message: string): never {
  process.stderr.write(`actiond: ${message}\n`);
  process.exit(code);
}

main().catch((error: unknown) => fail(1, error instanceof Error ? (error.stack ?? error.message) : String(error)));
