/** Which inventories are due: daily ones once in each UTC day, weekly ones once in each week that begins on Sunday (UTC). */
import type { Context } from '../../../context.ts';
import { fail } from '../../../errors/refusal.ts';
import { everyBucket, findBucket } from '../../../metadata/buckets/buckets.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import { readDocument } from '../../configurations/documents.ts';
import { bucketInventories, findInventory, type Inventory } from '../../configurations/inventory.ts';
import { type Recorder, recorded } from '../../events/recorder.ts';
import { drawId } from '../../objects/version-ids.ts';
import { beginRun, findResult, type InventoryResult, type InventoryRun } from './runs.ts';

type Ctx = Pick<Context, 'metadata' | 'caches' | 'random'>;

const dayMs = 24 * 60 * 60 * 1000;
/** The first of January 1970 was a Thursday. */
const sundayOffsetMs = 4 * dayMs;
/** After a failure the destination is tried again this often. */
const retryMs = 60 * 60 * 1000;

/** The day or week of a time. */
const periodOf = ({ Schedule }: Inventory, time: number): number =>
  Schedule.Frequency === 'Daily'
    ? Math.floor(time / dayMs)
    : Math.floor((time + sundayOffsetMs) / (7 * dayMs));

export function isDue(inventory: Inventory, last: InventoryResult | undefined, now: number): boolean {
  if (!inventory.IsEnabled) return false;
  if (last === undefined) return true;
  if (last.failure !== undefined) return now - last.finishedAt >= retryMs;
  return periodOf(inventory, now) > periodOf(inventory, last.startedAt);
}

/** Begins the runs that are due in all buckets. */
export async function beginDueInventories(ctx: Ctx, signal: AbortSignal): Promise<void> {
  for await (const name of everyBucket(ctx.metadata)) {
    signal.throwIfAborted();
    const bucket = (await findBucket(ctx.metadata, name))?.row;
    if (bucket === undefined || bucket.documents[bucketInventories.name] === undefined) continue;
    for (const inventory of (await readDocument(ctx, bucket, bucketInventories)) ?? []) {
      const last = await findResult(ctx.metadata, { bucketId: bucket.id, inventory });
      if (isDue(inventory, last, await ctx.metadata.now())) await beginInventory(ctx, bucket, { inventory });
    }
  }
}

/** Begins a run now, unless one is under way. @returns the run that is under way */
export async function beginInventory(
  ctx: Ctx,
  { id, name }: BucketRow,
  { inventory, record }: { readonly inventory: Inventory; readonly record?: Recorder | undefined },
): Promise<InventoryRun> {
  const begun: InventoryRun = {
    bucketId: id,
    bucket: name,
    inventory,
    startedAt: await ctx.metadata.now(),
    fileId: drawId(ctx.random),
    files: 0,
    rows: 0,
  };
  const { run, isNew } = await beginRun(ctx.metadata, begun, await recorded(record));
  if (isNew) record?.applied();
  return run;
}

/** @throws NoSuchConfiguration */
export async function openInventory(
  ctx: Pick<Context, 'metadata' | 'caches'>,
  bucket: BucketRow,
  id: string,
): Promise<Inventory> {
  const found = findInventory(await readDocument(ctx, bucket, bucketInventories), id);
  if (found === undefined) throw fail('NoSuchConfiguration');
  return found;
}
