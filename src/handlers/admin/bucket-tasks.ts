/** What runs on one bucket in the background: emptying, resharding, inventories, lifecycle. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  beginEmptying,
  cancelEmptying,
  type Emptying,
  findEmptying,
} from '../../domain/buckets/force-empty.ts';
import { beginResharding, findResharding, type Resharding } from '../../domain/buckets/reshard.ts';
import { openBucket } from '../../domain/common/buckets.ts';
import {
  countLeft,
  findResult,
  findRun,
  type InventoryResult,
  type InventoryRun,
  openInventory,
  requestInventory,
} from '../../domain/inventory/runs.ts';
import {
  findLifecycle,
  type LifecycleReport,
  planLifecycle,
  requestPass,
} from '../../domain/lifecycle/pass.ts';
import { endOf, type LifecycleProgress } from '../../domain/lifecycle/progress.ts';
import { emptyReply } from '../handler.ts';
import { type AdminHandler, jsonReply, runState, seconds } from './call.ts';

// Emptying a bucket in the background, and how far that is.

export const ForceEmptyBucket: AdminHandler<'ForceEmptyBucket'> = async (
  ctx,
  { params, record, requestId },
) => jsonReply(emptyingJson(await beginEmptying(ctx, params.get('name') ?? '', { record, requestId })), 202);

export const GetForceEmptyBucket: AdminHandler<'GetForceEmptyBucket'> = async (ctx, { params }) => {
  const name = params.get('name') ?? '';
  return jsonReply(emptyingJson((await findEmptying(ctx, name)) ?? refuseUnknown(name)));
};

export const CancelForceEmptyBucket: AdminHandler<'CancelForceEmptyBucket'> = async (
  ctx,
  { params, record },
) => {
  const name = params.get('name') ?? '';
  return jsonReply(emptyingJson((await cancelEmptying(ctx, name, { record })) ?? refuseUnknown(name)));
};

function refuseUnknown(name: string): never {
  throw fail('NotFound', `There is no recent request to empty bucket ${name}.`);
}

const emptyingJson = ({
  phase,
  deleted,
  kept: retained,
  damaged,
  empty,
  isCancelled,
  startedAt,
  finishedAt,
}: Emptying) => ({
  state: phase === 'done' ? ('done' as const) : ('running' as const),
  deleted,
  kept: retained,
  ...(damaged === undefined ? {} : { damaged }),
  ...(empty === undefined ? {} : { empty }),
  ...(isCancelled === undefined ? {} : { isCancelled }),
  startedAt: seconds(startedAt),
  ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
});

// Giving a bucket more shards in the background, and how far that is.

export const ReshardBucket: AdminHandler<'ReshardBucket'> = async (
  ctx,
  { params, body: { shards }, record },
) => {
  const state = await beginResharding(ctx, params.get('name') ?? '', { to: shards, record });
  return jsonReply(reshardingJson(state), state.finishedAt === undefined ? 202 : 200);
};

export const GetReshardBucket: AdminHandler<'GetReshardBucket'> = async (ctx, { params }) => {
  const { shards, state } = await findResharding(ctx, params.get('name') ?? '');
  return jsonReply(state === undefined ? { state: 'none', shards } : { ...reshardingJson(state), shards });
};

/** Splits of single shards: a bucket of 4 that gets 16 takes 4 and then 8 of them. */
const reshardingJson = ({ from, to, shardsDone, rowsMoved, startedAt, finishedAt, why }: Resharding) => ({
  state: runState(finishedAt),
  from,
  to,
  shardsDone,
  shardsTotal: to - from,
  rowsMoved,
  ...(why === undefined ? {} : { why }),
  startedAt: seconds(startedAt),
  ...(finishedAt === undefined ? {} : { finishedAt: seconds(finishedAt) }),
});

// Writing an inventory of a bucket now, and how far that is.

/** Also for a configuration that is not enabled. Does not disturb a run that is under way. */
export const RunBucketInventory: AdminHandler<'RunBucketInventory'> = async (ctx, { params, record }) => {
  const bucket = await openBucket(ctx, params.get('name') ?? '');
  const inventory = await openInventory(ctx, bucket, params.get('id') ?? '');
  return jsonReply(await runJson(ctx, await requestInventory(ctx, bucket, { inventory, record })), 202);
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

// The lifecycle of a bucket: its progress, a pass on demand, and what a pass would do.

/** Actions that one reply lists. */
const listedMax = 1_000;

export const RunLifecycle: AdminHandler<'RunLifecycle'> = async (
  ctx,
  { params, query, record, requestId },
) => {
  const name = params.get('name') ?? '';
  if (query['dry-run'] !== true) {
    await requestPass(ctx, name, { record, requestId });
    return emptyReply(202);
  }
  return jsonReply(await planLifecycle(ctx, name, listedMax));
};

/** Of a pass that runs: entries that it reads per second, and how long the backlog takes at this rate. */
const rateJson = (read: number, ms: number, backlog: number) =>
  read === 0 || ms <= 0
    ? {}
    : { perSecond: Math.round((read * 1000) / ms), etaSeconds: Math.ceil((backlog * ms) / read / 1000) };

export const GetLifecycle: AdminHandler<'GetLifecycle'> = async (ctx, { params }) => {
  const report = await findLifecycle(ctx, params.get('name') ?? '');
  const { progress, backlog, isBacklogCut, oldestDueDay, isWaiting } = report;
  if (progress === undefined) return jsonReply({ state: isWaiting ? 'waiting' : 'none' });
  const { indexing, tally, startedAt, nextAt } = progress;
  const finishedAt = endOf(progress);
  const state = indexing.at !== 'done' ? 'indexing' : finishedAt === undefined ? 'running' : 'done';
  const ms = state === 'running' ? (await ctx.metadata.now()) - startedAt : 0;
  return jsonReply({
    state: isWaiting && state === 'done' ? 'waiting' : state,
    ...tally,
    backlog,
    ...(isBacklogCut ? { isBacklogCut } : {}),
    ...rateJson(tally.read, ms, backlog),
    ...(oldestDueDay === undefined ? {} : { oldestDueDay }),
    rules: rulesJson(progress, report.byRule, ms),
    startedAt: seconds(startedAt),
    ...(finishedAt === undefined
      ? { nextAt: seconds(nextAt) }
      : { finishedAt: seconds(finishedAt), nextAt: seconds(nextAt) }),
  });
};

/** By rule: what the pass has done and what it has left. `etaSeconds` is when it reaches the last entry of the rule. */
function rulesJson({ byRule, tally }: LifecycleProgress, backlogs: LifecycleReport['byRule'], ms: number) {
  const rules = [...new Set([...Object.keys(byRule), ...backlogs.keys()])].sort();
  return Object.fromEntries(
    rules.map((rule) => {
      const done = byRule[rule] ?? 0;
      const left = backlogs.get(rule);
      if (left === undefined) return [rule, { done, backlog: 0 }];
      const { etaSeconds } = rateJson(tally.read, ms, left.until);
      const { entries: backlog, oldestDueDay } = left;
      const rates = etaSeconds === undefined ? {} : { perSecond: Math.round((done * 1000) / ms), etaSeconds };
      return [rule, { done, backlog, oldestDueDay, ...rates }];
    }),
  );
}
