/** The records beside a bucket's row: the texts of its configurations, and the indexes of buckets. */
import { int, type RowOf, table, text } from '../../ports/metadata-store.ts';

/** A segment of a document's text. Documents are written before the bucket row that names them, and never changed. */
export const documents = table({
  name: 'documents',
  kind: 'plain',
  isExported: true,
  partition: ['id'],
  sort: ['segment'],
  columns: { id: text(), segment: int(), text: text() },
});
export interface DocumentRow extends RowOf<typeof documents> {}

/** The buckets of an account, for ListBuckets. */
export const bucketsByOwner = table({
  name: 'buckets_by_owner',
  kind: 'plain',
  isExported: true,
  partition: ['owner'],
  sort: ['name'],
  columns: { owner: text(), name: text(), created: int(), region: text() },
});
export interface OwnedBucketRow extends RowOf<typeof bucketsByOwner> {}

/** Every bucket, for the background. */
export const bucketsAll = table({
  name: 'buckets_all',
  kind: 'plain',
  isExported: true,
  partition: ['slot'],
  sort: ['name'],
  columns: { slot: int(), name: text() },
});
export interface AnyBucketRow extends RowOf<typeof bucketsAll> {}
