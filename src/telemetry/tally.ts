/** Counters and histograms of the hot path. */
import type { MetricObjectWithValues, MetricValueWithName } from 'prom-client';
import type { Meter, Metrics, TallyMeter } from './metrics.ts';

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

// The meters of requests, found once for each operation and status: then a request costs a few additions.

interface RequestMeters {
  readonly total: Meter;
  readonly operation: Meter;
  readonly duration: TallyMeter;
}

/** Operations and statuses come from tables, so their number is bounded. */
export function requestMeters(metrics: Metrics): (operation: string, status: number) => RequestMeters {
  const known = new Map<string, Map<number, RequestMeters>>();
  return (operation, status) => {
    let byStatus = known.get(operation);
    if (byStatus === undefined) {
      byStatus = new Map();
      known.set(operation, byStatus);
    }
    let found = byStatus.get(status);
    if (found === undefined) {
      const code = String(status);
      found = {
        total: metrics.meter('svc_http_requests_total', [code]),
        operation: metrics.meter('svc_http_operations_total', [operation, code]),
        duration: metrics.tally('svc_http_request_duration_seconds', [operation]),
      };
      byStatus.set(status, found);
    }
    return found;
  };
}

// The busiest buckets, with a bounded number of labels (the algorithm "space saving"): a bucket that is new takes the place of the least busy
// one and begins with its count, so that a busy newcomer soon stands above the others, and rates of buckets that stay are exact.

const names = [
  'svc_bucket_requests_total',
  'svc_bucket_received_bytes_total',
  'svc_bucket_sent_bytes_total',
] as const;

interface Place {
  readonly labels: readonly string[];
  readonly requests: Meter;
  readonly received: Meter;
  readonly sent: Meter;
}

export class BusiestBuckets {
  readonly #metrics: Metrics;
  readonly #max: number;
  readonly #places = new Map<string, Place>();

  /** @param max the number of buckets with labels of their own; 0: none is counted */
  constructor(metrics: Metrics, max: number) {
    this.#metrics = metrics;
    this.#max = max;
  }

  answered(bucket: string, account: string, receivedBytes: number): void {
    const place = this.#places.get(bucket) ?? this.#place(bucket, account);
    if (place === undefined) return;
    place.requests.value += 1;
    place.received.value += receivedBytes;
  }

  /** Bytes of a reply that goes on after its request was counted. */
  sent(bucket: string, bytes: number): void {
    const place = this.#places.get(bucket);
    if (place !== undefined) place.sent.value += bytes;
  }

  #place(bucket: string, account: string): Place | undefined {
    if (this.#max === 0) return undefined;
    const former = this.#places.size < this.#max ? undefined : this.#leastBusy();
    const labels = [bucket, account];
    const [requests, received, sent] = names.map((name) => this.#metrics.meter(name, labels)) as [
      Meter,
      Meter,
      Meter,
    ];
    if (former !== undefined) {
      requests.value = former[1].requests.value;
      received.value = former[1].received.value;
      sent.value = former[1].sent.value;
      this.#places.delete(former[0]);
      for (const name of names) this.#metrics.remove(name, former[1].labels);
    }
    const place = { labels, requests, received, sent };
    this.#places.set(bucket, place);
    return place;
  }

  #leastBusy(): [string, Place] | undefined {
    let least: [string, Place] | undefined;
    for (const each of this.#places)
      if (least === undefined || each[1].requests.value < least[1].requests.value) least = each;
    return least;
  }
}
