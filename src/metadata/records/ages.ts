/** The age index: which versions and uploads of a bucket are old enough for its lifecycle rules (docs/adr/0019-age-index.md). */
import { int, type RowOf, table, text } from '../../ports/metadata-store.ts';

/**
 * - `current`: a live head, by the day on which it was written.
 * - `marker`: a delete marker at the head, by the day on which it was written.
 * - `noncurrent`: a version in the history, by the day on which a newer version replaced it.
 * - `restored`: a version with a restored copy, by the day on which the copy expires.
 * - `upload`: an open multipart upload, by the day on which it was initiated.
 */
export type AgeKind = 'current' | 'marker' | 'noncurrent' | 'restored' | 'upload';

/** An entry of the age index. It can be stale: readers read the version itself before they act. */
export const ages = table({
  name: 'ages',
  kind: 'plain',
  isExported: true,
  partition: ['bucketId', 'kind', 'day', 'slot'],
  sort: ['key', 'version'],
  columns: {
    bucketId: text(),
    kind: text<AgeKind>(),
    /** Days since the epoch (UTC). */
    day: int(),
    slot: int(),
    key: text(),
    /** The version id, or the upload id. */
    version: text(),
  },
});
export interface AgeRow extends RowOf<typeof ages> {}

/**
 * Slot 0: a bucket with a lifecycle configuration, written in the commit that sets the configuration. Slot 1: one that got an entry on
 * an old day of the age index (a replica, an import, a version that is current again).
 */
export const lifecycleBuckets = table({
  name: 'lifecycle_buckets',
  kind: 'plain',
  isExported: true,
  partition: ['slot'],
  sort: ['bucketId'],
  columns: {
    slot: int(),
    bucketId: text(),
    bucket: text(),
    /** Changes with every event after which the worker must begin a new pass. */
    token: text(),
  },
});
export interface LifecycleBucketRow extends RowOf<typeof lifecycleBuckets> {}

export const ageTables = { ages, lifecycleBuckets } as const;
