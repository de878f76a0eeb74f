import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { CallSummary } from '../dispatch/dispatcher.ts';

/** What is read when somebody asks. */
export interface MetricsSources {
  readonly sessions: () => number;
  readonly inFlight: () => number;
  readonly running: () => number;
  readonly log: () => {
    readonly bytes: number;
    readonly segments: number;
    readonly appended: number;
    readonly syncs: number;
    readonly lastSyncMs: number;
    readonly isWritable: boolean;
  };
  readonly subscribers: () => number;
  readonly droppedReaders: () => number;
}

/** Seconds; an echo takes below a millisecond, a build minutes. */
const DURATION_BUCKETS = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60, 300, 1800];
/** Names of unknown arguments that are counted one by one; clients could invent them without end. */
const MAX_UNKNOWN_NAMES = 1000;
const LOOP_RESOLUTION_MS = 20;
const NANOSECONDS = 1e9;

/** Prometheus metrics of one server (`GET /metrics`). */
export class Metrics {
  readonly #registry = new Registry();
  readonly #actions: Counter<'type' | 'outcome'>;
  readonly #queued: Histogram<'type'>;
  readonly #duration: Histogram<'type'>;
  readonly #outputBytes: Counter;
  readonly #unknownArgs: Counter<'name'>;
  readonly #unknownNames = new Set<string>();
  readonly #loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });

  constructor(sources: MetricsSources) {
    const registers = [this.#registry];
    this.#actions = new Counter({
      name: 'actiond_actions_total',
      help: 'Actions that ended',
      labelNames: ['type', 'outcome'],
      registers,
    });
    this.#queued = new Histogram({
      name: 'actiond_action_queue_seconds',
      help: 'Time an action waited in its lane',
      labelNames: ['type'],
      buckets: DURATION_BUCKETS,
      registers,
    });
    this.#duration = new Histogram({
      name: 'actiond_action_duration_seconds',
      help: 'Time an action was at work',
      labelNames: ['type'],
      buckets: DURATION_BUCKETS,
      registers,
    });
    this.#outputBytes = new Counter({
      name: 'actiond_output_bytes_total',
      help: 'Live output of actions',
      registers,
    });
    this.#unknownArgs = new Counter({
      name: 'actiond_unknown_args_total',
      help: 'Arguments of newer clients that were ignored, by action type and name',
      labelNames: ['name'],
      registers,
    });
    this.#addGauges(sources);
    this.#loop.enable();
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  /**
   * Counts an argument that was ignored, e.g. `run.newer`.
   * @returns whether it is the first of its name
   */
  countUnknownArg(name: string): boolean {
    const isNew = !this.#unknownNames.has(name) && this.#unknownNames.size < MAX_UNKNOWN_NAMES;
    if (isNew) this.#unknownNames.add(name);
    this.#unknownArgs.inc({ name: this.#unknownNames.has(name) ? name : 'other' });
    return isNew;
  }

  observe({ call, outcome, queuedMs, durationMs }: CallSummary): void {
    const type = call.action.action;
    this.#actions.inc({ type, outcome });
    this.#queued.observe({ type }, queuedMs / 1000);
    this.#duration.observe({ type }, durationMs / 1000);
  }

  countOutput(bytes: number): void {
    this.#outputBytes.inc(bytes);
  }

  stop(): void {
    this.#loop.disable();
  }

  #addGauges(sources: MetricsSources): void {
    const gauges: readonly (readonly [name: string, help: string, read: () => number])[] = [
      ['actiond_actions_in_flight', 'Actions at work or waiting', sources.inFlight],
      ['actiond_actions_running', 'Actions at work', sources.running],
      ['actiond_sessions', 'Shells, kernels and browser contexts', sources.sessions],
      ['actiond_event_log_bytes', 'Size of the event log on disk', () => sources.log().bytes],
      ['actiond_event_log_segments', 'Files of the event log', () => sources.log().segments],
      ['actiond_event_log_appended', 'Events appended since the start', () => sources.log().appended],
      ['actiond_event_log_syncs', 'Writes to disk since the start', () => sources.log().syncs],
      ['actiond_event_log_sync_seconds', 'Duration of the last write to disk', () => sources.log().lastSyncMs / 1000],
      ['actiond_event_log_writable', '1 while events can be written', () => (sources.log().isWritable ? 1 : 0)],
      ['actiond_subscribers', 'Readers of the event stream', sources.subscribers],
      [
        'actiond_dropped_readers',
        'Readers closed because they did not keep up, since the start',
        sources.droppedReaders,
      ],
      ['actiond_resident_memory_bytes', 'Resident memory of the server', () => process.memoryUsage.rss()],
      ['actiond_event_loop_delay_seconds', 'Mean delay of the event loop', () => seconds(this.#loop.mean)],
      [
        'actiond_event_loop_delay_max_seconds',
        'Longest delay of the event loop since the last look',
        () => this.#takeLongest(),
      ],
    ];
    for (const [name, help, read] of gauges) {
      const gauge = new Gauge({
        name,
        help,
        registers: [],
        collect() {
          this.set(read());
        },
      });
      this.#registry.registerMetric(gauge);
    }
  }

  #takeLongest(): number {
    const longest = seconds(this.#loop.max);
    this.#loop.reset();
    return longest;
  }
}

function seconds(nanoseconds: number): number {
  return Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds / NANOSECONDS) : 0;
}
