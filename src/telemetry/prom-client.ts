/** Metrics through prom-client, which is imported here alone; loaded only where it runs (Node, Bun, Deno). */
import {
  AggregatorRegistry,
  collectDefaultMetrics,
  type Histogram,
  type MetricObjectWithValues,
  type MetricValueWithName,
  Registry,
} from 'prom-client';
import type { Awaitable } from '../base/awaitable.ts';
import { cacheLookups, cacheSizes } from '../base/bounded-cache.ts';
import { zeroSets } from './measurement.ts';
import {
  type ExpositionFormat,
  type Measurement,
  type Meter,
  type Metrics,
  measurements,
} from './metrics.ts';

/** What one process measured, in a form that can be sent to another. */
export type ProcessMetrics = readonly ExposedMetric[];

interface PromOptions {
  readonly version: string;
  readonly runtime: string;
  /** Adds what the other processes of this node measured; absent where there is one process. */
  readonly gather?: (own: ProcessMetrics) => Promise<readonly ProcessMetrics[]>;
  /** CPU, memory, event loop and handles of the process. Default true. */
  readonly process?: boolean;
}

export interface PromMetrics extends Metrics {
  /** What this process alone measured. */
  own(): Promise<ProcessMetrics>;
}

export function promMetrics({ version, runtime, gather, process = true }: PromOptions): PromMetrics {
  const register = new Registry();
  const numbers = new Map<string, NumberMetric>();
  const tallies = new Map<string, Tally>();
  for (const [name, row] of Object.entries<Measurement>(measurements)) {
    const metric = row.kind === 'histogram' ? newTally(name, row) : new NumberMetric(name, row);
    if (metric instanceof Tally) tallies.set(name, metric);
    else numbers.set(name, metric);
    // A registry asks a metric for its name and its values.
    register.registerMetric(metric as unknown as Histogram);
  }
  if (process) collectProcess(register);
  const number = (name: string): NumberMetric => numbers.get(name) as NumberMetric;
  /** To find a child again costs less than to make it. */
  const children = new Map<string, Map<string, TallyChild>>();
  const tally = (name: string, labels: readonly string[]): TallyChild => {
    const known = children.get(name) ?? new Map<string, TallyChild>();
    children.set(name, known);
    const id = labels.length === 1 ? (labels[0] as string) : JSON.stringify(labels);
    const found = known.get(id) ?? (tallies.get(name) as Tally).labels(...labels);
    known.set(id, found);
    return found;
  };
  const known = new Map<string, Set<string>>();
  const exportZeros = (): void => {
    for (const [name, row] of Object.entries<Measurement>(measurements))
      for (const labels of zeroSets(row, known))
        if (row.kind === 'histogram') tally(name, labels);
        else number(name).meter(labels);
  };
  exportZeros();
  const samples: (() => Awaitable<void>)[] = [() => sampleCaches(metrics)];
  const own = async (): Promise<ProcessMetrics> => {
    // A sample that fails is missing; the others are shown.
    await Promise.allSettled(samples.map(async (sample) => sample()));
    return (await register.getMetricsAsJSON()) as unknown as ProcessMetrics;
  };
  const metrics: PromMetrics = {
    meter: (name, labels) => number(name).meter(labels),
    tally,
    add: (name, labels, amount = 1) => {
      number(name).meter(labels).value += amount;
    },
    set: (name, labels, value) => {
      number(name).meter(labels).value = value;
    },
    remove: (name, labels) => number(name).remove(labels),
    replace: (name, values) => {
      number(name).clear();
      for (const [labels, value] of values) number(name).meter(labels).value = value;
    },
    observe: (name, labels, seconds) => tally(name, labels).observe(seconds),
    know: (label, value) => {
      const values = known.get(label) ?? new Set();
      if (values.has(value)) return;
      known.set(label, values.add(value));
      exportZeros();
    },
    onRead: (sample) => samples.push(sample),
    own,
    async text(format = 'text') {
      const mine = await own();
      // An aggregate of one is what a single process would show, so there is one path.
      const parts = gather === undefined ? [mine] : await gather(mine);
      const node = gather === undefined ? mine : await sumMetrics(parts);
      return expose(node, format, format === 'openmetrics' ? gatherExemplars(parts) : undefined);
    },
  };
  metrics.set('svc_build_info', [version, runtime], 1);
  return metrics;
}

/** Gauges whose names end like those of counters; `nodejs_active_resources` has the same by kind. */
const misnamed = ['resources', 'handles', 'requests'].map((of) => `nodejs_active_${of}_total`);
const hourMs = 60 * 60 * 1000;

/** The usual `process_*` and `nodejs_*` metrics. Their delay of the event loop wakes the process, and `svc_event_loop_lag_seconds` measures it. */
function collectProcess(register: Registry): void {
  collectDefaultMetrics({ register, eventLoopMonitoringPrecision: hourMs });
  for (const { name } of register.getMetricsAsArray())
    if (name.startsWith('nodejs_eventloop_lag') || misnamed.includes(name)) register.removeSingleMetric(name);
}

const newTally = (name: string, row: Measurement): Tally =>
  new Tally({
    name,
    help: row.doc,
    labelNames: row.labels,
    aggregator: row.across ?? 'sum',
    buckets: row.buckets ?? [],
  });

/** Of several processes, each metric by its own way to be summed up. */
export async function sumMetrics(parts: readonly ProcessMetrics[]): Promise<ProcessMetrics> {
  const node = AggregatorRegistry.aggregate([...parts] as never);
  return (await node.getMetricsAsJSON()) as unknown as ProcessMetrics;
}

function sampleCaches(metrics: Metrics): void {
  const sizes = [...cacheSizes()];
  const lookups = [...cacheLookups()];
  metrics.replace(
    'svc_cache_entries',
    sizes.map(([name, { entries }]) => [[name], entries] as const),
  );
  metrics.replace(
    'svc_cache_bytes',
    sizes.map(([name, { bytes }]) => [[name], bytes] as const),
  );
  metrics.replace(
    'svc_cache_hits_total',
    lookups.map(([name, { hits }]) => [[name], hits] as const),
  );
  metrics.replace(
    'svc_cache_misses_total',
    lookups.map(([name, { misses }]) => [[name], misses] as const),
  );
}

// The text of `/metrics`: in Prometheus' own format, or in OpenMetrics, which alone has exemplars. prom-client's writer for OpenMetrics
// renames the metrics that it writes and loses the exemplars of several processes.

type Value = MetricValueWithName<string> & { readonly exemplar?: Exemplar };
type ExposedMetric = MetricObjectWithValues<Value>;

const escapeHelp = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
const escapeLabel = (text: string): string => escapeHelp(text).replaceAll('"', '\\"');

const labelsText = (labels: Partial<Record<string, string | number>> = {}): string =>
  Object.entries(labels)
    .map(([name, value]) => `${name}="${escapeLabel(String(value))}"`)
    .join(',');

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (Number.isFinite(value)) return String(value);
  return value > 0 ? '+Inf' : '-Inf';
}

/** Identifies a value among those of all processes. */
const seriesOf = (name: string, { metricName = name, labels }: Value): string =>
  `${metricName}{${labelsText(labels)}}`;

/** @param exemplars by series; for OpenMetrics only */
function expose(
  metrics: readonly ExposedMetric[],
  format: ExpositionFormat,
  exemplars: ReadonlyMap<string, Exemplar> = new Map(),
): string {
  const isOpen = format === 'openmetrics';
  const lines: string[] = [];
  for (const { name, help, type, values = [] } of metrics) {
    // In OpenMetrics the family of a counter has no suffix, and each of its values has.
    const family = isOpen && String(type) === 'counter' ? name.replace(/_total$/, '') : name;
    lines.push(`# HELP ${family} ${escapeHelp(help)}`, `# TYPE ${family} ${type}`);
    for (const value of values) {
      const { metricName = name, labels } = value;
      const suffixed = isOpen && String(type) === 'counter' ? `${family}_total` : metricName;
      const inner = labelsText(labels);
      const exemplar = isOpen ? exemplars.get(seriesOf(name, value)) : undefined;
      lines.push(
        `${suffixed}${inner === '' ? '' : `{${inner}}`} ${numberText(value.value)}${exemplarText(exemplar)}`,
      );
    }
    if (!isOpen) lines.push('');
  }
  return isOpen ? `${lines.join('\n')}\n# EOF\n` : `${lines.join('\n')}\n`;
}

const exemplarText = (exemplar: Exemplar | undefined): string =>
  exemplar === undefined ? '' : ` # {${labelsText(exemplar.labelSet)}} ${numberText(exemplar.value)}`;

/** The first exemplar of each series in any process. */
function gatherExemplars(parts: readonly (readonly ExposedMetric[])[]): ReadonlyMap<string, Exemplar> {
  const found = new Map<string, Exemplar>();
  for (const { name, values = [] } of parts.flat())
    for (const value of values) if (value.exemplar) found.set(seriesOf(name, value), value.exemplar);
  return found;
}

/**
 * A counter or gauge whose change is an addition to a field; prom-client's own hashes its labels anew each time. To a registry of
 * prom-client it is a metric like any other.
 */
class NumberMetric {
  readonly name: string;
  readonly #row: Measurement;
  readonly #meters = new Map<string, Meter & { readonly labels: Readonly<Record<string, string>> }>();

  constructor(name: string, row: Measurement) {
    this.name = name;
    this.#row = row;
    if (row.labels.length === 0) this.meter([]);
  }

  meter(values: readonly string[]): Meter {
    const id = idOf(values);
    let found = this.#meters.get(id);
    if (found === undefined) {
      const labels = Object.fromEntries(this.#row.labels.map((label, i) => [label, values[i] ?? '']));
      found = { labels, value: 0 };
      this.#meters.set(id, found);
    }
    return found;
  }

  remove(values: readonly string[]): void {
    this.#meters.delete(idOf(values));
  }

  /** A meter that was handed out before no longer counts. */
  clear(): void {
    this.#meters.clear();
  }

  /** What a registry asks of a metric. */
  async get(): Promise<MetricObjectWithValues<MetricValueWithName<string>>> {
    const { doc, kind, across = 'sum' } = this.#row;
    const values = [...this.#meters.values()].map(({ labels, value }) => ({
      labels,
      value,
      metricName: this.name,
    }));
    return { name: this.name, help: doc, type: kind, aggregator: across, values } as never;
  }
}

const idOf = (values: readonly string[]): string =>
  values.length === 1 ? (values[0] as string) : JSON.stringify(values);

// A histogram whose observation is an addition to an array; prom-client's own hashes its labels anew each time, which is 5 % of a small
// request. To a registry of prom-client it is a metric like any other.

interface TallyOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly aggregator: 'sum' | 'max' | 'min' | 'first';
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[];
}

interface Exemplar {
  readonly labelSet: Readonly<Record<string, string>>;
  readonly value: number;
}

/** What was observed under one set of labels. */
class TallyChild {
  readonly #bounds: readonly number[];
  /** Observations by bucket; the last one is for what lies above every bound. */
  readonly #counts: Float64Array;
  /** The last request of each bucket, its trace, and its value. */
  readonly #requestIds: (string | undefined)[];
  readonly #traceIds: (string | undefined)[];
  readonly #exemplarValues: Float64Array;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
    this.#requestIds = Array.from({ length: bounds.length + 1 });
    this.#traceIds = Array.from({ length: bounds.length + 1 });
    this.#exemplarValues = new Float64Array(bounds.length + 1);
  }

  observe(value: number, requestId?: string, traceId?: string): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1;
    this.#sum += value;
    if (requestId === undefined) return;
    this.#requestIds[bucket] = requestId;
    this.#traceIds[bucket] = traceId;
    this.#exemplarValues[bucket] = value;
  }

  /** Cumulative, as the exposition format wants them. */
  values(name: string, labels: Readonly<Record<string, string>>): Value[] {
    let count = 0;
    const values: Value[] = [...this.#bounds, '+Inf'].map((le, bucket) => {
      count += this.#counts[bucket] as number;
      const requestId = this.#requestIds[bucket];
      const traceId = this.#traceIds[bucket];
      return {
        labels: { le, ...labels },
        value: count,
        metricName: `${name}_bucket`,
        ...(requestId === undefined
          ? {}
          : {
              exemplar: {
                labelSet: {
                  ...(traceId === undefined ? {} : { trace_id: traceId }),
                  request_id: requestId,
                },
                value: this.#exemplarValues[bucket] as number,
              },
            }),
      };
    });
    values.push({ labels, value: this.#sum, metricName: `${name}_sum` });
    values.push({ labels, value: count, metricName: `${name}_count` });
    return values;
  }
}

class Tally {
  readonly name: string;
  readonly #options: TallyOptions;
  readonly #children: { readonly labels: Readonly<Record<string, string>>; readonly child: TallyChild }[] =
    [];

  constructor(options: TallyOptions) {
    this.name = options.name;
    this.#options = options;
  }

  /** Creates a child; the caller keeps it. */
  labels(...values: readonly string[]): TallyChild {
    const labels = Object.fromEntries(this.#options.labelNames.map((name, i) => [name, values[i] ?? '']));
    const child = new TallyChild(this.#options.buckets);
    this.#children.push({ labels, child });
    return child;
  }

  /** What a registry asks of a metric. */
  async get(): Promise<Omit<MetricObjectWithValues<Value>, 'collect' | 'type'> & { type: 'histogram' }> {
    const { name, help, aggregator } = this.#options;
    const values = this.#children.flatMap(({ labels, child }) => child.values(name, labels));
    return { name, help, type: 'histogram', aggregator, values };
  }
}
