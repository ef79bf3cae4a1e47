/**
 * What processes of this node had counted when they ended. A node's counters then never fall while the node runs, so a rate over the
 * restart of a process shows no reset. What a process counted after it was asked last is lost with it.
 */
import { type ProcessMetrics, sumMetrics } from '../../../telemetry/prom-metrics.ts';

/** Series of buckets change with the busiest ones: kept for ever, they would have no bound. */
const isKept = ({ labels }: { readonly labels: object }): boolean => !('bucket' in labels);

const countersOf = (metrics: ProcessMetrics): ProcessMetrics =>
  metrics
    .filter(({ type }) => ['counter', 'histogram'].includes(String(type)))
    .map((metric) => ({ ...metric, values: metric.values?.filter(isKept) ?? [] }));

export class EndedCounters {
  /** The sum of some processes, and those that are not in it yet. */
  readonly #parts: ProcessMetrics[] = [];
  #summing: Promise<void> | undefined;

  get parts(): readonly ProcessMetrics[] {
    return this.#parts;
  }

  add(last: ProcessMetrics): void {
    this.#parts.push(countersOf(last));
    // Parts that cannot be summed up stay as they are, and are shown nevertheless.
    this.#summing ??= this.#sum()
      .catch(() => undefined)
      .finally(() => {
        this.#summing = undefined;
      });
  }

  async #sum(): Promise<void> {
    while (this.#parts.length > 1) {
      const count = this.#parts.length;
      const sum = await sumMetrics(this.#parts.slice(0, count));
      this.#parts.splice(0, count, sum);
    }
  }
}
