/** The effect of a drain, bucket by bucket, before it begins. */
import type { Context } from '../../../context.ts';
import { bucketSlotOf, bucketSlots, bucketsInSlot, findBucket } from '../../../metadata/buckets/buckets.ts';
import { objectsAt, readExtents } from '../../../metadata/objects/objects.ts';
import { findSession, uploadsIn } from '../../../metadata/objects/uploads.ts';
import type { BucketRow, ObjectRow } from '../../../metadata/tables.ts';
import type { ClusterView } from '../../../ports/storage/cluster-states.ts';
import { parseCluster } from '../../uploads/upload-session.ts';
import { readWish } from '../placement/place-write.ts';
import { chooseCluster } from '../placement/policy.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes' | 'config' | 'clusterStates'>;

/** Versions that are read for one reply; the next request continues after the bucket. */
const versionsMax = 50_000;
const bucketsMax = 1_000;
const pageRows = 200;

export interface BucketImpact {
  readonly bucket: string;
  /** Versions that have bytes on the cluster, and the number of these bytes. */
  readonly manifests: number;
  readonly bytes: number;
  /** Of these, the versions that no other cluster may hold: an evacuation would never end. */
  readonly stuck: number;
  readonly openUploads: number;
  /** New objects without a storage class would be refused. */
  readonly refusesWrites: boolean;
  /** The counts are lower bounds. */
  readonly atLeast: boolean;
}

export interface DrainImpact {
  readonly buckets: readonly BucketImpact[];
  /** The bucket after which the next request continues. Absent when the reply includes the last bucket. */
  readonly next?: string;
}

/** Only the buckets that would be affected. */
export async function drainImpact(ctx: Ctx, cluster: string, after?: string): Promise<DrainImpact> {
  const drained = withoutCluster(await ctx.clusterStates.view(), cluster);
  const buckets: BucketImpact[] = [];
  const budget = { versions: versionsMax, buckets: bucketsMax };
  const first = after === undefined ? 0 : bucketSlotOf(after);
  for (let slot = first; slot < bucketSlots; slot += 1) {
    const range = slot === first && after !== undefined ? { after: { name: after } } : {};
    for await (const name of bucketsInSlot(ctx.metadata, slot, range)) {
      const bucket = (await findBucket(ctx.metadata, name))?.row;
      if (bucket === undefined) continue;
      budget.buckets -= 1;
      const impact = await impactOn(ctx, drained, { cluster, bucket, budget });
      if (impact.manifests > 0 || impact.openUploads > 0 || impact.refusesWrites) buckets.push(impact);
      if (budget.versions <= 0 || budget.buckets <= 0) return { buckets, next: name };
    }
  }
  return { buckets };
}

/** The view with the cluster drained. */
function withoutCluster(view: ClusterView, cluster: string): ClusterView {
  const weights = new Map([...view.weights].filter(([id]) => id !== cluster));
  return { ...view, weights, closed: new Set([...view.closed, cluster]), only: undefined };
}

interface Asked {
  readonly cluster: string;
  readonly bucket: BucketRow;
  readonly budget: { versions: number };
}

async function impactOn(ctx: Ctx, drained: ClusterView, asked: Asked): Promise<BucketImpact> {
  const { bucket, budget, cluster } = asked;
  const sum = { manifests: 0, bytes: 0, stuck: 0 };
  const cursor = ctx.metadata.scan(objectsAt(bucket));
  let page = await cursor.next(pageRows);
  for (; page.length > 0 && budget.versions > 0; page = await cursor.next(pageRows)) {
    budget.versions -= page.length;
    for (const { row } of page) {
      const bytes = await bytesOn(ctx, row, cluster);
      if (bytes === undefined) continue;
      sum.manifests += 1;
      sum.bytes += bytes;
      if (!hasElsewhere(ctx, drained, { bucket, storageClass: row.storageClass })) sum.stuck += 1;
    }
  }
  return {
    bucket: bucket.name,
    ...sum,
    openUploads: await uploadsOn(ctx, bucket, cluster),
    refusesWrites: !hasElsewhere(ctx, drained, { bucket, storageClass: bucket.defaultClass ?? 'STANDARD' }),
    atLeast: page.length > 0,
  };
}

const hasElsewhere = (ctx: Ctx, drained: ClusterView, placing: Parameters<typeof readWish>[1]): boolean =>
  chooseCluster(drained, readWish(ctx, placing), '') !== undefined;

/** Undefined when none of its bytes are on the cluster. */
async function bytesOn(ctx: Ctx, { manifest }: ObjectRow, cluster: string): Promise<number | undefined> {
  let bytes: number | undefined;
  for await (const extent of readExtents(ctx.metadata, manifest))
    if (extent.cluster === cluster) bytes = (bytes ?? 0) + Math.max(extent.size, 0);
  return bytes;
}

async function uploadsOn({ metadata }: Ctx, { id }: BucketRow, cluster: string): Promise<number> {
  let count = 0;
  const open = metadata.scan(uploadsIn(id));
  for (let page = await open.next(pageRows); page.length > 0; page = await open.next(pageRows)) {
    for (const { row } of page) {
      const session = (await findSession(metadata, row.uploadId))?.row.session;
      if (session !== undefined && parseCluster(session) === cluster) count += 1;
    }
  }
  return count;
}
