/** Creates a bucket together with its first configurations. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { findBucket, insertBucket, isListed, listBucket } from '../../metadata/buckets/buckets.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { assertOpen } from '../common/buckets.ts';
import { drawId } from '../common/ids.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import { dropDocuments, writeDocuments } from '../configurations/documents.ts';
import { defaultBucketQuota } from '../quotas/default-quotas.ts';
import { type QuotaEpochs, withinMaxBuckets } from '../quotas/max-buckets.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>;

/** Attempts to enter the bucket in the lists against concurrent changes of its row. */
const attemptsMax = 8;

export interface NewBucket {
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
  withinMaxBuckets(ctx, requested, (epochs) => insert(ctx, requested, epochs));

async function insert(
  ctx: Ctx,
  { record, ...requested }: NewBucket,
  epochs: QuotaEpochs,
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
