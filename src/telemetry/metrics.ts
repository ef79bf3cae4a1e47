/** What is measured, as a table; and how the rest of telemetry asks for it. */
import type { Awaitable } from '../base/awaitable.ts';
import { deliveries } from './delivery-metrics.ts';
import type { KnownLabel, Measurement } from './measurement.ts';
import { requests } from './request-metrics.ts';
import { engines, storage } from './storage-metrics.ts';
import { workers } from './worker-metrics.ts';

export type { KnownLabel, Measurement } from './measurement.ts';

/** Each group is a dashboard in `deploy/observability`. */
export const measurementGroups = { requests, storage, workers, deliveries, engines } as const;

export const measurements = { ...requests, ...storage, ...workers, ...deliveries, ...engines };

type MetricName = keyof typeof measurements;
type NameOf<K extends Measurement['kind']> = {
  [N in MetricName]: (typeof measurements)[N]['kind'] extends K ? N : never;
}[MetricName];

/** One set of labels of a counter or gauge. Keep it where a value changes often: to find it costs more than to change it. */
export interface Meter {
  value: number;
}

/** One set of labels of a histogram. */
export interface TallyMeter {
  /** Request and trace become the exemplar of the value's bucket. */
  observe(seconds: number, requestId?: string, traceId?: string): void;
}

export type ExpositionFormat = 'text' | 'openmetrics';

/** Label values in the order of the table. */
export interface Metrics {
  meter(name: NameOf<'counter' | 'gauge'>, labels: readonly string[]): Meter;
  tally(name: NameOf<'histogram'>, labels: readonly string[]): TallyMeter;
  /** @param amount 1 unless given */
  add(name: NameOf<'counter'>, labels: readonly string[], amount?: number): void;
  set(name: NameOf<'gauge'>, labels: readonly string[], value: number): void;
  remove(name: NameOf<'counter' | 'gauge'>, labels: readonly string[]): void;
  /** Sets a metric for these labels and no others. */
  replace(name: NameOf<'counter' | 'gauge'>, values: readonly (readonly [readonly string[], number])[]): void;
  observe(name: NameOf<'histogram'>, labels: readonly string[], seconds: number): void;
  /** Exports the rows that have the label at 0 for the value, where they say so. */
  know(label: KnownLabel, value: string): void;
  /** Called whenever metrics are about to be read. */
  onRead(sample: () => Awaitable<void>): void;
  /** The exposition of the whole node. */
  text(format?: ExpositionFormat): Promise<string>;
}

/** Where prom-client does not load. */
export const noMetrics: Metrics = {
  meter: () => ({ value: 0 }),
  tally: () => ({ observe() {} }),
  add: () => {},
  set: () => {},
  remove: () => {},
  replace: () => {},
  observe: () => {},
  know: () => {},
  onRead: () => {},
  text: async () => '# metrics are not collected on this runtime\n',
};
