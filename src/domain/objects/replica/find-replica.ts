/** Reads the rows of a key that decide about a replicated version. */
import type { Context } from '../../../context.ts';
import { historyAt, markerHeadAt, objectsAt } from '../../../metadata/objects/objects.ts';
import { type BucketRow, historySpace, type ObjectRow } from '../../../metadata/tables.ts';
import type { Stored } from '../../../ports/metadata-store.ts';
import type { KeyState } from '../commit-version.ts';
import type { Neighbours } from './plan-replica.ts';

type Ctx = Pick<Context, 'metadata'>;

/** The version with this id, null or not. It may move while it is read; then the head has changed, and the commit is refused. */
export async function findById(
  { metadata }: Ctx,
  { bucket, head }: Pick<KeyState, 'bucket' | 'head'>,
  version: string,
): Promise<Stored<ObjectRow> | undefined> {
  if (head === undefined || head.row.version < version) return undefined;
  if (head.row.version === version) return head;
  return metadata.get(objectsAt(bucket), historyAt(head.row.key, version));
}

export async function findNeighbours(
  { metadata }: Ctx,
  { bucket, head }: Pick<KeyState, 'bucket' | 'head'>,
  { version, isNull }: { readonly version: string; readonly isNull: boolean },
): Promise<Neighbours> {
  const nullVersion = isNull ? head?.row.nullVersion : undefined;
  const oldNull =
    head === undefined || nullVersion === undefined
      ? undefined
      : await metadata.get(objectsAt(bucket), historyAt(head.row.key, nullVersion));
  const newer =
    head === undefined || version > head.row.version
      ? undefined
      : await findNewer({ metadata }, bucket, { key: head.row.key, version });
  return { bucket, head, oldNull, newer };
}

/** The oldest version of the history that is newer than a version id. */
async function findNewer(
  { metadata }: Ctx,
  bucket: BucketRow,
  { key, version }: { readonly key: string; readonly version: string },
): Promise<ObjectRow | undefined> {
  const [next] = await metadata
    .scan(objectsAt(bucket), {
      after: markerHeadAt(key),
      before: { space: historySpace, key, slot: version },
      reverse: true,
    })
    .next(1);
  return next?.row;
}
