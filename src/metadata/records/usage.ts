/** Usage counters of buckets, to which commits add (docs/adr/0002-usage-is-added-in-the-commit.md), and the usage of closed days. */
import { table } from '../../ports/metadata-store.ts';

/** Stored bytes and objects of a bucket by storage class; the sum over slots is the spec's counter. */
export interface UsageRow {
  readonly bucketId: string;
  readonly storageClass: string;
  readonly slot: number;
  readonly bytes: number;
  readonly objects: number;
}
export const usage = table<UsageRow>()({
  name: 'usage',
  kind: 'counter',
  partition: ['bucketId'],
  sort: ['storageClass', 'slot'],
  columns: { bucketId: 'text', storageClass: 'text', slot: 'int', bytes: 'int', objects: 'int' },
});

/** What a bucket held in a storage class on a closed UTC day. Written once, and never changed. */
export interface DayUsageRow {
  readonly bucketId: string;
  /** `YYYY-MM-DD`, in UTC. */
  readonly day: string;
  readonly storageClass: string;
  /** The bucket's name; the bucket itself may be deleted. */
  readonly bucket: string;
  readonly owner: string;
  /** A decimal number: a day of 105 GB is above the integers that a `number` holds exactly. */
  readonly byteSeconds: string;
  readonly objectCountAvg: number;
  readonly objectCountMax: number;
  /** How many samples it was computed from. */
  readonly samples: number;
  /** Store time (ms). */
  readonly computedAt: number;
}
const dayUsageColumns = {
  bucketId: 'text',
  day: 'text',
  storageClass: 'text',
  bucket: 'text',
  owner: 'text',
  byteSeconds: 'text',
  objectCountAvg: 'int',
  objectCountMax: 'int',
  samples: 'int',
  computedAt: 'int',
} as const;
export const usageAggregates = table<DayUsageRow>()({
  name: 'usage_aggregates',
  kind: 'conditional',
  partition: ['bucketId'],
  sort: ['day', 'storageClass'],
  columns: dayUsageColumns,
});

/** The same rows by account. */
export const usageByOwner = table<DayUsageRow>()({
  name: 'usage_by_owner',
  kind: 'plain',
  partition: ['owner'],
  sort: ['day', 'bucketId', 'storageClass'],
  columns: dayUsageColumns,
});

/** The same rows by day, in slots, so that no partition holds a whole day. */
export interface SlotUsageRow extends DayUsageRow {
  readonly slot: number;
}
export const usageByDay = table<SlotUsageRow>()({
  name: 'usage_by_day',
  kind: 'plain',
  partition: ['day', 'slot'],
  sort: ['bucketId', 'storageClass'],
  columns: { ...dayUsageColumns, slot: 'int' },
});

export const usageTables = { usage, usageAggregates, usageByOwner, usageByDay } as const;
