/** Metrics through prom-client, which is imported here alone; loaded only where it runs (Node, Bun, Deno). */
import {
  AggregatorRegistry,
  Counter,
  collectDefaultMetrics,
  Gauge,
  type Histogram,
  type MetricObject,
  Registry,
} from 'prom-client';
import { cacheSizes } from '../base/bounded-cache.ts';
import { type Measurement, type Metrics, measurements } from './metrics.ts';
import { Tally } from './tally.ts';

/** What one process measured, in a form that can be sent to another. */
export type ProcessMetrics = readonly MetricObject[];

export interface PromOptions {
  readonly version: string;
  readonly runtime: string;
  /** Adds what the other processes of this node measured; absent where there is one process. */
  readonly gather?: (own: ProcessMetrics) => Promise<readonly ProcessMetrics[]>;
  /** CPU, memory, event loop and handles of the process. Default true. */
  readonly process?: boolean;
  /** Bytes of this process's memory by kind, asked whenever metrics are read. */
  readonly memory?: () => readonly (readonly [kind: string, bytes: number])[];
}

export interface PromMetrics extends Metrics {
  /** What this process alone measured. */
  own(): Promise<ProcessMetrics>;
}

type Metric = Counter | Gauge | Tally;

function makeMetric(name: string, row: Measurement, register: Registry): Metric {
  const base = {
    name,
    help: row.doc,
    labelNames: row.labels,
    registers: [register],
    aggregator: row.across ?? 'sum',
  };
  switch (row.kind) {
    case 'counter':
      return new Counter(base);
    case 'gauge':
      return new Gauge(base);
    case 'histogram': {
      const tally = new Tally({ ...base, buckets: row.buckets ?? [] });
      // A registry asks a metric for its name and its values.
      register.registerMetric(tally as unknown as Histogram);
      return tally;
    }
  }
}

export function promMetrics({ version, runtime, gather, process = true, memory }: PromOptions): PromMetrics {
  const register = new Registry();
  const made = new Map(
    Object.entries(measurements).map(([name, row]) => [name, makeMetric(name, row, register)]),
  );
  /** Children by metric and label values: finding one again costs less than making it. */
  const children = new Map(
    [...made.keys()].map((name) => [name, new Map<string, ReturnType<Metric['labels']>>()]),
  );
  const child = <T extends Metric>(name: string, labels: readonly string[]): ReturnType<T['labels']> => {
    const known = children.get(name) as Map<string, ReturnType<Metric['labels']>>;
    const id = labels.length === 1 ? (labels[0] as string) : JSON.stringify(labels);
    let found = known.get(id);
    if (found === undefined) {
      found = (made.get(name) as Metric).labels(...labels);
      known.set(id, found);
    }
    return found as ReturnType<T['labels']>;
  };
  if (process) collectDefaultMetrics({ register });
  const sample = (): void => {
    const sizes = [...cacheSizes()];
    metrics.replace(
      'svc_cache_entries',
      sizes.map(([name, { entries }]) => [[name], entries] as const),
    );
    metrics.replace(
      'svc_cache_bytes',
      sizes.map(([name, { bytes }]) => [[name], bytes] as const),
    );
    if (memory)
      metrics.replace(
        'svc_memory_bytes',
        memory().map(([kind, bytes]) => [[kind], bytes] as const),
      );
  };
  const own = async (): Promise<ProcessMetrics> => {
    sample();
    return (await register.getMetricsAsJSON()) as unknown as ProcessMetrics;
  };
  const metrics: PromMetrics = {
    add: (name, labels, amount = 1) => child<Counter>(name, labels).inc(amount),
    set: (name, labels, value) => child<Gauge>(name, labels).set(value),
    replace: (name, values) => {
      (made.get(name) as Gauge).reset();
      children.get(name)?.clear();
      for (const [labels, value] of values) child<Gauge>(name, labels).set(value);
    },
    observe: (name, labels, seconds) => child<Tally>(name, labels).observe(seconds),
    own,
    async text() {
      if (gather === undefined) {
        sample();
        return register.metrics();
      }
      // An aggregate of one is what a single process would show, so there is one path.
      return AggregatorRegistry.aggregate([...(await gather(await own()))]).metrics();
    },
  };
  metrics.set('svc_build_info', [version, runtime], 1);
  return metrics;
}
