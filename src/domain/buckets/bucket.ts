/** A bucket: created together with its first configurations, deleted, its versioning changed. */

import { fail, Refusal } from '../../base/errors.ts';
import { plural } from '../../base/text/plural.ts';
import type { Context } from '../../context.ts';
import {
  findBucket,
  insertBucket,
  isListed,
  listBucket,
  removeBucket,
  replaceBucket,
} from '../../metadata/buckets/buckets.ts';
import { findIam, toRecord } from '../../metadata/iam.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import { uploadsIn } from '../../metadata/objects/uploads.ts';
import { soundPage } from '../../metadata/sound-rows.ts';
import { type BucketRow, liveSpace } from '../../metadata/tables.ts';
import type { SideChange, Stored } from '../../ports/metadata-store.ts';
import { assertNoAccessPoint, listAccessPoints } from '../access/access-points.ts';
import { type AuthorizedBucket, assertOpen, fenceWriters, findAuthorized } from '../common/buckets.ts';
import { queueUploadsOf } from '../common/garbage.ts';
import { drawId } from '../common/ids.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { retryInTurn } from '../common/retry-in-turn.ts';
import { dropDocuments, writeDocuments } from '../configurations/documents.ts';
import { bucketLifecycle, bucketReplication } from '../configurations/families.ts';
import { mfaRequired } from '../objects/delete-object.ts';
import { type QuotaEpochs, withinMaxBuckets } from '../quotas/bucket-owner.ts';
import { defaultBucketQuota } from '../quotas/default-quotas.ts';
import { dropRateLimit } from '../quotas/rate-limiter.ts';
import { abortUploadsIn } from '../uploads/upload-session.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>;

/** Attempts to enter the bucket in the lists against concurrent changes of its row. */
const attemptsMax = 8;

interface NewBucket {
  readonly name: string;
  readonly owner: string;
  readonly ownerName: string;
  readonly creator: string;
  /** The unique id of the creator, where that is an IAM user. */
  readonly creatorId?: string;
  readonly region: string;
  readonly objectLock: boolean;
  /** Object Lock enables it in any case. */
  readonly versioning?: 'Enabled';
  /** Texts of its first configurations, by family. */
  readonly documents: Readonly<Record<string, string>>;
  readonly record?: Recorder | undefined;
}

/** Creates a bucket; the same owner creating it again gets the one that exists (spec: 200 plus Location). */
export const createBucket = (ctx: Ctx, requested: NewBucket): Promise<BucketRow> =>
  withinMaxBuckets(ctx, requested, (epochs, assertStillWithin) =>
    insert(ctx, requested, { epochs, assertStillWithin }),
  );

async function insert(
  ctx: Ctx,
  { record, ...requested }: NewBucket,
  { epochs, assertStillWithin }: { readonly epochs: QuotaEpochs; assertStillWithin(): Promise<void> },
): Promise<BucketRow> {
  const row: BucketRow = {
    ...requested,
    documents: await writeDocuments(ctx, requested.documents),
    id: drawId(ctx.random),
    created: ctx.clock.now(),
    generation: 0,
    // Object Lock works on versions, so it brings versioning with it.
    versioning: requested.objectLock ? 'Enabled' : (requested.versioning ?? ''),
    shards: ctx.config.SVC_BUCKET_SHARDS,
    closedAt: 0,
    ...(await defaultBucketQuota(ctx)),
    ...epochs,
  };
  const outcome = await insertBucket(ctx.metadata, row, await recorded(record));
  if (outcome.applied) {
    record?.applied();
    try {
      await assertOwnerExists(ctx, row);
      await assertNoAccessPoint(ctx, row.name);
      await assertStillWithin();
    } catch (cause) {
      if (cause instanceof Refusal)
        await deleteBucket(ctx, row, { requestId: row.id }).catch(() => undefined);
      throw cause;
    }
    return row;
  }
  await dropDocuments(ctx, row.documents);
  const { current } = outcome;
  if (current === undefined) throw fail('OperationAborted');
  if (current.row.owner !== requested.owner)
    throw fail('BucketAlreadyExists', { elements: { BucketName: requested.name } });
  // Refuse when the existing bucket is being deleted.
  return assertListed(ctx, await assertOpen(ctx, current));
}

/**
 * The account may have been deleted since the request was authorized: either its deletion has found the bucket, or it is seen here.
 * @throws AccessDenied
 */
async function assertOwnerExists({ metadata }: Pick<Ctx, 'metadata'>, { owner }: BucketRow): Promise<void> {
  const profile = await findIam(metadata, owner, { kind: 'profile', name: '' });
  if (profile !== undefined && toRecord<'profile'>(profile).value.status === 'Deleted')
    throw fail('AccessDenied', `The account ${owner} was deleted.`);
}

/**
 * The request that created it may have stalled or died before it entered the bucket in the lists. The sweeper would do so later,
 * but a client that gets 200 now must find the bucket in a list now.
 */
async function assertListed({ metadata }: Pick<Ctx, 'metadata'>, bucket: BucketRow): Promise<BucketRow> {
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    if (await isListed(metadata, bucket)) return bucket;
    const found = await findBucket(metadata, bucket.name);
    if (found?.row.id !== bucket.id) break;
    await assertOpen({ metadata }, found);
    if ((await listBucket(metadata, found)).applied) return found.row;
  }
  throw fail('OperationAborted');
}

// Deletion: of a deletion and a concurrent write, one is refused (docs/gaps.md, Buckets 1).

/**
 * Deletes an empty bucket: closes it to writers, checks that it is empty, then removes it or opens it again. Open uploads
 * do not keep a bucket: they are aborted once it is gone. The commit that removes it queues them, so gc aborts those that are left.
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
  let uploads: readonly SideChange[];
  let records: readonly SideChange[];
  try {
    await assertUnused();
    await assertEmpty(ctx, closed.row);
    uploads = await queueUploads(ctx, bucket.id, requestId);
    records = await recorded(record);
  } catch (cause) {
    // Reopen it now, so that writers need not wait until `closedMaxMs` has passed.
    const reopened = { ...closed.row, closedAt: 0, generation: closed.row.generation + 1 };
    await replaceBucket(ctx.metadata, closed, reopened);
    throw cause;
  }
  const outcome = await removeBucket(ctx.metadata, closed, [...uploads, ...records]);
  if (!outcome.applied) throw fail('OperationAborted');
  record?.applied();
  // Not before: had this process been paused until others opened the bucket again, it would abort uploads that clients go on with.
  if (uploads.length > 0) await abortUploadsIn(ctx, bucket.id, { requestId }).catch(() => undefined);
  // The bucket is gone, whatever becomes of its limit: a repeated deletion would find no bucket. Ids are not reused, so a
  // limit that stays limits nothing; `dropStrayLimits` removes it.
  await dropRateLimit(ctx, { kind: 'bucket', id: bucket.id }).catch(() => undefined);
}

async function assertEmpty(ctx: Pick<Ctx, 'metadata'>, bucket: BucketRow): Promise<void> {
  const [remains] = await ctx.metadata.scan(objectsAt(bucket)).next(1);
  if (remains !== undefined) throw fail('BucketNotEmpty', { elements: { BucketName: bucket.name } });
}

async function queueUploads(
  { metadata }: Pick<Ctx, 'metadata'>,
  bucketId: string,
  requestId: string,
): Promise<readonly SideChange[]> {
  // A damaged row is an upload too.
  const { rows, damaged } = await soundPage(metadata.scan(uploadsIn(bucketId)), 1);
  if (rows.length + damaged.length === 0) return [];
  return [queueUploadsOf(bucketId, { requestId, due: await metadata.now() })];
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
  const { items } = await listAccessPoints(ctx, bucket.owner, { bucketId: bucket.id, max: namedMax });
  const names = items.map(({ name }) => name).join(', ');
  return fail(cause.code, { ...cause.details, message: `Access points lead to the bucket: ${names}.` });
}

function describeRemains(name: string, remains: BucketRemains): string {
  const { objects, noncurrentVersions, deleteMarkers, locked, firstKey, isCut } = remains;
  const counts = [
    [objects, plural(objects, 'object', 'objects')],
    [noncurrentVersions, plural(noncurrentVersions, 'noncurrent version', 'noncurrent versions')],
    [deleteMarkers, plural(deleteMarkers, 'delete marker', 'delete markers')],
  ]
    .flatMap(([count, text]) => (count === 0 ? [] : [text]))
    .join(', ');
  // Another request may have deleted the last one since.
  if (firstKey === undefined) return `The bucket ${name} was not empty. Try again.`;
  const under = locked === 0 ? '' : ` ${locked} of them have a retention or a legal hold.`;
  const key = firstKey.length > 100 ? `${firstKey.slice(0, 100)}…` : firstKey;
  return `The bucket ${name} has ${isCut ? 'at least ' : ''}${counts}; the first key is "${key}".${under} Empty it with POST /admin/v1/buckets/${name}/force-empty.`;
}

// The versioning state, and whether MFA is required to change it and to delete versions permanently.

interface VersioningChange {
  readonly versioning: 'Enabled' | 'Suspended';
  /** Undefined does not change it. */
  readonly mfaDelete?: boolean | undefined;
  /** The caller is the bucket's owner and has shown the code of a device. */
  readonly mfa?: boolean;
  readonly record?: Recorder | undefined;
}

/** Turning MFA delete on requires MFA, and so does every change while it is on. */
export const takesMfa = (
  { mfaDelete = false }: Pick<BucketRow, 'mfaDelete'>,
  requested: boolean | undefined,
): boolean => mfaDelete || requested === true;

/** Sets the versioning state. Once it returns, every write and delete obeys it. */
export async function setVersioning(
  ctx: Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>,
  bucket: AuthorizedBucket,
  change: VersioningChange,
): Promise<void> {
  const { versioning, mfaDelete, record } = change;
  await fenceWriters(ctx, bucket, {
    record,
    change(row) {
      assertVersioningAllowed(row, change);
      return { ...row, versioning, ...(mfaDelete === undefined ? {} : { mfaDelete }) };
    },
  });
}

/** @throws AccessDenied without MFA where it is required, InvalidBucketState */
export function assertVersioningAllowed(
  bucket: BucketRow,
  { versioning, mfaDelete, mfa = false }: VersioningChange,
): void {
  if (takesMfa(bucket, mfaDelete) && !mfa) throw mfaRequired();
  const isSuspended = versioning === 'Suspended';
  if (isSuspended && bucket.objectLock)
    throw fail(
      'InvalidBucketState',
      'An Object Lock configuration is present on this bucket, so versioning cannot be suspended.',
    );
  if (isSuspended && bucketReplication.name in bucket.documents)
    throw fail(
      'InvalidBucketState',
      'A replication configuration is present on this bucket, so you cannot change the versioning state. To change the versioning state, first delete the replication configuration.',
    );
  if (mfaDelete === true && bucketLifecycle.name in bucket.documents)
    throw fail(
      'InvalidBucketState',
      'A lifecycle configuration is present on this bucket, so MFA delete cannot be enabled.',
    );
}
