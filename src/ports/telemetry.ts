/**
 * Logs, counters and durations of the service, through one port. Names and labels of metrics are those of the table
 * `src/metrics/metrics.ts`.
 */
import type { Awaitable } from '../base/awaitable.ts';
import type { KnownLabel, MetricLabels, MetricName, NoLabels } from '../metrics/metrics.ts';

export type { MetricLabels, MetricName } from '../metrics/metrics.ts';

export type LogLevel = 'DEBUG' | 'INFO' | 'WARN' | 'ERROR';
export type Fields = Readonly<Record<string, unknown>>;

/** The least severe lines that this process writes. */
export interface LogLevelControl {
  get(): LogLevel;
  set(level: LogLevel): void;
}

/** The request that an observation is about; OpenMetrics shows the last one of each bucket of a histogram. */
export interface Exemplar {
  readonly requestId: string;
  readonly traceId?: string | undefined;
}

/** The labels of a metric that has none: one object for all calls. */
export const noLabels: NoLabels = {};

/**
 * Metrics by the names of the table. A call finds its series by the values of the labels, and reads those that the row
 * names: one object can serve several metrics, and what else it has is ignored. No call throws.
 */
export interface Metrics {
  /** Adds to a counter; `by` is 1 when absent. */
  count<N extends MetricName<'counter'>>(name: N, labels: MetricLabels<N>, by?: number): void;
  /** Sets a gauge; undefined removes its series, because another process shows it now, or nothing is known any more. */
  set<N extends MetricName<'gauge'>>(name: N, labels: MetricLabels<N>, value: number | undefined): void;
  /** Sets a gauge for these labels, and removes all others of its series. */
  replace<N extends MetricName<'gauge'>>(
    name: N,
    series: Iterable<readonly [labels: MetricLabels<N>, value: number]>,
  ): void;
  /** Adds a value to a histogram, in the unit of its name. */
  observe<N extends MetricName<'histogram'>>(
    name: N,
    labels: MetricLabels<N>,
    value: number,
    exemplar?: Exemplar,
  ): void;
  /** Exports the rows that have the label at 0 for the value, where their `from0` says `known`. */
  know(label: KnownLabel, value: string): void;
  /** Calls the function whenever metrics are about to be read; it must be quick. */
  onRead(sample: () => Awaitable<void>): void;
  /** The text of `/metrics`, in the Prometheus exposition format or in OpenMetrics. */
  metrics(format?: ExpositionFormat): Promise<string>;
}

export type ExpositionFormat = 'text' | 'openmetrics';

export interface Telemetry extends Metrics {
  /**
   * @param kind lines of one level, message, kind and account within a minute are counted, and only the first is written
   * @param account whose requests or configuration cause the line, and may choose the kind
   */
  log(level: LogLevel, message: string, fields?: Fields, kind?: string, account?: string): void;
}

/** Discards everything; for embedding and tests. */
export const silentTelemetry: Telemetry = {
  log() {},
  count() {},
  set() {},
  replace() {},
  observe() {},
  know() {},
  onRead() {},
  metrics: async () => '# metrics are not collected on this runtime\n',
};
