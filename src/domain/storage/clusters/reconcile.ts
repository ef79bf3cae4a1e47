/** Updates the rows of clusters from the list in the settings, at the start of a process. */
import type { Context } from '../../../context.ts';
import { type ClusterPut, everyCluster, putClusters } from '../../../metadata/background/clusters.ts';
import type { ClusterRow } from '../../../metadata/records/clusters.ts';
import { commitLimits, type Stored } from '../../../ports/metadata-store.ts';
import { defaultWeight, moved } from './transitions.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes' | 'telemetry'>;

/** Attempts against other processes that start and reconcile concurrently. */
const attemptsMax = 32;

/** @returns every row in its new state, listed or not */
export async function reconcileClusters(ctx: Ctx): Promise<readonly ClusterRow[]> {
  let isFirstBoot: boolean | undefined;
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const found = await everyCluster(ctx.metadata);
    isFirstBoot ??= found.length === 0;
    const puts = [...(await missing(ctx, found, isFirstBoot)), ...(await leaving(ctx, found))];
    if (puts.length === 0) return found.map(({ row }) => row);
    const outcome = await putClusters(ctx.metadata, puts.slice(0, commitLimits.changes));
    // At the very first boot all clusters start live, which is not worth an event.
    if (!outcome.applied || isFirstBoot) continue;
    for (const { row } of puts.slice(0, commitLimits.changes))
      ctx.telemetry.log('INFO', 'the settings moved a cluster', { cluster: row.id, state: row.state });
  }
  throw new Error('the states of the clusters never stood still');
}

/** Rows for listed clusters that have no row, or only a tombstone. */
async function missing(
  ctx: Ctx,
  found: readonly Stored<ClusterRow>[],
  isFirstBoot: boolean,
): Promise<readonly ClusterPut[]> {
  const rows = new Map(found.map((stored) => [stored.row.id, stored]));
  const puts: ClusterPut[] = [];
  for (const id of ctx.bytes.clusters) {
    const known = rows.get(id);
    const isLive = known === undefined && (isFirstBoot || (await mayHoldChunks(ctx, id)));
    const state = known === undefined ? (isLive ? 'live' : 'pending') : moved(known.row.state, 'relist');
    if (state === undefined) continue;
    const since = await ctx.metadata.now();
    puts.push({ row: { id, state, weight: defaultWeight, since }, found: known });
  }
  return puts;
}

/** False for a cluster that cannot be reached: it is then pending until an operator activates it. */
const mayHoldChunks = ({ bytes, telemetry }: Ctx, id: string): Promise<boolean> =>
  bytes.holdsAnything(id).catch((cause: unknown) => {
    telemetry.log('WARN', 'a new cluster is unavailable; its state is pending', {
      cluster: id,
      cause,
    });
    return false;
  });

/** A cluster that was evacuated and is no longer listed leaves a tombstone. */
async function leaving(ctx: Ctx, found: readonly Stored<ClusterRow>[]): Promise<readonly ClusterPut[]> {
  const puts: ClusterPut[] = [];
  for (const stored of found) {
    const { slot: _, emptiedAt, ...row } = stored.row;
    if (emptiedAt === undefined || ctx.bytes.clusters.includes(row.id)) continue;
    const state = moved(row.state, 'deregister');
    if (state !== undefined)
      puts.push({ row: { ...row, state, since: await ctx.metadata.now() }, found: stored });
  }
  return puts;
}
