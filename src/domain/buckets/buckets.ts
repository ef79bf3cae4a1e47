/** Buckets: how they are found, and deletion that never races a write. */
import type { Context } from '../../context.ts';
import { fail } from '../../errors/refusal.ts';
import { findBucket, removeBucket, replaceBucket } from '../../metadata/buckets/buckets.ts';
import { objectsOf } from '../../metadata/objects/objects.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import { type Recorder, recorded } from '../events/recorder.ts';
import { retryInTurn } from '../retry-in-turn.ts';
import { abortUploadsOf } from '../uploads/upload-session.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config'>;

/** A deleter that has not finished within this time has died: the bucket opens again. */
const closedMaxMs = 30_000;
/** How long a writer waits for a deleter, which mostly finds an object and lets go, and how often it looks. */
const deleterMsMax = 1_000;
const deleterLookMs = 25;

/** No bucket has a longer name, so none is looked for: a store need not be able to hold such a text. */
const nameMax = 63;

export async function lookUpBucket(ctx: Pick<Ctx, 'metadata'>, name: string): Promise<BucketRow | undefined> {
  const isPossible = name !== '' && name.length <= nameMax && !name.includes('\0');
  return isPossible ? (await findBucket(ctx.metadata, name))?.row : undefined;
}

export async function openBucket(ctx: Pick<Ctx, 'metadata'>, name: string): Promise<BucketRow> {
  const row = await lookUpBucket(ctx, name);
  if (row === undefined) throw fail('NoSuchBucket', { elements: { BucketName: name } });
  return row;
}

/**
 * The bucket as a writer may believe in it after its commit was fenced: the row as it is now, with every
 * shard raised to its generation, so that the next request finishes a change that was cut short.
 */
export async function refreshBucket(
  ctx: Pick<Ctx, 'metadata' | 'clock'>,
  stale: BucketRow,
): Promise<BucketRow> {
  const open = await assertOpen(ctx, await whenLetGo(ctx, stale));
  await ctx.metadata.raiseFence(objectsOf(open), open.generation);
  return open;
}

/** The row once no deleter holds it, or as it is after the longest wait: a body that was stored is worth it. */
async function whenLetGo(ctx: Pick<Ctx, 'metadata' | 'clock'>, stale: BucketRow): Promise<Stored<BucketRow>> {
  for (let waitedMs = 0; ; waitedMs += deleterLookMs) {
    const found = await findBucket(ctx.metadata, stale.name);
    if (found === undefined || found.row.id !== stale.id)
      throw fail('NoSuchBucket', { elements: { BucketName: stale.name } });
    if (waitedMs >= deleterMsMax || !(await isBeingDeleted(ctx, found.row))) return found;
    await ctx.clock.sleep(deleterLookMs);
  }
}

const isBeingDeleted = async (ctx: Pick<Ctx, 'metadata'>, { closedAt }: BucketRow): Promise<boolean> =>
  closedAt !== 0 && (await ctx.metadata.now()) - closedAt < closedMaxMs;

/** Refuses while a DeleteBucket is looking; reopens what a dead deleter left closed. */
export async function assertOpen(ctx: Pick<Ctx, 'metadata'>, found: Stored<BucketRow>): Promise<BucketRow> {
  if (found.row.closedAt === 0) return found.row;
  if (await isBeingDeleted(ctx, found.row)) {
    throw fail('OperationAborted', 'The bucket is being deleted by another request. Please try again.');
  }
  const reopened = { ...found.row, closedAt: 0, generation: found.row.generation + 1 };
  const outcome = await replaceBucket(ctx.metadata, found, reopened);
  if (!outcome.applied) throw fail('OperationAborted');
  return reopened;
}

/**
 * Deletes an empty bucket: closes it to writers, looks, then removes it or opens it again. Open uploads
 * do not keep a bucket: they are aborted.
 */
export async function deleteBucket(
  ctx: Ctx,
  bucket: BucketRow,
  { record, requestId }: { readonly record?: Recorder | undefined; readonly requestId: string },
): Promise<void> {
  // A look before closing: trying to delete a bucket in use does not disturb its writers.
  await assertEmpty(ctx, bucket);
  const closed = await closeBucket(ctx, bucket);
  const at = objectsOf(closed.row);
  // One further than the row says: a writer who read the closed row is fenced as well.
  await ctx.metadata.raiseFence(at, closed.row.generation + 1);
  try {
    await assertEmpty(ctx, closed.row);
    await abortUploadsOf(ctx, closed.row, requestId);
  } catch (cause) {
    // Whatever keeps it, its writers need not wait until a dead deleter would be noticed.
    const reopened = { ...closed.row, closedAt: 0, generation: closed.row.generation + 1 };
    await replaceBucket(ctx.metadata, closed, reopened);
    throw cause;
  }
  const outcome = await removeBucket(ctx.metadata, closed, await recorded(record));
  if (!outcome.applied) throw fail('OperationAborted');
  record?.applied();
}

async function assertEmpty(ctx: Pick<Ctx, 'metadata'>, bucket: BucketRow): Promise<void> {
  const [remains] = await ctx.metadata.scan(objectsOf(bucket)).next(1);
  if (remains !== undefined) throw fail('BucketNotEmpty', { elements: { BucketName: bucket.name } });
}

const closeBucket = (ctx: Ctx, { id, name }: Pick<BucketRow, 'id' | 'name'>): Promise<Stored<BucketRow>> =>
  retryInTurn(ctx, `bucket ${name}`, async () => {
    const found = await findBucket(ctx.metadata, name);
    // Under the name there may be another bucket by now, which the caller was not judged by.
    if (found === undefined || found.row.id !== id)
      throw fail('NoSuchBucket', { elements: { BucketName: name } });
    await assertOpen(ctx, found);
    const row = { ...found.row, closedAt: await ctx.metadata.now(), generation: found.row.generation + 1 };
    const outcome = await replaceBucket(ctx.metadata, found, row);
    return outcome.applied ? { value: { row, revision: outcome.revision } } : undefined;
  });
