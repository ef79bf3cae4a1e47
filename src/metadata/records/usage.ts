/**
 * Usage counters of buckets, to which commits add (docs/adr/0002-usage-is-added-in-the-commit.md), the usage of closed days, traffic,
 * and quotas.
 */
import { table } from '../../ports/metadata-store.ts';

/** Stored bytes and objects of a bucket by storage class; the sum over slots is the spec's counter. */
export interface UsageRow {
  readonly bucketId: string;
  readonly storageClass: string;
  readonly slot: number;
  readonly bytes: number;
  readonly objects: number;
  /** When the last version was stored or removed (ms); 0 in rows of a release that did not store it, and in counters of accounts and parts. */
  readonly updatedAt: number;
}
export const usage = table<UsageRow>()({
  name: 'usage',
  kind: 'counter',
  partition: ['bucketId'],
  sort: ['storageClass', 'slot'],
  columns: {
    bucketId: 'text',
    storageClass: 'text',
    slot: 'int',
    bytes: 'int',
    objects: 'int',
    updatedAt: 'int',
  },
  maxima: ['updatedAt'],
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

/**
 * The requests and bytes of one UTC day between one account and one bucket, as one process has counted them. The process writes the row
 * again with its present sums, so a repeated write counts nothing twice; the sum over the writers is the traffic.
 */
export interface TrafficRow {
  /** '' for requests about no bucket, such as ListBuckets. */
  readonly bucketId: string;
  /** `YYYY-MM-DD`, in UTC. */
  readonly day: string;
  /** The account that sent the requests; '' for anonymous ones. */
  readonly requester: string;
  /** The account that pays: the bucket's owner, or the requester where the bucket says so. */
  readonly payer: string;
  readonly writer: string;
  readonly bucket: string;
  readonly requestsA: number;
  readonly requestsB: number;
  readonly requestsFree: number;
  readonly ingressBytes: number;
  readonly egressBytes: number;
}
const trafficColumns = {
  bucketId: 'text',
  day: 'text',
  requester: 'text',
  payer: 'text',
  writer: 'text',
  bucket: 'text',
  requestsA: 'int',
  requestsB: 'int',
  requestsFree: 'int',
  ingressBytes: 'int',
  egressBytes: 'int',
} as const;
export const traffic = table<TrafficRow>()({
  name: 'traffic',
  kind: 'plain',
  partition: ['bucketId'],
  sort: ['day', 'requester', 'payer', 'writer'],
  columns: trafficColumns,
});

/** The same rows by the account that pays. */
export const trafficByPayer = table<TrafficRow>()({
  name: 'traffic_by_payer',
  kind: 'plain',
  partition: ['payer'],
  sort: ['day', 'bucketId', 'requester', 'writer'],
  columns: trafficColumns,
});

/** The same rows by day, in slots, so that no partition holds a whole day. */
export interface SlotTrafficRow extends TrafficRow {
  readonly slot: number;
}
export const trafficByDay = table<SlotTrafficRow>()({
  name: 'traffic_by_day',
  kind: 'plain',
  partition: ['day', 'slot'],
  sort: ['bucketId', 'requester', 'payer', 'writer'],
  columns: { ...trafficColumns, slot: 'int' },
});

/** The quota of an account, or of an IAM user. The quota of a bucket is in the bucket's row. 0 is unlimited. */
export interface AccountQuotaRow {
  /** The id of the account; `user/` and the unique id of an IAM user. */
  readonly account: string;
  readonly maxBuckets: number;
  readonly totalMaxBytes: number;
  /** Drawn when the account gets a quota: names the counters of all its buckets together. */
  readonly epoch: string;
  /** It is the default that was in force when the account or the user was created. */
  readonly isDefault?: boolean;
}
export const accountQuotas = table<AccountQuotaRow>()({
  name: 'account_quotas',
  kind: 'conditional',
  partition: ['account'],
  sort: [],
  columns: { account: 'text', maxBuckets: 'int', totalMaxBytes: 'int', epoch: 'text', isDefault: 'bool' },
});

/** What a process may still add under a quota (docs/adr/0021-quotas-are-shared-out.md). */
export interface QuotaShareRow {
  readonly scope: string;
  /** '' is the head: every grant replaces it, so grants follow one another. */
  readonly holder: string;
  readonly bytes: number;
  readonly objects: number;
  /** Store time (ms) of the last write of the row. */
  readonly at: number;
}
export const quotaShares = table<QuotaShareRow>()({
  name: 'quota_shares',
  kind: 'conditional',
  partition: ['scope'],
  sort: ['holder'],
  columns: { scope: 'text', holder: 'text', bytes: 'int', objects: 'int', at: 'int' },
});

export const usageTables = {
  usage,
  usageAggregates,
  usageByOwner,
  usageByDay,
  traffic,
  trafficByPayer,
  trafficByDay,
  accountQuotas,
  quotaShares,
} as const;
