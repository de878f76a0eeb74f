import type { LoggedEvent } from '../../src/events/types.ts';
import type { RunOptions, TestReply, TestServer } from './server.ts';

/** An action as `GET /actions/{id}` shows it. */
export interface ShownAction {
  readonly action_id: string;
  readonly action: { readonly action: string; readonly args: { readonly command?: string } };
  readonly status: string;
  readonly lane: string | null;
  readonly created: string;
  readonly started: string | null;
  readonly finished: string | null;
  readonly observation?: {
    readonly observation: string;
    readonly content: string;
    readonly extras: { readonly metadata?: { readonly exit_code: number; readonly suffix: string } };
  };
}

/** A blocking `run` of 100 s, unless said otherwise. */
export function runOf(command: string, { timeout = 100, ...args }: RunOptions = {}): object {
  return { action: 'run', args: { command, blocking: true, ...args }, timeout };
}

export function post(
  server: TestServer,
  action: object,
  headers?: Readonly<Record<string, string>>,
): Promise<TestReply> {
  return server.request('POST', '/execute_action', { action }, headers);
}

/** Sends a `run` and does not wait for its end. @returns its id */
export async function begin(server: TestServer, command: string, options?: RunOptions): Promise<string> {
  const { status, json } = await post(server, runOf(command, options), { prefer: 'respond-async' });
  if (status !== 202) throw new Error(`HTTP ${status}: ${JSON.stringify(json)}`);
  return json.action_id as string;
}

/** As it is now. */
export async function look(server: TestServer, id: string): Promise<ShownAction> {
  return record(await server.request('GET', `/actions/${id}`));
}

/** Once it is over. */
export async function ended(server: TestServer, id: string): Promise<ShownAction> {
  return record(await server.request('GET', `/actions/${id}?wait=60`));
}

export async function cancel(server: TestServer, id: string): Promise<ShownAction> {
  return record(await server.request('POST', `/actions/${id}/cancel`));
}

function record({ status, json }: TestReply): ShownAction {
  if (status !== 200) throw new Error(`HTTP ${status}: ${JSON.stringify(json)}`);
  return json as ShownAction;
}

/** All events so far, or those of one action. */
export async function eventsOf(server: TestServer, actionId?: string): Promise<LoggedEvent[]> {
  const events: LoggedEvent[] = [];
  const filter = actionId === undefined ? '' : `&action_id=${actionId}`;
  for (let after = 0; ;) {
    const { status, json } = await server.request('GET', `/events?limit=1000&after=${after}${filter}`);
    if (status !== 200) throw new Error(`HTTP ${status}: ${JSON.stringify(json)}`);
    events.push(...(json.events as LoggedEvent[]));
    if (json.next >= json.latest) return events;
    after = json.next as number;
  }
}

/** The live output among events. */
export function outputOf(events: readonly LoggedEvent[]): string {
  return events.map((event) => (event.kind === 'output' ? String(event['text']) : '')).join('');
}
