/**
 * The busiest buckets, with a bounded number of labels (the algorithm "space saving"): a bucket that is new takes the place of the least busy
 * one and begins with its count, so that a busy newcomer soon stands above the others, and rates of buckets that stay are exact.
 */
import type { Meter, Metrics } from '../metrics.ts';

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
