/** The age index: which versions and uploads of a bucket are old enough for its lifecycle rules (docs/adr/0019-age-index.md). */
import { table } from '../../ports/metadata-store.ts';

export type AgeKind = 'current' | 'marker' | 'noncurrent' | 'restored' | 'upload';

/** An entry of the age index. It can be stale: readers read the version itself before they act. */

export interface AgeRow {
  readonly bucketId: string;
  readonly kind: AgeKind;
  /** Days since the epoch (UTC). */
  readonly day: number;
  readonly slot: number;
  readonly key: string;
  /** The version id, or the upload id. */
  readonly version: string;
}

export const ages = table<AgeRow>()({
  name: 'ages',
  kind: 'plain',
  partition: ['bucketId', 'kind', 'day', 'slot'],
  sort: ['key', 'version'],
  columns: { bucketId: 'text', kind: 'text', day: 'int', slot: 'int', key: 'text', version: 'text' },
});

/**
 * Slot 0: a bucket with a lifecycle configuration, written in the commit that sets the configuration. Slot 1: one that got a version which
 * is older than its commit.
 */

export interface LifecycleBucketRow {
  readonly slot: number;
  readonly bucketId: string;
  readonly bucket: string;
  /** Changes with every event after which the worker must begin a new pass. */
  readonly token: string;
}

export const lifecycleBuckets = table<LifecycleBucketRow>()({
  name: 'lifecycle_buckets',
  kind: 'plain',
  partition: ['slot'],
  sort: ['bucketId'],
  columns: { slot: 'int', bucketId: 'text', bucket: 'text', token: 'text' },
});

export const ageTables = { ages, lifecycleBuckets } as const;
