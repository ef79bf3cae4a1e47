/**
 * Tombstones: versions that were removed permanently while other sites may have them, so that a site which still has one does not bring it
 * back (docs/adr/0020-replicated-versions-keep-their-ids.md). They expire.
 */
import {
  type At,
  int,
  type MetadataStore,
  type RowOf,
  type SideChange,
  table,
  text,
} from '../../ports/metadata-store.ts';

export const removedVersions = table({
  name: 'removed_versions',
  kind: 'plain',
  isExported: true,
  partition: ['bucketId', 'key'],
  sort: ['version'],
  columns: {
    bucketId: text(),
    key: text(),
    version: text(),
    /** Store time (ms). */
    removedAt: int(),
  },
});
export interface RemovedVersionRow extends RowOf<typeof removedVersions> {}

type RemovedVersion = Pick<RemovedVersionRow, 'bucketId' | 'key' | 'version'>;

const removedAt = ({
  bucketId,
  key,
}: Pick<RemovedVersion, 'bucketId' | 'key'>): At<typeof removedVersions> => ({
  table: removedVersions,
  in: { bucketId, key },
});

export const tombstone = (
  { bucketId, key, version }: RemovedVersion,
  { now, retentionMs }: { readonly now: number; readonly retentionMs: number },
): SideChange => ({
  at: removedAt({ bucketId, key }),
  put: { bucketId, key, version, removedAt: now } satisfies RemovedVersionRow,
  expiresAt: now + retentionMs,
});

export const withoutTombstone = ({ bucketId, key, version }: RemovedVersion): SideChange => ({
  at: removedAt({ bucketId, key }),
  remove: { version },
});

export const wasRemoved = async (
  metadata: Pick<MetadataStore, 'get'>,
  { bucketId, key, version }: RemovedVersion,
): Promise<boolean> => (await metadata.get(removedAt({ bucketId, key }), { version })) !== undefined;
