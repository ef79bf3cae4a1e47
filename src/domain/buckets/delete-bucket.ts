/** Deletes a bucket. A deletion never races a write. */
import { fail, Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { removeBucket, replaceBucket } from '../../metadata/buckets/buckets.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import { type BucketRow, liveSpace } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import { listAccessPoints } from '../access/access-points.ts';
import { type AuthorizedBucket, assertOpen, findAuthorized } from '../common/buckets.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { retryInTurn } from '../common/retry-in-turn.ts';
import { abortUploadsIn } from '../uploads/upload-session.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>;

/**
 * Deletes an empty bucket: closes it to writers, checks that it is empty, then removes it or opens it again. Open uploads
 * are aborted; they do not keep a bucket.
 */
export async function deleteBucket(
  ctx: Ctx,
  bucket: BucketRow,
  {
    record,
    requestId,
    assertUnused = async () => {},
  }: {
    readonly record?: Recorder | undefined;
    readonly requestId: string;
    /** Refuses for what else keeps the bucket; called before the bucket is closed, and again while it is. */
    assertUnused?(): Promise<void>;
  },
): Promise<void> {
  // Check before closing, so that an attempt to delete a bucket in use does not disturb its writers.
  await assertUnused();
  await assertEmpty(ctx, bucket);
  const closed = await closeBucket(ctx, bucket);
  const at = objectsAt(closed.row);
  // One generation above the row's, to fence writers that read the closed row too.
  await ctx.metadata.raiseFence(at, closed.row.generation + 1);
  try {
    await assertUnused();
    await assertEmpty(ctx, closed.row);
    await abortUploadsIn(ctx, closed.row, requestId);
  } catch (cause) {
    // Reopen it now, so that writers need not wait until `closedMaxMs` has passed.
    const reopened = { ...closed.row, closedAt: 0, generation: closed.row.generation + 1 };
    await replaceBucket(ctx.metadata, closed, reopened);
    throw cause;
  }
  const outcome = await removeBucket(ctx.metadata, closed, await recorded(record));
  if (!outcome.applied) throw fail('OperationAborted');
  record?.applied();
}

async function assertEmpty(ctx: Pick<Ctx, 'metadata'>, bucket: BucketRow): Promise<void> {
  const [remains] = await ctx.metadata.scan(objectsAt(bucket)).next(1);
  if (remains !== undefined) throw fail('BucketNotEmpty', { elements: { BucketName: bucket.name } });
}

const closeBucket = (ctx: Ctx, bucket: AuthorizedBucket): Promise<Stored<BucketRow>> =>
  retryInTurn(ctx, `bucket ${bucket.name}`, async () => {
    const found = await findAuthorized(ctx, bucket);
    await assertOpen(ctx, found);
    const row = { ...found.row, closedAt: await ctx.metadata.now(), generation: found.row.generation + 1 };
    const outcome = await replaceBucket(ctx.metadata, found, row);
    return outcome.applied ? { value: { row, revision: outcome.revision } } : undefined;
  });

// What keeps a bucket from being deleted: a bounded count of its rows, for the operator who wants to delete it.

/** Rows that are counted, and access points that are named. */
const countedMax = 1_000;
const namedMax = 10;

interface BucketRemains {
  readonly objects: number;
  readonly noncurrentVersions: number;
  readonly deleteMarkers: number;
  /** Versions with a retention or a legal hold, whether it has ended or not. */
  readonly locked: number;
  readonly firstKey: string | undefined;
  /** There are more rows than were counted. */
  readonly isCut: boolean;
}

async function countRemains(
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
export async function explainRemains(
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
