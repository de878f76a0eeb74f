import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { EventLog, type EventLogOptions } from '../../src/events/event-log.ts';
import type { EventReader, LoggedEvent } from '../../src/events/types.ts';

export const KIB = 1024;
export const MIB = 1024 * 1024;
export const HEADER = 32;
export const FRAME = 8;

export interface TemporaryDirectory extends AsyncDisposable {
  readonly path: string;
}

export async function temporaryDirectory(): Promise<TemporaryDirectory> {
  const directory = await mkdtemp(path.join(tmpdir(), 'actiond-events-'));
  return { path: directory, [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) };
}

export interface OpenLog extends AsyncDisposable {
  readonly log: EventLog;
  readonly problems: string[];
}

/** Closes at the end of the scope, also after a failed assertion. */
export async function openLog(directory: string, options: Partial<EventLogOptions> = {}): Promise<OpenLog> {
  const problems: string[] = [];
  const onProblem = (text: string): void => void problems.push(text);
  const log = await EventLog.open({ directory, maxBytes: 1024 * MIB, maxAgeMs: 1e12, onProblem, ...options });
  return { log, problems, [Symbol.asyncDispose]: () => log.close() };
}

export async function readAll(log: EventReader, after = 0, maxEvents = 1000): Promise<LoggedEvent[]> {
  const events: LoggedEvent[] = [];
  for (;;) {
    const page = await log.read(events.at(-1)?.seq ?? after, { maxEvents, maxBytes: 256 * KIB });
    if (page.length === 0) return events;
    events.push(...page.map(({ json }) => JSON.parse(json.toString()) as LoggedEvent));
  }
}

export function seqsOf(events: readonly { readonly seq: number }[]): number[] {
  return events.map(({ seq }) => seq);
}

export function range(first: number, last: number): number[] {
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => first + at);
}

export async function filesOf(directory: string, suffix: string): Promise<string[]> {
  return (await readdir(directory)).filter((name) => name.endsWith(suffix)).toSorted();
}

export async function waitFor(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 2000; tries += 1) {
    if (condition()) return;
    await new Promise((resolve) => {
      setTimeout(resolve, 5);
    });
  }
  throw new Error('The condition did not come true within 10 s.');
}
