/**
 * A counter or gauge whose change is an addition to a field; prom-client's own hashes its labels anew each time. To a registry of
 * prom-client it is a metric like any other.
 */
import type { MetricObjectWithValues, MetricValueWithName } from 'prom-client';
import type { Measurement } from './measurements/measurement.ts';
import type { Meter } from './metrics.ts';

export class NumberMetric {
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
