/** Writing an inventory of a bucket now, and how far that is. */
import type { Context } from '../../../context.ts';
import { openBucket } from '../../../domain/buckets/buckets.ts';
import { countLeft } from '../../../domain/deliveries/inventory/rows-left.ts';
import {
  findResult,
  findRun,
  type InventoryResult,
  type InventoryRun,
} from '../../../domain/deliveries/inventory/runs.ts';
import { beginInventory, openInventory } from '../../../domain/deliveries/inventory/schedule.ts';
import { fail } from '../../../errors/refusal.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { seconds } from '../times.ts';

/** Also for a configuration that is not enabled. Does not disturb a run that is under way. */
export const RunBucketInventory: AdminHandler<'RunBucketInventory'> = async (ctx, { params, record }) => {
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  const inventory = await openInventory(ctx, bucket, params.get('id') ?? '');
  return jsonReply(await runJson(ctx, await beginInventory(ctx, bucket, { inventory, record })), 202);
};

export const GetBucketInventoryRun: AdminHandler<'GetBucketInventoryRun'> = async (ctx, { params }) => {
  const { metadata } = ctx;
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  const inventory = await openInventory(ctx, bucket, params.get('id') ?? '');
  const of = { bucketId: bucket.id, inventory };
  const run = await findRun(metadata, of);
  if (run !== undefined) return jsonReply(await runJson(ctx, run));
  const result = await findResult(metadata, of);
  if (result === undefined) throw fail('NotFound', `Inventory ${inventory.Id} was not written yet.`);
  return jsonReply(resultJson(result));
};

async function runJson({ metadata }: Pick<Context, 'metadata'>, run: InventoryRun) {
  const { startedAt, rows, files } = run;
  const began = { state: 'running' as const, rows, files, startedAt: seconds(startedAt) };
  const ms = (await metadata.now()) - startedAt;
  if (rows === 0 || ms <= 0) return began;
  return { ...began, etaSeconds: Math.ceil(((await countLeft(metadata, run)) * ms) / rows / 1000) };
}

const resultJson = ({ startedAt, finishedAt, ...result }: InventoryResult) => ({
  state: result.failure === undefined ? ('done' as const) : ('failed' as const),
  ...result,
  startedAt: seconds(startedAt),
  finishedAt: seconds(finishedAt),
});
