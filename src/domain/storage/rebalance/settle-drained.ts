/** The end of a drain: marks a cluster that is empty, and writes the tombstone of one that the settings no longer list. */
import type { Context } from '../../../context.ts';
import { findCluster, putClusters } from '../../../metadata/background/clusters.ts';
import type { ClusterRow } from '../../../metadata/records/clusters.ts';
import type { Stored } from '../../../ports/metadata-store.ts';
import { type DrainProgress, drainProgress } from '../clusters/drain-progress.ts';
import { moved } from '../clusters/transitions.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes' | 'clusterStates' | 'telemetry'>;

/** Whether the state of the cluster says that its chunks are moving away, or that it never should have had any. */
export const isLeaving = ({ bytes }: Pick<Ctx, 'bytes'>, { id, state }: ClusterRow): boolean =>
  state === 'evacuating' || (state === 'pending' && !bytes.clusters.includes(id));

const changedMeanwhile = 'The row of the cluster changed meanwhile: ask again.';

/**
 * Marks a cluster as empty, or removes the mark, or writes the tombstone. A cluster counts as empty only if a second count, after the
 * mark, finds it empty too: a write whose bytes that count misses reads the mark before it commits (`assertNotEmptied`). Chunks
 * alone do not remove the mark: they may belong to such a write, which is refused.
 */
export async function settleDrained(ctx: Ctx, found: Stored<ClusterRow>): Promise<DrainProgress> {
  const { slot, emptiedAt, ...row } = found.row;
  const progress = await drainProgress(ctx, found.row);
  const { reasons, seen } = progress;
  const isEmpty = reasons.length === 0;
  const isListed = ctx.bytes.clusters.includes(row.id);
  const now = await ctx.metadata.now();
  const state = isEmpty && !isListed ? moved(row.state, 'deregister') : row.state;
  const wasMarked = emptiedAt !== undefined;
  const isMarked = isEmpty || (wasMarked && seen.manifests === 0 && seen.uploads === 0);
  if (state === undefined || (state === row.state && isMarked === wasMarked)) return progress;
  const next =
    state === row.state ? { ...row, ...(isMarked ? { emptiedAt: now } : {}) } : { ...row, state, since: now };
  const outcome = await putClusters(ctx.metadata, [{ row: next, found }]);
  if (!outcome.applied) return { ...progress, reasons: [...reasons, changedMeanwhile] };
  await ctx.clusterStates.changed();
  const said = state !== row.state ? 'is deregistered' : isEmpty ? 'is empty' : 'holds chunks again';
  ctx.telemetry.log('INFO', `a cluster that was drained ${said}`, { cluster: row.id, state });
  return isEmpty && state === row.state ? drainProgress(ctx, { ...next, slot }) : progress;
}

/** The progress for an operator, who may remove a cluster that is reported empty: marks the cluster first. */
export async function confirmedProgress(ctx: Ctx, row: ClusterRow): Promise<DrainProgress> {
  const progress = await drainProgress(ctx, row);
  const isListed = ctx.bytes.clusters.includes(row.id);
  if (progress.reasons.length > 0 || row.emptiedAt !== undefined || !isListed) return progress;
  const found = await findCluster(ctx.metadata, row.id);
  return found === undefined || found.row.state !== row.state
    ? { ...progress, reasons: [changedMeanwhile] }
    : settleDrained(ctx, found);
}
