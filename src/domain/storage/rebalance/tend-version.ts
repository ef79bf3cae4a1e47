/** One step of the `rebalance` worker: moves a version to its target cluster, and counts the bytes that stay. */
import type { Context } from '../../../context.ts';
import { readExtents } from '../../../metadata/objects/objects.ts';
import type { Remaining } from '../../../metadata/records/rebalance.ts';
import type { TaskAmount } from '../../../metadata/records/tasks.ts';
import type { BucketRow, ObjectRow } from '../../../metadata/tables.ts';
import type { ClusterView } from '../../../ports/storage/cluster-states.ts';
import { DataUnavailable } from '../../../ports/storage/object-bytes.ts';
import { readWish } from '../placement/place-write.ts';
import { chooseAim } from './aim.ts';
import { amountOf, sumAmounts } from './evacuations.ts';
import { type Move, type Ctx as MoveCtx, moveVersion } from './move-version.ts';
import type { Pace } from './pace.ts';

export type Ctx = MoveCtx & Pick<Context, 'clusterStates'>;

/** The view and settings that a worker uses for a while. */
export interface Tending {
  readonly view: ClusterView;
  /** The clusters whose remains are counted. */
  readonly clusters: ReadonlySet<string>;
  readonly byWeight: boolean;
  /** Clusters that could not be reached, so that the worker does not try again for every version. */
  readonly away: Set<string>;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  /** Chunks and bytes of a version that left a counted cluster. */
  movedOff?(cluster: string, amount: Required<TaskAmount>): void;
}

export type Found = Map<string, Remaining>;

export const nothingLeft: Remaining = { manifests: 0, bytes: 0, stuck: 0, failed: 0, uploads: 0 };

export function addTo(found: Found, cluster: string, more: Partial<Remaining>): void {
  const sum = { ...nothingLeft, ...found.get(cluster) };
  for (const [name, count] of Object.entries(more) as [keyof Remaining, number][]) sum[name] += count;
  found.set(cluster, sum);
}

/** @returns the remains of the version on the counted clusters, after it was moved as far as possible */
export async function tendVersion(
  ctx: Ctx,
  tending: Tending,
  { bucket, row }: { readonly bucket: BucketRow; readonly row: ObjectRow },
): Promise<Found> {
  const { view, clusters, byWeight } = tending;
  const found: Found = new Map();
  if (row.marker) return found;
  const wish = readWish(ctx, { bucket, storageClass: row.storageClass });
  const { to, leaves } = chooseAim(view, { row, wish, byWeight });
  const from = new Set<string>();
  const amounts = new Map<string, Required<TaskAmount>>();
  for await (const extent of readExtents(ctx.metadata, row.manifest)) {
    if (leaves(extent)) from.add(extent.cluster);
    if (!clusters.has(extent.cluster)) continue;
    const sum = amounts.get(extent.cluster);
    const amount = amountOf(extent);
    amounts.set(extent.cluster, sum === undefined ? amount : sumAmounts(sum, amount));
  }
  const why =
    to === undefined
      ? 'stuck'
      : from.size === 0
        ? undefined
        : await moved(ctx, tending, { bucket, row, to, leaves, from });
  if (why === 'moved') {
    for (const [cluster, amount] of amounts) tending.movedOff?.(cluster, amount);
    return found;
  }
  const reason = why === 'stuck' || why === 'failed' ? { [why]: 1 } : {};
  for (const [cluster, { bytes }] of amounts) addTo(found, cluster, { manifests: 1, bytes, ...reason });
  return found;
}

interface Wanted extends Pick<Move, 'bucket' | 'row' | 'to' | 'leaves'> {
  readonly from: ReadonlySet<string>;
}

async function moved(
  ctx: Ctx,
  { away, pace, signal }: Tending,
  { from, ...wanted }: Wanted,
): Promise<'moved' | 'changed' | 'failed'> {
  const { bucket, row, to } = wanted;
  const ways = [...from].map((cluster) => `${cluster} ${to}`);
  if (ways.some((way) => away.has(way))) return 'failed';
  try {
    return (await moveVersion(ctx, { ...wanted, pace, signal })) ? 'moved' : 'changed';
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof DataUnavailable) for (const way of ways) away.add(way);
    const { key, version } = row;
    const fields = { bucket: bucket.name, key, version, to, cause };
    ctx.telemetry.log('WARN', 'a version could not be moved', fields);
    return 'failed';
  }
}
