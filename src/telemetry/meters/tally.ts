/**
 * A histogram whose observation is an addition to an array; prom-client's own hashes its labels anew each time, which is
 * 5 % of a small request. To a registry of prom-client it is a metric like any other.
 */
import type { MetricObjectWithValues, MetricValueWithName } from 'prom-client';

export interface TallyOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly aggregator: 'sum' | 'max' | 'min' | 'first';
  /** Upper bounds, ascending. */
  readonly buckets: readonly number[];
}

type Value = MetricValueWithName<string> & { readonly exemplar?: Exemplar };

export interface Exemplar {
  readonly labelSet: Readonly<Record<string, string>>;
  readonly value: number;
}

/** What was observed under one set of labels. */
export class TallyChild {
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

export class Tally {
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
