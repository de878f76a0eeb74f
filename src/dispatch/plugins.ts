import { basename } from 'node:path';
import { pathToFileURL } from 'node:url';
import { importModule } from '../import-module.ts';
import { type Action, type ActionSchema, addedAction, isBuiltinAction } from '../protocol/actions.ts';
import { errorObservation, type Observation } from '../protocol/observations.ts';
import type { SessionInfo } from '../protocol/http.ts';
import type { ActionContext, ActionResult, AnyExecutor, SubsystemHealth } from './executor.ts';
import type { Plugin, PluginHost } from './plugin.ts';
import { isModule } from './plugin-faults.ts';
import { createProcessPlugin } from './process-plugin.ts';

/** An executor made of a plugin, with the schemas of its action types. */
export interface LoadedPlugin {
  readonly executor: AnyExecutor;
  readonly schemas: ReadonlyMap<string, ActionSchema>;
}

export interface LoadPluginsOptions {
  /** Absolute. */
  readonly paths: readonly string[];
  readonly host: PluginHost;
  /** Account of plugins that are programs; undefined keeps the server's own. */
  readonly account: { readonly uid: number; readonly gid: number } | undefined;
  /** Names of subsystems that no plugin may have. */
  readonly takenNames: Iterable<string>;
  /** For loading one plugin, and for starting it. */
  readonly startLimitMs: number;
  readonly onLoading: (path: string) => void;
  readonly onLoaded: (path: string, plugin: LoadedPlugin) => void;
  readonly onFailed: (path: string, reason: string) => void;
}

/** The whole shutdown has five seconds. */
const STOP_LIMIT_MS = 1000;
/** For an answer once the signal is aborted: more than a program gets before it is killed. */
const ANSWER_GRACE_MS = 3000;
const MAX_TIMER_MS = 2 ** 31 - 1;
const NAME = /^[a-z][a-z0-9_-]{0,63}$/;

/** Loads plugins beside each other, and none for ever; each is told when it is there. Names and action types are those of the first that has them. */
export async function loadPlugins(options: LoadPluginsOptions): Promise<void> {
  const { paths, takenNames, startLimitMs, onLoading, onLoaded, onFailed } = options;
  const names = new Set(takenNames);
  const types = new Set<string>();
  const load = async (path: string): Promise<void> => {
    onLoading(path);
    let created: unknown;
    try {
      created = await within(create(path, options), startLimitMs);
      const plugin = checkPlugin(created, names, types);
      names.add(plugin.name);
      for (const type of Object.keys(plugin.actions)) types.add(type);
      onLoaded(path, { executor: new PluginExecutor(plugin, startLimitMs), schemas: schemasOf(plugin) });
    } catch (error) {
      onFailed(path, messageOf(error));
      // One that is refused may run already.
      await within(stopped(created as Partial<Plugin> | undefined), STOP_LIMIT_MS).catch(ignore);
    }
  };
  await Promise.all(paths.map(load));
}

async function create(path: string, { host, account, startLimitMs }: LoadPluginsOptions): Promise<unknown> {
  if (!isModule(path)) {
    const onLog = (text: string): void => host.log.info(`plugin ${basename(path)}: ${text}`);
    return createProcessPlugin(
      { path, env: host.env, cwd: host.workingDir, account, helloLimitMs: startLimitMs, onLog },
      host,
    );
  }
  const module = (await importModule(pathToFileURL(path).href)) as { readonly default?: unknown };
  if (typeof module.default !== 'function') throw new Error('expected a function as the default export.');
  return module.default(host);
}

function checkPlugin(value: unknown, names: ReadonlySet<string>, types: ReadonlySet<string>): Plugin {
  const plugin = value as Partial<Plugin> | null | undefined;
  const name = plugin?.name;
  if (typeof name !== 'string' || !NAME.test(name)) throw new Error(`name: expected text like ${NAME.source}.`);
  if (names.has(name)) throw new Error(`name: there is a subsystem ${name} already.`);
  if (typeof plugin?.execute !== 'function') throw new Error('execute: expected a function.');
  const { actions } = plugin;
  if (typeof actions !== 'object' || actions === null || Object.keys(actions).length === 0) {
    throw new Error('actions: expected an object with the zod schema of the arguments for each action type.');
  }
  for (const [type, schema] of Object.entries(actions)) {
    if (isBuiltinAction(type) || types.has(type)) throw new Error(`actions.${type}: this type is served already.`);
    if (typeof schema?.safeParse !== 'function' || typeof schema.shape !== 'object') {
      throw new Error(`actions.${type}: expected a zod object, made with the z of the host.`);
    }
  }
  return plugin as Plugin;
}

function schemasOf({ actions }: Plugin): Map<string, ActionSchema> {
  return new Map(Object.entries(actions).map(([type, args]) => [type, addedAction(type, args)]));
}

/** A plugin as the dispatcher knows executors: whatever it does wrong is an answer or a state, never a crash. */
class PluginExecutor implements AnyExecutor {
  readonly name: string;
  readonly isOptional = true;
  readonly actionTypes: AnyExecutor['actionTypes'];
  readonly #plugin: Plugin;
  readonly #startLimitMs: number;
  #started: Promise<void> | undefined;
  #isStarted = false;
  #startFailure: string | undefined;

  constructor(plugin: Plugin, startLimitMs: number) {
    this.#plugin = plugin;
    this.#startLimitMs = startLimitMs;
    this.name = plugin.name;
    this.actionTypes = Object.keys(plugin.actions) as unknown as AnyExecutor['actionTypes'];
  }

  laneOf(action: Action): string | undefined {
    if (!this.#plugin.laneOf) return `${this.name}:default`;
    const lane: unknown = this.#plugin.laneOf(action);
    if (lane === undefined || typeof lane === 'string') return lane;
    throw new Error(`plugin ${this.name}: laneOf: expected text or undefined.`);
  }

  /** Does not wait: the plugin's first actions do. */
  start(): Promise<void> {
    this.#started ??= this.#begin();
    return Promise.resolve();
  }

  async #begin(): Promise<void> {
    try {
      await within(Promise.resolve(this.#plugin.start?.()), this.#startLimitMs);
      this.#isStarted = true;
    } catch (error) {
      this.#startFailure = `the plugin could not be started: ${messageOf(error)}`;
    }
  }

  async execute(action: Action, context: ActionContext): Promise<ActionResult> {
    await this.#started;
    if (this.#startFailure !== undefined) return { observation: errorObservation(this.#startFailure) };
    const { signal, late, clear } = limitOf(action, context);
    const execute = async (): Promise<{ readonly observation: unknown }> =>
      this.#plugin.execute(action, { ...context, signal });
    const result = await Promise.race([execute(), late.then(() => this.#unanswered())]).finally(clear);
    const observation: unknown = result?.observation;
    if (isObservation(observation)) return { observation };
    return {
      observation: errorObservation(
        `The plugin ${this.name} did not answer with {observation: {observation, content, extras}}.`,
      ),
    };
  }

  /** Nobody waits for a plugin that does not mind its signal; what it does goes on. */
  #unanswered(): ActionResult {
    const message = `The plugin ${this.name} did not end the action within ${ANSWER_GRACE_MS / 1000} s of being asked to: it may still be at work.`;
    return { observation: errorObservation(message) };
  }

  health(): SubsystemHealth {
    if (this.#startFailure !== undefined) return { status: 'failed', reason: this.#startFailure };
    if (!this.#isStarted) return { status: 'starting' };
    try {
      return this.#plugin.health?.() ?? { status: 'ready' };
    } catch (error) {
      return { status: 'failed', reason: `the plugin cannot tell its state: ${messageOf(error)}` };
    }
  }

  /** What it cannot tell, it has not. */
  sessions(): SessionInfo[] {
    try {
      return this.#plugin.sessions?.() ?? [];
    } catch {
      return [];
    }
  }

  async closeSession(lane: string): Promise<boolean> {
    try {
      return (await this.#plugin.closeSession?.(lane)) ?? false;
    } catch {
      return false;
    }
  }

  stop(): Promise<void> {
    return within(stopped(this.#plugin), STOP_LIMIT_MS).catch(ignore);
  }
}

async function stopped(plugin: Partial<Plugin> | null | undefined): Promise<void> {
  await plugin?.stop?.();
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

interface Limit {
  /** Aborted when the action is cancelled, the server stops or the action's time is over. */
  readonly signal: AbortSignal;
  /** Resolves when a plugin that minds the signal has answered. */
  readonly late: Promise<void>;
  readonly clear: () => void;
}

function limitOf({ timeout }: Action, context: ActionContext): Limit {
  const controller = new AbortController();
  const timers: NodeJS.Timeout[] = [];
  const late = new Promise<void>((resolve) => {
    controller.signal.addEventListener('abort', () => timers.push(setTimeout(resolve, ANSWER_GRACE_MS)));
  });
  const abort = (): void => controller.abort(context.signal.reason);
  if (timeout !== undefined) timers.push(setTimeout(abort, Math.min(MAX_TIMER_MS, timeout * 1000)));
  if (context.signal.aborted) abort();
  else context.signal.addEventListener('abort', abort);
  return {
    signal: controller.signal,
    late,
    clear: () => {
      for (const timer of timers) clearTimeout(timer);
      context.signal.removeEventListener('abort', abort);
    },
  };
}

async function within<T>(promise: Promise<T>, limitMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it took longer than ${limitMs / 1000} seconds.`)), limitMs);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

function ignore(): void {
  // The server ends, with or without it.
}

function isObservation(value: unknown): value is Observation {
  if (typeof value !== 'object' || value === null) return false;
  const { observation, content } = value as { observation?: unknown; content?: unknown };
  return typeof observation === 'string' && typeof content === 'string';
}
