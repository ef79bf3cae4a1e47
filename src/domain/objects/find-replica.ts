/** Reads the rows of a key that decide about a replicated version. */
import type { Context } from '../../context.ts';
import { historyAt, markerHeadAt, objectsAt } from '../../metadata/objects/objects.ts';
import { type BucketRow, historySpace, type ObjectRow } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import type { KeyState } from './commit-version.ts';
import { type FreshVersion, type Plan, planNewVersion } from './versions.ts';

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

// Pure functions that plan where a replicated version goes among the versions of its key: versions are sorted by id at every site.

/** The rows of a key that decide the place of a replica. */
interface Neighbours {
  readonly bucket: BucketRow;
  readonly head: Stored<ObjectRow> | undefined;
  /** The null version, if it is in the history; needed for a null version. */
  readonly oldNull: Stored<ObjectRow> | undefined;
  /** The version that comes next after the replica; needed where the head is newer. */
  readonly newer: ObjectRow | undefined;
}

interface PlacedReplica {
  readonly fresh: FreshVersion;
  readonly version: string;
  readonly isNull: boolean;
}

/** The null version of a key, if it is newer than a version id. */
export const newerNull = ({ head, oldNull }: Neighbours, version: string): ObjectRow | undefined =>
  [head?.row, oldNull?.row].find((row) => row?.isNull && row.version > version);

/**
 * A replica that is newer than the head becomes the head. An older one becomes a row of the history, and its commit writes the head again:
 * a check of the head's revision would leave that revision as it was, and a removal of the head that has read the history before would
 * then apply too. The key would have a history without a head, or an older version would become the head.
 */
export function planReplica(around: Neighbours, { fresh, version, isNull }: PlacedReplica): Plan {
  const { bucket, head, oldNull, newer } = around;
  if (head === undefined || version > head.row.version)
    return planNewVersion(bucket, head, isNull ? oldNull : undefined, { fresh, version, isNull });
  const row: ObjectRow = {
    ...fresh,
    space: historySpace,
    slot: version,
    version,
    isNull,
    noncurrentSince: (newer ?? head.row).modified,
  };
  const insertion = { put: row, expect: 'absent' } as const;
  const noted = {
    put: isNull ? { ...head.row, nullVersion: version } : head.row,
    expect: head.revision,
  };
  if (!isNull || oldNull === undefined)
    return { changes: [insertion, noted], before: [head.row], gone: [], fresh: row };
  const removal = { remove: historyAt(head.row.key, oldNull.row.version), expect: oldNull.revision };
  return {
    changes: [insertion, noted, removal],
    before: [head.row, oldNull.row],
    gone: [oldNull.row],
    fresh: row,
  };
}
