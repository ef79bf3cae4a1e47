/** Deletes a bucket. A deletion never races a write. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { removeBucket, replaceBucket } from '../../metadata/buckets/buckets.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';
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
