/** The state of `sluice import` (docs/adr/0015-import-of-upstream-objects.md). */
import { table } from '../../ports/metadata-store.ts';

/** An upstream object that no version names any more, but that still exists upstream; an import skips it. */
export interface ReleasedRow {
  readonly bucketId: string;
  readonly slot: number;
  /** The key of the upstream object, which is also the key of the version. */
  readonly key: string;
  readonly cluster: string;
  /** The ETag of the imported content; another content under this key is another object. */
  readonly etag: string;
}
export const importReleased = table<ReleasedRow>()({
  name: 'import_released',
  kind: 'plain',
  partition: ['bucketId', 'slot'],
  sort: ['key', 'cluster'],
  columns: { bucketId: 'text', slot: 'int', key: 'text', cluster: 'text', etag: 'text' },
});
