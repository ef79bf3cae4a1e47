/** Usage counters of buckets, to which commits add (docs/adr/0002-usage-is-added-in-the-commit.md). */
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
