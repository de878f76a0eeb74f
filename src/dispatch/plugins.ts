import { pathToFileURL } from 'node:url';
import type { z } from 'zod';
import { importModule } from '../import-module.ts';
import { type Action, type ActionSchema, addedAction, isBuiltinAction } from '../protocol/actions.ts';
import { errorObservation, type Observation } from '../protocol/observations.ts';
import type { SessionInfo } from '../protocol/http.ts';
import type { ActionContext, ActionResult, AnyExecutor, SubsystemHealth } from './executor.ts';

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

/** An executor made of a plugin, with the schemas of its action types. */
export interface LoadedPlugin {
  readonly executor: AnyExecutor;
  readonly schemas: ReadonlyMap<string, ActionSchema>;
}

export interface LoadPluginsOptions {
  /** Absolute. */
  readonly paths: readonly string[];
  readonly host: PluginHost;
  /** Names of subsystems that no plugin may have. */
  readonly takenNames: Iterable<string>;
  /** For loading one plugin, and for starting it. */
  readonly startLimitMs: number;
}

export interface PluginFailure {
  readonly path: string;
  readonly reason: string;
}

/** The whole shutdown has five seconds. */
const STOP_LIMIT_MS = 1000;
const NAME = /^[a-z][a-z0-9_-]{0,63}$/;

/** Loads plugin modules one after another, and none for ever; one that fails is told and left out. Names and action types are unique. */
export async function loadPlugins({
  paths,
  host,
  takenNames,
  startLimitMs,
}: LoadPluginsOptions): Promise<{ plugins: LoadedPlugin[]; failures: PluginFailure[] }> {
  const plugins: LoadedPlugin[] = [];
  const failures: PluginFailure[] = [];
  const names = new Set(takenNames);
  const types = new Set<string>();
  for (const path of paths) {
    try {
      const plugin = checkPlugin(await within(create(path, host), startLimitMs), names, types);
      names.add(plugin.name);
      for (const type of Object.keys(plugin.actions)) types.add(type);
      plugins.push({ executor: new PluginExecutor(plugin, startLimitMs), schemas: schemasOf(plugin) });
    } catch (error) {
      failures.push({ path, reason: error instanceof Error ? error.message : String(error) });
    }
  }
  return { plugins, failures };
}

async function create(path: string, host: PluginHost): Promise<unknown> {
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
    return this.#plugin.laneOf ? this.#plugin.laneOf(action) : `${this.name}:default`;
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
      this.#startFailure = `the plugin could not be started: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  async execute(action: Action, context: ActionContext): Promise<ActionResult> {
    await this.#started;
    if (this.#startFailure !== undefined) return { observation: errorObservation(this.#startFailure) };
    const result = await this.#plugin.execute(action, context);
    const observation: unknown = result?.observation;
    if (isObservation(observation)) return { observation };
    return {
      observation: errorObservation(
        `The plugin ${this.name} did not answer with {observation: {observation, content, extras}}.`,
      ),
    };
  }

  health(): SubsystemHealth {
    if (this.#startFailure !== undefined) return { status: 'failed', reason: this.#startFailure };
    if (!this.#isStarted) return { status: 'starting' };
    return this.#plugin.health?.() ?? { status: 'ready' };
  }

  sessions(): SessionInfo[] {
    return this.#plugin.sessions?.() ?? [];
  }

  async closeSession(lane: string): Promise<boolean> {
    return (await this.#plugin.closeSession?.(lane)) ?? false;
  }

  async stop(): Promise<void> {
    await within(Promise.resolve(this.#plugin.stop?.()), STOP_LIMIT_MS).catch(ignore);
  }
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
