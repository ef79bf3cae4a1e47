/** Upstream objects that were imported and that no version names any more. */

import { shardOf } from '../../base/shard.ts';
import type { At, MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import type { Extent } from '../../ports/storage/object-bytes.ts';
import { importReleased, type ReleasedRow } from '../records/imports.ts';

const slots = 16;

const releasedAt = (bucketId: string, slot: number): At<typeof importReleased> => ({
  table: importReleased,
  in: { bucketId, slot },
});

/** Records the foreign extents that a version gives up, in the same commit. */
export const releaseForeign = (bucketId: string, extents: readonly Extent[]): readonly SideChange[] =>
  extents.flatMap(({ cluster, foreign }) => {
    if (foreign === undefined) return [];
    const slot = shardOf(foreign.key, slots);
    return [{ at: releasedAt(bucketId, slot), put: { bucketId, slot, ...foreign, cluster } }];
  });

export const findReleased = async (
  metadata: Pick<MetadataStore, 'get'>,
  bucketId: string,
  { key, cluster }: Pick<ReleasedRow, 'key' | 'cluster'>,
): Promise<ReleasedRow | undefined> =>
  (await metadata.get(releasedAt(bucketId, shardOf(key, slots)), { key, cluster }))?.row;

/** Yields the rows slot by slot, ordered by key within a slot. */
export async function* everyReleased(
  metadata: Pick<MetadataStore, 'scan'>,
  bucketId: string,
): AsyncGenerator<ReleasedRow> {
  for (let slot = 0; slot < slots; slot += 1) {
    const cursor = metadata.scan(releasedAt(bucketId, slot));
    for (let page = await cursor.next(500); page.length > 0; page = await cursor.next(500))
      for (const { row } of page) yield row;
  }
}
