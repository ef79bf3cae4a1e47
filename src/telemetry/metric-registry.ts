/**
 * Metrics of one process, and of the processes of its node together: their series, and the text of `/metrics`.
 */
import type { Awaitable } from '../base/awaitable.ts';
import { cacheLookups, cacheSizes } from '../base/bounded-cache.ts';
import type { MetricRow } from '../metrics/metric-row.ts';
import { metricTable } from '../metrics/metrics.ts';
import type { Exemplar, ExpositionFormat, Metrics } from '../ports/telemetry.ts';

/** What one process measured, in a form that can be sent to another. */
export type ProcessMetrics = readonly ExposedMetric[];

interface RegistryOptions {
  readonly version: string;
  readonly runtime: string;
  /** Adds what the other processes of this node measured; absent where there is one process. */
  readonly gather?: (own: ProcessMetrics) => Promise<readonly ProcessMetrics[]>;
  /** How many values of a ranked label have series of their own, as SVC_BUCKETSTATS_TOPN. Default 100. */
  readonly rankedMax?: number;
}

export interface MetricRegistry extends Metrics {
  /** What this process alone measured. */
  own(): Promise<ProcessMetrics>;
}

export function createMetricRegistry(options: RegistryOptions): MetricRegistry {
  const { version, runtime, gather, rankedMax = 100 } = options;
  const numbers = new Map<string, NumberMetric>();
  const histograms = new Map<string, HistogramMetric>();
  const rankings = new Map<string, Ranking>();
  for (const [name, row] of Object.entries<MetricRow>(metricTable)) {
    if (row.kind === 'histogram') histograms.set(name, new HistogramMetric(name, row));
    else numbers.set(name, new NumberMetric(name, row));
  }
  for (const { row } of numbers.values())
    if (row.rankedBy !== undefined && !rankings.has(row.rankedBy))
      rankings.set(row.rankedBy, new Ranking(row.rankedBy, { numbers, max: rankedMax }));
  const number = (name: string): NumberMetric => numbers.get(name) as NumberMetric;
  const histogram = (name: string): HistogramMetric => histograms.get(name) as HistogramMetric;
  const known = new Map<string, Set<string>>();
  const exportZeros = (): void => {
    for (const { row, series } of [...numbers.values(), ...histograms.values()])
      for (const labels of zeroSets(row, known)) series.at(labels);
  };
  exportZeros();
  const samples: (() => Awaitable<void>)[] = [() => sampleCaches(number)];
  const own = async (): Promise<ProcessMetrics> => {
    // A sample that fails is missing; the others are shown.
    await Promise.allSettled(samples.map(async (sample) => sample()));
    return Object.keys(metricTable).map((name) => (numbers.get(name) ?? histogram(name)).read());
  };
  const registry: MetricRegistry = {
    count(name, labels, by = 1) {
      const metric = number(name);
      if (metric.row.rankedBy === undefined) metric.series.at(labels).value += by;
      else rankings.get(metric.row.rankedBy)?.count(metric, labels, by);
    },
    set(name, labels, value) {
      const { series } = number(name);
      if (value === undefined) series.remove(labels);
      else series.at(labels).value = value;
    },
    replace: (name, values) => number(name).replace(values),
    observe: (name, labels, value, exemplar) => histogram(name).series.at(labels).observe(value, exemplar),
    know: (label, value) => {
      const values = known.get(label) ?? new Set();
      if (values.has(value)) return;
      known.set(label, values.add(value));
      exportZeros();
    },
    onRead: (sample) => samples.push(sample),
    own,
    async metrics(format = 'text') {
      const mine = await own();
      const parts = gather === undefined ? [mine] : await gather(mine);
      const node = gather === undefined ? mine : sumMetrics(parts);
      return expose(node, format, format === 'openmetrics' ? gatherExemplars(parts) : undefined);
    },
  };
  registry.set('svc_build_info', { version, runtime }, 1);
  return registry;
}

const combine: Readonly<Record<Across, (a: number, b: number) => number>> = {
  sum: (a, b) => a + b,
  max: Math.max,
  min: Math.min,
  first: (a) => a,
};

/** Of several processes, each metric by its own way to be summed up. Exemplars are left out. */
export function sumMetrics(parts: readonly ProcessMetrics[]): ProcessMetrics {
  const families = new Map<string, { readonly metric: ExposedMetric; readonly sums: Map<string, Value> }>();
  for (const metric of parts.flat()) {
    const family = families.get(metric.name) ?? { metric, sums: new Map<string, Value>() };
    families.set(metric.name, family);
    for (const each of metric.values) {
      const { labels, metricName } = each;
      const series = formatSeries(each);
      const sum = family.sums.get(series);
      const value = sum === undefined ? each.value : combine[metric.aggregator](sum.value, each.value);
      family.sums.set(series, { labels, value, metricName });
    }
  }
  return Array.from(families.values(), ({ metric, sums }) => ({ ...metric, values: [...sums.values()] }));
}

function sampleCaches(number: (name: string) => NumberMetric): void {
  const sizes = [...cacheSizes()];
  const lookups = [...cacheLookups()];
  number('svc_cache_entries').replace(sizes.map(([cache, { entries }]) => [{ cache }, entries]));
  number('svc_cache_bytes').replace(sizes.map(([cache, { bytes }]) => [{ cache }, bytes]));
  number('svc_cache_hits_total').replace(lookups.map(([cache, { hits }]) => [{ cache }, hits]));
  number('svc_cache_misses_total').replace(lookups.map(([cache, { misses }]) => [{ cache }, misses]));
}

// The series of a metric, by the values of its labels.

type Labels = Readonly<Record<string, string>>;
/** Under a value of one label those of the next one, and under a value of the last one the series. */
type Level<S> = Map<string, Level<S> | S>;

/** Finds a series without an allocation, because there are some ten of these calls in every request. */
class SeriesTree<S extends object> {
  readonly #names: readonly string[];
  readonly #create: (labels: Labels) => S;
  #root: Level<S> = new Map();
  /** In the order of their creation. */
  readonly #all = new Set<S>();

  constructor(names: readonly string[], create: (labels: Labels) => S) {
    this.#names = names;
    this.#create = create;
    if (names.length === 0) this.at({});
  }

  get all(): ReadonlySet<S> {
    return this.#all;
  }

  at(labels: Labels): S {
    const names = this.#names;
    let level = this.#root;
    for (let n = 0; n < names.length - 1; n += 1) {
      const value = labels[names[n] as string] ?? '';
      let next = level.get(value) as Level<S> | undefined;
      if (next === undefined) {
        next = new Map();
        level.set(value, next);
      }
      level = next;
    }
    // A metric without labels has one series, under no value.
    const last = labels[names[names.length - 1] as string] ?? '';
    return (level.get(last) as S | undefined) ?? this.#add(labels, level, last);
  }

  /** Apart from `at`, because a closure over its parameters would make each call allocate. */
  #add(labels: Labels, level: Level<S>, last: string): S {
    const created = this.#create(Object.fromEntries(this.#names.map((name) => [name, labels[name] ?? ''])));
    level.set(last, created);
    this.#all.add(created);
    return created;
  }

  remove(labels: Labels): void {
    this.#remove(this.#root, labels, 0);
  }

  clear(): void {
    this.#root = new Map();
    this.#all.clear();
  }

  /** A level that becomes empty goes too: the values of a label may be many over time. */
  #remove(level: Level<S>, labels: Labels, depth: number): void {
    const value = labels[this.#names[depth] as string] ?? '';
    const found = level.get(value);
    if (found === undefined) return;
    const isLast = depth >= this.#names.length - 1;
    if (isLast) this.#all.delete(found as S);
    else this.#remove(found as Level<S>, labels, depth + 1);
    if (isLast || (found as Level<S>).size === 0) level.delete(value);
  }
}

/** The label sets of a row that are exported at 0; none where a label has no such values. */
export function zeroSets(
  { labels, from0 }: MetricRow,
  known: ReadonlyMap<string, ReadonlySet<string>>,
): Labels[] {
  if (from0 === undefined) return [];
  return labels.reduce<Labels[]>(
    (sets, label) => {
      const values = from0[label] ?? [];
      const all = values === 'known' ? [...(known.get(label) ?? [])] : values;
      return sets.flatMap((set) => all.map((value) => ({ ...set, [label]: value })));
    },
    [{}],
  );
}

/** A row of the table of metrics with its series. */
abstract class Metric<Series extends object> {
  readonly name: string;
  readonly row: MetricRow;
  readonly series: SeriesTree<Series>;

  constructor(name: string, row: MetricRow, create: (labels: Labels) => Series) {
    this.name = name;
    this.row = row;
    this.series = new SeriesTree(row.labels, create);
  }

  /** As `/metrics` shows them. */
  abstract values(): Value[];

  read(): ExposedMetric {
    const { doc, kind, across = 'sum' } = this.row;
    return { name: this.name, help: doc, type: kind, aggregator: across, values: this.values() };
  }
}

// Counters and gauges.

interface NumberSeries {
  readonly labels: Labels;
  value: number;
}

class NumberMetric extends Metric<NumberSeries> {
  constructor(name: string, row: MetricRow) {
    super(name, row, (labels) => ({ labels, value: 0 }));
  }

  replace(values: Iterable<readonly [Labels, number]>): void {
    this.series.clear();
    for (const [labels, value] of values) this.series.at(labels).value = value;
  }

  values(): Value[] {
    return Array.from(this.series.all, ({ labels, value }) => ({ labels, value, metricName: this.name }));
  }
}

// Rows that name many things, such as buckets, show the busiest, so that their series are bounded (the algorithm "space
// saving"): one that is new takes the place of the least busy one and begins with its count, so that a busy newcomer
// soon stands above the others, and rates of those that stay are exact.

interface Place {
  readonly labels: Labels;
  readonly series: ReadonlyMap<NumberMetric, NumberSeries>;
  /** The series that ranks. */
  readonly ranking: NumberSeries;
}

class Ranking {
  readonly #by: NumberMetric;
  /** The rows that are ranked together. */
  readonly #metrics: readonly NumberMetric[];
  readonly #max: number;
  /** By the value of the first label. */
  readonly #places = new Map<string, Place>();
  /** Those that had the least count when all were compared, so that a newcomer does not compare all again. */
  #leastBusy: [string, Place][] = [];
  #leastCount = 0;

  constructor(
    by: string,
    { numbers, max }: { readonly numbers: ReadonlyMap<string, NumberMetric>; readonly max: number },
  ) {
    this.#by = numbers.get(by) as NumberMetric;
    this.#metrics = [...numbers.values()].filter(({ row }) => row.rankedBy === by);
    this.#max = max;
  }

  /** The counter that ranks gives a place; the others count where there is one. */
  count(metric: NumberMetric, labels: Labels, by: number): void {
    const first = labels[metric.row.labels[0] as string] ?? '';
    const place = this.#places.get(first) ?? (metric === this.#by ? this.#add(first, labels) : undefined);
    const series = place?.series.get(metric);
    if (series !== undefined) series.value += by;
  }

  #add(first: string, labels: Labels): Place | undefined {
    if (this.#max === 0) return undefined;
    const former = this.#places.size < this.#max ? undefined : this.#takeLeastBusy();
    const series = new Map(this.#metrics.map((metric) => [metric, metric.series.at(labels)] as const));
    const place = { labels, series, ranking: series.get(this.#by) as NumberSeries };
    if (former !== undefined) {
      for (const [metric, each] of series) {
        each.value = former.series.get(metric)?.value ?? 0;
        metric.series.remove(former.labels);
      }
    }
    this.#places.set(first, place);
    return place;
  }

  /** Counts only grow, so one that still has the least count of the last comparison has the least of all. */
  #takeLeastBusy(): Place {
    for (;;) {
      const [name, place] = this.#leastBusy.pop() ?? this.#compare();
      if (place.ranking.value > this.#leastCount) continue;
      this.#places.delete(name);
      return place;
    }
  }

  /** @returns one with the least count; the others are kept */
  #compare(): [string, Place] {
    const places = [...this.#places];
    this.#leastCount = Math.min(...places.map(([, { ranking }]) => ranking.value));
    this.#leastBusy = places.filter(([, { ranking }]) => ranking.value === this.#leastCount);
    return this.#leastBusy.pop() as [string, Place];
  }
}

// A histogram whose observation is an addition to an array.

class HistogramMetric extends Metric<HistogramSeries> {
  constructor(name: string, row: MetricRow) {
    const bounds = row.buckets ?? [];
    super(name, row, (labels) => new HistogramSeries(labels, bounds));
  }

  values(): Value[] {
    return [...this.series.all].flatMap((each) => each.values(this.name));
  }
}

/** What was observed under one set of labels. */
class HistogramSeries {
  readonly #labels: Labels;
  readonly #bounds: readonly number[];
  /** Observations by bucket; the last one is for what lies above every bound. */
  readonly #counts: Float64Array;
  /** The last request of each bucket, its trace, and its value. */
  readonly #requestIds: (string | undefined)[];
  readonly #traceIds: (string | undefined)[];
  readonly #exemplarValues: Float64Array;
  #sum = 0;

  constructor(labels: Labels, bounds: readonly number[]) {
    this.#labels = labels;
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
    this.#requestIds = Array.from({ length: bounds.length + 1 });
    this.#traceIds = Array.from({ length: bounds.length + 1 });
    this.#exemplarValues = new Float64Array(bounds.length + 1);
  }

  observe(value: number, exemplar: Exemplar | undefined): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket++;
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1;
    this.#sum += value;
    if (exemplar === undefined) return;
    this.#requestIds[bucket] = exemplar.requestId;
    this.#traceIds[bucket] = exemplar.traceId;
    this.#exemplarValues[bucket] = value;
  }

  /** Cumulative, as the exposition format requires. */
  values(name: string): Value[] {
    const labels = this.#labels;
    let count = 0;
    const values: Value[] = [...this.#bounds.map(String), '+Inf'].map((le, bucket) => {
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

// The text of `/metrics`: in Prometheus' own format, or in OpenMetrics, which alone has exemplars.

interface ExposedExemplar {
  readonly labelSet: Labels;
  readonly value: number;
}

interface Value {
  readonly labels: Labels;
  readonly value: number;
  /** That of the metric, or of a part of a histogram. */
  readonly metricName: string;
  readonly exemplar?: ExposedExemplar;
}

type Across = NonNullable<MetricRow['across']>;

interface ExposedMetric {
  readonly name: string;
  readonly help: string;
  readonly type: MetricRow['kind'];
  readonly aggregator: Across;
  readonly values: readonly Value[];
}

const escapeHelp = (text: string): string => text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
const escapeLabel = (text: string): string => escapeHelp(text).replaceAll('"', '\\"');

const labelsText = (labels: Labels): string =>
  Object.entries(labels)
    .map(([name, value]) => `${name}="${escapeLabel(value)}"`)
    .join(',');

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (Number.isFinite(value)) return String(value);
  return value > 0 ? '+Inf' : '-Inf';
}

/** Identifies a value among those of all processes. */
const formatSeries = ({ metricName, labels }: Value): string => `${metricName}${JSON.stringify(labels)}`;

/** @param exemplars by series; for OpenMetrics only */
function expose(
  metrics: readonly ExposedMetric[],
  format: ExpositionFormat,
  exemplars: ReadonlyMap<string, ExposedExemplar> = new Map(),
): string {
  const isOpen = format === 'openmetrics';
  const lines: string[] = [];
  for (const { name, help, type, values } of metrics) {
    // In OpenMetrics the family of a counter has no suffix, and each of its values has.
    const family = isOpen && type === 'counter' ? name.replace(/_total$/, '') : name;
    lines.push(`# HELP ${family} ${escapeHelp(help)}`, `# TYPE ${family} ${type}`);
    for (const value of values) {
      const { metricName, labels } = value;
      const suffixed = isOpen && type === 'counter' ? `${family}_total` : metricName;
      const inner = labelsText(labels);
      const exemplar = isOpen ? exemplars.get(formatSeries(value)) : undefined;
      lines.push(
        `${suffixed}${inner === '' ? '' : `{${inner}}`} ${numberText(value.value)}${exemplarText(exemplar)}`,
      );
    }
    if (!isOpen) lines.push('');
  }
  return isOpen ? `${lines.join('\n')}\n# EOF\n` : `${lines.join('\n')}\n`;
}

const exemplarText = (exemplar: ExposedExemplar | undefined): string =>
  exemplar === undefined ? '' : ` # {${labelsText(exemplar.labelSet)}} ${numberText(exemplar.value)}`;

/** By series: its exemplar in the last of the processes that have one. */
function gatherExemplars(parts: readonly (readonly ExposedMetric[])[]): ReadonlyMap<string, ExposedExemplar> {
  const found = new Map<string, ExposedExemplar>();
  for (const { values } of parts.flat())
    for (const value of values) if (value.exemplar) found.set(formatSeries(value), value.exemplar);
  return found;
}
