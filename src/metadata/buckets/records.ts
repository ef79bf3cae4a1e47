/** The records beside a bucket's row: the texts of its configurations, and the indexes of buckets. */
import { table } from '../../ports/metadata-store.ts';

/** A segment of a document's text. Documents are written before the bucket row that names them, and never changed. */
export interface DocumentRow {
  readonly id: string;
  readonly segment: number;
  readonly text: string;
}
export const documents = table<DocumentRow>()({
  name: 'documents',
  kind: 'plain',
  partition: ['id'],
  sort: ['segment'],
  columns: { id: 'text', segment: 'int', text: 'text' },
});

/** The buckets of an account, for ListBuckets. */
export interface OwnedBucketRow {
  readonly owner: string;
  readonly name: string;
  readonly created: number;
  readonly region: string;
}
export const bucketsByOwner = table<OwnedBucketRow>()({
  name: 'buckets_by_owner',
  kind: 'plain',
  partition: ['owner'],
  sort: ['name'],
  columns: { owner: 'text', name: 'text', created: 'int', region: 'text' },
});

/** Every bucket, for the background. */
export interface AnyBucketRow {
  readonly slot: number;
  readonly name: string;
}
export const bucketsAll = table<AnyBucketRow>()({
  name: 'buckets_all',
  kind: 'plain',
  partition: ['slot'],
  sort: ['name'],
  columns: { slot: 'int', name: 'text' },
});
