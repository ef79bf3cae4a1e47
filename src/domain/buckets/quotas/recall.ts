/**
 * Takes shares back whose holder may have died. A commit that such a holder has sent may still be on its way, so all commits that began
 * before are refused first: the generation of every bucket of the scope is raised. Writers that live commit again, at the new generation.
 */
import { inParallel } from '../../../base/in-parallel.ts';
import type { Context } from '../../../context.ts';
import { Refusal } from '../../../errors/refusal.ts';
import { commitShares, readShares } from '../../../metadata/buckets/quotas.ts';
import { hasPendingUsage } from '../../../metadata/buckets/usage.ts';
import { objectsAt } from '../../../metadata/objects/objects.ts';
import type { QuotaShareRow } from '../../../metadata/records/usage.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import { commitLimits, type Stored } from '../../../ports/metadata-store.ts';
import { changeBucket } from '../change-bucket.ts';
import type { Scope } from './scopes.ts';

export type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>;

/** How long to wait for additions of commits that have applied, and the polling interval. */
const pendingMsMax = 2_000;
const pendingLookMs = 25;

/** Whether the counters have every commit that applied before the call. */
export async function isSettled({ metadata, clock }: Ctx, ...usageIds: readonly string[]): Promise<boolean> {
  for (let waitedMs = 0; waitedMs <= pendingMsMax; waitedMs += pendingLookMs) {
    const pending = await inParallel(usageIds.length, usageIds, (id) => hasPendingUsage(metadata, id));
    if (!pending.includes(true)) return true;
    await clock.sleep(pendingLookMs);
  }
  return false;
}

/** Commits that state an earlier generation than the row's are refused from now on. */
export const fenceBucket = ({ metadata }: Pick<Ctx, 'metadata'>, bucket: BucketRow): Promise<void> =>
  metadata.raiseFence(objectsAt(bucket), bucket.generation);

/** The generations from which on commits apply, by bucket. */
export type Generations = ReadonlyMap<string, number>;

async function fenceScope(ctx: Ctx, scope: Scope): Promise<Generations> {
  const generations = new Map<string, number>();
  for await (const bucket of scope.buckets(ctx)) {
    try {
      const raised = await changeBucket(ctx, bucket, {
        change: (row) => ({ ...row, generation: row.generation + 1 }),
      });
      await fenceBucket(ctx, raised);
      generations.set(raised.id, raised.generation);
    } catch (cause) {
      // Deleted meanwhile, so that no commit in it applies.
      if (!(cause instanceof Refusal) || cause.code !== 'NoSuchBucket') throw cause;
    }
  }
  return generations;
}

/** @returns undefined where a commit of a dead process has not been added to the counters yet: the rows stay */
export async function recall(
  ctx: Ctx,
  scope: Scope,
  isTaken: (share: Stored<QuotaShareRow>) => boolean,
): Promise<Generations | undefined> {
  const before = await readShares(ctx.metadata, scope.id);
  const revisions = new Set(before.shares.map(({ revision }) => revision));
  const generations = await fenceScope(ctx, scope);
  if (!(await isSettled(ctx, ...scope.usageIds))) return undefined;
  const { head, shares } = await readShares(ctx.metadata, scope.id);
  // A holder that wrote its row meanwhile keeps it: it may count on the row in a bucket that was created behind the walk. The head changes
  // too, so no grant rests on a limit from before.
  const taken = shares
    .filter((share) => revisions.has(share.revision) && isTaken(share))
    .slice(0, commitLimits.changes - 1);
  await commitShares(
    ctx.metadata,
    { scope: scope.id, head, at: await ctx.metadata.now() },
    taken.map(({ row: { holder }, revision }) => ({ remove: { holder }, expect: revision })),
  );
  return generations;
}
