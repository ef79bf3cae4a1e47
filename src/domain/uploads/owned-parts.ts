/** Which parts of an ended upload are owned by versions of its key: one walk answers for all parts. */
import type { Context } from '../../context.ts';
import { readExtents } from '../../metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { findAmongVersions } from '../listings/among-versions.ts';

type Ctx = Pick<Context, 'metadata'>;

/**
 * @param extentIds of the parts; no commit of them may be possible any more
 * @returns those that a version names. A change that removes a version queues its bytes itself.
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
    for await (const { id } of readExtents(ctx.metadata, manifest)) if (extentIds.has(id)) owned.add(id);
    return owned.size > 0;
  };
  const { bucket, key, uploadId } = place;
  // Parts become one version, which names its upload; in most cases it still exists.
  await findAmongVersions(ctx, bucket, key, async (row) => row.uploadId === uploadId && note(row));
  // Before the answer is "none", every version is read.
  if (owned.size === 0) await findAmongVersions(ctx, bucket, key, note);
  return owned;
}
