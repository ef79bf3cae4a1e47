/** What keeps a bucket from being deleted: a bounded count of its rows, for the operator who wants to delete it. */

import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import { type BucketRow, liveSpace } from '../../metadata/tables.ts';
import { listAccessPoints } from '../access/access-points.ts';

/** Rows that are counted, and access points that are named. */
const countedMax = 1_000;
const namedMax = 10;

export interface BucketRemains {
  readonly objects: number;
  readonly noncurrentVersions: number;
  readonly deleteMarkers: number;
  /** Versions with a retention or a legal hold, whether it has ended or not. */
  readonly locked: number;
  readonly firstKey: string | undefined;
  /** There are more rows than were counted. */
  readonly isCut: boolean;
}

export async function countRemains(
  { metadata }: Pick<Context, 'metadata'>,
  bucket: BucketRow,
): Promise<BucketRemains> {
  const columns = ['marker', 'lock'] as const;
  const rows = await metadata.scan(objectsAt(bucket), { columns }).next(countedMax + 1);
  const counted = rows.slice(0, countedMax).map(({ row }) => row);
  const markers = counted.filter(({ marker }) => marker).length;
  const live = counted.filter(({ space }) => space === liveSpace).length;
  return {
    objects: live,
    noncurrentVersions: counted.length - markers - live,
    deleteMarkers: markers,
    locked: counted.filter(({ lock }) => lock !== undefined).length,
    firstKey: counted[0]?.key,
    isCut: rows.length > countedMax,
  };
}

/** The refusal of a deletion, with what keeps the bucket. */
export async function explainKept(
  ctx: Pick<Context, 'metadata'>,
  bucket: BucketRow,
  cause: unknown,
): Promise<unknown> {
  if (!(cause instanceof Refusal)) return cause;
  if (cause.code === 'BucketNotEmpty') {
    const message = describeRemains(bucket.name, await countRemains(ctx, bucket));
    return fail('BucketNotEmpty', { ...cause.details, message });
  }
  if (cause.code !== 'BucketHasAccessPointsAttached') return cause;
  const { items } = await listAccessPoints(ctx, bucket.owner, { bucket: bucket.name, max: namedMax });
  const names = items.map(({ name }) => name).join(', ');
  return fail(cause.code, { ...cause.details, message: `Access points lead to the bucket: ${names}.` });
}

const plural = (count: number, one: string, many: string): readonly string[] =>
  count === 0 ? [] : [`${count} ${count === 1 ? one : many}`];

function describeRemains(name: string, remains: BucketRemains): string {
  const { objects, noncurrentVersions, deleteMarkers, locked, firstKey, isCut } = remains;
  const counts = [
    ...plural(objects, 'object', 'objects'),
    ...plural(noncurrentVersions, 'noncurrent version', 'noncurrent versions'),
    ...plural(deleteMarkers, 'delete marker', 'delete markers'),
  ].join(', ');
  // Another request may have deleted the last one since.
  if (firstKey === undefined) return `The bucket ${name} was not empty. Try again.`;
  const under = locked === 0 ? '' : ` ${locked} of them have a retention or a legal hold.`;
  const key = firstKey.length > 100 ? `${firstKey.slice(0, 100)}…` : firstKey;
  return `The bucket ${name} has ${isCut ? 'at least ' : ''}${counts}; the first key is "${key}".${under} Empty it with POST /admin/v1/buckets/${name}/force-empty.`;
}
