/** The end of a drain: a cluster that nothing is left on says so, and one that the settings left out gets its tombstone. */
import type { Context } from '../../context.ts';
import type { ClusterRow } from '../../metadata/cluster-tables.ts';
import { putClusters } from '../../metadata/clusters.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import { type DrainProgress, drainProgress } from '../clusters/drain-progress.ts';
import { moved } from '../clusters/transitions.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes' | 'clusterStates' | 'telemetry'>;

/** Whether its state says that chunks are to leave it, or that none should ever have come. */
export const isLeaving = ({ bytes }: Pick<Ctx, 'bytes'>, { id, state }: ClusterRow): boolean =>
  state === 'evacuating' || (state === 'pending' && !bytes.clusters.includes(id));

/** Somebody else may have changed the row meanwhile; then it is settled another time. */
export async function settleDrained(ctx: Ctx, found: Stored<ClusterRow>): Promise<DrainProgress> {
  const { slot: _, emptiedAt, ...row } = found.row;
  const progress = await drainProgress(ctx, found.row);
  const isEmpty = progress.reasons.length === 0;
  const isListed = ctx.bytes.clusters.includes(row.id);
  const now = await ctx.metadata.now();
  const state = isEmpty && !isListed ? moved(row.state, 'deregister') : row.state;
  if (state === undefined || (state === row.state && isEmpty === (emptiedAt !== undefined))) return progress;
  const next =
    state === row.state ? { ...row, ...(isEmpty ? { emptiedAt: now } : {}) } : { ...row, state, since: now };
  const outcome = await putClusters(ctx.metadata, [{ row: next, found }]);
  if (outcome.applied) {
    await ctx.clusterStates.changed();
    const said = state !== row.state ? 'is deregistered' : isEmpty ? 'is empty' : 'holds chunks again';
    ctx.telemetry.log('INFO', `a cluster that was drained ${said}`, { cluster: row.id, state });
  }
  return progress;
}
