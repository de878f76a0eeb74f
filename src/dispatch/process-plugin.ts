import type { ZodObject } from 'zod';
import type { ActionContext } from './executor.ts';
import { PluginProcess, type PluginProcessOptions } from './plugin-process.ts';
import type { Plugin, PluginAction, PluginHost, PluginResult } from './plugin.ts';

/** What a process plugin says first. */
interface Hello {
  readonly name: string;
  readonly schemas: Readonly<Record<string, object>>;
}

/**
 * A plugin that is a program of its own, in any language: it is started now, and anew by the next action when it has ended.
 * `docs/extending.md` has the protocol.
 *
 * @throws when it cannot be started, ends, or says something else than `hello`
 */
export async function createProcessPlugin(options: PluginProcessOptions, host: PluginHost): Promise<Plugin> {
  let running: PluginProcess | undefined;
  let failure: string | undefined;
  let isStopped = false;

  const begin = async (): Promise<Hello> => {
    const child = new PluginProcess(options, (reason) => {
      if (running === child) running = undefined;
      failure = reason;
      if (!isStopped) host.log.warn(`plugin ${options.path}: ${reason}`);
    });
    const hello = helloOf(await child.hello(host.workingDir));
    running = child;
    failure = undefined;
    return hello;
  };

  const stopRunning = async (): Promise<void> => {
    isStopped = true;
    await running?.stop();
  };

  const { name, schemas } = await begin();
  const schemaOf = (type: string): ZodObject => asObject(type, host.z.fromJSONSchema(schemas[type] as never));
  let actions: Record<string, ZodObject>;
  try {
    actions = Object.fromEntries(Object.keys(schemas).map((type) => [type, schemaOf(type)]));
  } catch (error) {
    // A program that is of no use does not stay.
    await stopRunning();
    throw error;
  }
  const restarted = async (): Promise<PluginProcess> => {
    if (running) return running;
    if (isStopped) throw new Error('The server is stopping.');
    await begin();
    return running as unknown as PluginProcess;
  };
  return {
    name,
    actions,
    // One after another, so that two actions do not start it twice.
    async execute(action: PluginAction, context: ActionContext): Promise<PluginResult> {
      const child = await restarted();
      return child.execute(action, { ...context, currentDir: host.currentDir() });
    },
    health: () => (running ? { status: 'ready' } : { status: 'failed', reason: failure ?? 'it has ended' }),
    stop: stopRunning,
  };
}

function helloOf(message: Readonly<Record<string, unknown>>): Hello {
  const { kind, name, actions } = message;
  if (kind !== 'hello' || typeof name !== 'string')
    throw new Error('its first line is no {"kind": "hello", "name": …}.');
  if (typeof actions !== 'object' || actions === null) {
    throw new Error('hello.actions: expected an object with the JSON Schema of the arguments for each action type.');
  }
  return { name, schemas: actions as Hello['schemas'] };
}

function asObject(type: string, schema: unknown): ZodObject {
  if (typeof schema === 'object' && schema !== null && 'shape' in schema) return schema as ZodObject;
  throw new Error(`hello.actions.${type}: expected a JSON Schema of type object.`);
}
