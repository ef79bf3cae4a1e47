/**
 * Usage counters of buckets, to which commits add (docs/adr/0002-usage-is-added-in-the-commit.md), the usage of closed days, traffic,
 * and quotas.
 */
import { bool, int, optional, type RowOf, table, text } from '../../ports/metadata-store.ts';

/** Stored bytes and objects of a bucket by storage class; the sum over slots is the spec's counter. */
export const usage = table({
  name: 'usage',
  kind: 'counter',
  isExported: true,
  partition: ['bucketId'],
  sort: ['storageClass', 'slot'],
  columns: {
    bucketId: text(),
    storageClass: text(),
    slot: int(),
    bytes: int(),
    objects: int(),
    /**
     * When the last version was stored or removed (ms); 0 in rows of a release that did not store it, and in counters
     * of accounts and parts.
     */
    updatedAt: int(),
  },
  maxima: ['updatedAt'],
});
export interface UsageRow extends RowOf<typeof usage> {}

const dayUsageColumns = {
  bucketId: text(),
  /** `YYYY-MM-DD`, in UTC. */
  day: text(),
  storageClass: text(),
  /** The bucket's name; the bucket itself may be deleted. */
  bucket: text(),
  owner: text(),
  /** A decimal number: a day of 105 GB is above the integers that a `number` holds exactly. */
  byteSeconds: text(),
  objectCountAvg: int(),
  objectCountMax: int(),
  /** How many samples it was computed from. */
  samples: int(),
  /** Store time (ms). */
  computedAt: int(),
};
/** What a bucket held in a storage class on a closed UTC day. Written once, and never changed. */
export const usageAggregates = table({
  name: 'usage_aggregates',
  kind: 'conditional',
  isExported: true,
  partition: ['bucketId'],
  sort: ['day', 'storageClass'],
  columns: dayUsageColumns,
});
export interface DayUsageRow extends RowOf<typeof usageAggregates> {}

/** The same rows by account. */
export const usageByOwner = table({
  name: 'usage_by_owner',
  kind: 'plain',
  isExported: true,
  partition: ['owner'],
  sort: ['day', 'bucketId', 'storageClass'],
  columns: dayUsageColumns,
});

/** The same rows by day, in slots, so that no partition holds a whole day. */
export const usageByDay = table({
  name: 'usage_by_day',
  kind: 'plain',
  isExported: true,
  partition: ['day', 'slot'],
  sort: ['bucketId', 'storageClass'],
  columns: { ...dayUsageColumns, slot: int() },
});
export interface SlotUsageRow extends RowOf<typeof usageByDay> {}

const trafficColumns = {
  /** '' for requests about no bucket, such as ListBuckets. */
  bucketId: text(),
  /** `YYYY-MM-DD`, in UTC. */
  day: text(),
  /** The account that sent the requests; '' for anonymous ones. */
  requester: text(),
  /** The account that pays: the bucket's owner, or the requester where the bucket says so. */
  payer: text(),
  writer: text(),
  bucket: text(),
  requestsA: int(),
  requestsB: int(),
  requestsFree: int(),
  ingressBytes: int(),
  egressBytes: int(),
};
/**
 * The requests and bytes of one UTC day between one account and one bucket, as one process has counted them. The process writes the row
 * again with its present sums, so a repeated write counts nothing twice; the sum over the writers is the traffic.
 */
export const traffic = table({
  name: 'traffic',
  kind: 'plain',
  isExported: true,
  partition: ['bucketId'],
  sort: ['day', 'requester', 'payer', 'writer'],
  columns: trafficColumns,
});
export interface TrafficRow extends RowOf<typeof traffic> {}

/** The same rows by the account that pays. */
export const trafficByPayer = table({
  name: 'traffic_by_payer',
  kind: 'plain',
  isExported: true,
  partition: ['payer'],
  sort: ['day', 'bucketId', 'requester', 'writer'],
  columns: trafficColumns,
});

/** The same rows by day, in slots, so that no partition holds a whole day. */
export const trafficByDay = table({
  name: 'traffic_by_day',
  kind: 'plain',
  isExported: true,
  partition: ['day', 'slot'],
  sort: ['bucketId', 'requester', 'payer', 'writer'],
  columns: { ...trafficColumns, slot: int() },
});
export interface SlotTrafficRow extends RowOf<typeof trafficByDay> {}

/** The quota of an account, or of an IAM user. The quota of a bucket is in the bucket's row. 0 is unlimited. */
export const accountQuotas = table({
  name: 'account_quotas',
  kind: 'conditional',
  isExported: true,
  partition: ['account'],
  sort: [],
  columns: {
    /** The id of the account; `user/` and the unique id of an IAM user. */
    account: text(),
    maxBuckets: int(),
    totalMaxBytes: int(),
    /** Drawn when the account gets a quota: names the counters of all its buckets together. */
    epoch: text(),
    /** It is the default that was in force when the account or the user was created. */
    isDefault: optional(bool()),
  },
});
export interface AccountQuotaRow extends RowOf<typeof accountQuotas> {}

/** What a process may still add under a quota (docs/adr/0021-quotas-are-shared-out.md). */
export const quotaShares = table({
  name: 'quota_shares',
  kind: 'conditional',
  isExported: true,
  partition: ['scope'],
  sort: ['holder'],
  columns: {
    scope: text(),
    /** '' is the head: every grant replaces it, so grants follow one another. */
    holder: text(),
    bytes: int(),
    objects: int(),
    /** Store time (ms) of the last write of the row. */
    at: int(),
  },
});
export interface QuotaShareRow extends RowOf<typeof quotaShares> {}

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
