/** Which parts of an upload that is over the versions of its key own: one walk answers for all of them. */
import type { Context } from '../../context.ts';
import { extentsOf } from '../../metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { findAmongVersions } from '../objects/among-versions.ts';

type Ctx = Pick<Context, 'metadata'>;

/**
 * @param extentIds of the parts; no commit of them may be possible any more
 * @returns those that a version names. Who takes a version away queues its bytes itself.
 */
export async function ownedParts(
  ctx: Ctx,
  place: {
    readonly bucket: Pick<BucketRow, 'id' | 'shards' | 'generation'>;
    readonly key: string;
    readonly uploadId: string;
  },
  extentIds: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const owned = new Set<string>();
  const note = async ({ manifest }: ObjectRow): Promise<boolean> => {
    for await (const { id } of extentsOf(ctx.metadata, manifest)) if (extentIds.has(id)) owned.add(id);
    return owned.size > 0;
  };
  const { bucket, key, uploadId } = place;
  // Parts become one version, which says whose they were: mostly it is there.
  await findAmongVersions(ctx, bucket, key, async (row) => row.uploadId === uploadId && note(row));
  // Before the answer is "none", every version is read.
  if (owned.size === 0) await findAmongVersions(ctx, bucket, key, note);
  return owned;
}
