/** Drains of clusters: their effect before they begin, their progress, what is stored and what waits for deletion. */
import { plural } from '../../base/text/plural.ts';
import type { Context } from '../../context.ts';
import { rebalanceRows } from '../../metadata/background/clusters.ts';
import { allRows, backlogMax, queueSlots } from '../../metadata/background/queues.ts';
import { bucketSlotOf, bucketSlots, bucketsInSlot, findBucket } from '../../metadata/buckets/buckets.ts';
import { objectsAt, readExtents } from '../../metadata/objects/objects.ts';
import { findSession, uploadsIn } from '../../metadata/objects/uploads.ts';
import type { ClusterRow, Remaining } from '../../metadata/records/clusters.ts';
import type { GarbageTask } from '../../metadata/records/queues.ts';
import { soundPage, soundPages, undefinedIfDamaged } from '../../metadata/sound-rows.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { MetadataDamaged } from '../../ports/metadata-store.ts';
import { type ClusterView, chunkBytes, type ObjectBytes } from '../../ports/object-bytes.ts';
import { passOverDamage, unlessDamaged } from '../common/damaged-buckets.ts';
import { chooseCluster, parseCluster, readConstraints } from './placement.ts';

// The progress of a drain, and whether the cluster can be removed from the settings.

type Ctx = Pick<Context, 'metadata' | 'bytes'>;

/** What the rebalance worker counted on a cluster since its drain began. */
interface Seen extends Remaining {
  readonly slots: number;
  readonly slotsSeen: number;
  /** Slots whose last pass began while other gateways could still begin uploads on the cluster. */
  readonly slotsSeenEarly: number;
  /** Store time of the oldest pass among those that were counted. */
  readonly seenAt: number | undefined;
}

export interface DrainProgress {
  readonly seen: Seen;
  /** Undefined when the settings do not list the cluster, so that it cannot be read. */
  readonly chunks: number | undefined;
  readonly gcQueue: number;
  readonly reasons: readonly string[];
}

/** How long other processes may place writes by a cached view, with a margin. */
const settledMs = 60_000;
/**
 * The same for a pass. It is shorter than `settledMs`, so that the pass does not delay the end of the drain. An open upload
 * without parts has no chunks: only a pass finds it.
 */
const passSettledMs = 45_000;

/** The earliest store time (ms) at which a pass may begin without missing an upload of another gateway. */
export const settledPassFrom = ({ since }: Pick<ClusterRow, 'since'>): number => since + passSettledMs;

async function seenOn({ metadata }: Pick<Ctx, 'metadata'>, { id, since }: ClusterRow): Promise<Seen> {
  const rows = await rebalanceRows(metadata);
  const passes = rows
    .map(({ ended }) => ended)
    .filter((pass) => pass !== undefined && pass.startedAt >= since && pass.clusters.includes(id));
  const sum = { manifests: 0, bytes: 0, stuck: 0, failed: 0, uploads: 0 };
  for (const pass of passes)
    for (const name of Object.keys(sum) as (keyof Remaining)[]) sum[name] += pass?.found[id]?.[name] ?? 0;
  const slotsSeenEarly = passes.filter((pass) => (pass?.startedAt ?? 0) < settledPassFrom({ since })).length;
  const seenAt = passes.length === 0 ? undefined : Math.min(...passes.map((pass) => pass?.startedAt ?? 0));
  return { ...sum, slots: rows.length, slotsSeen: passes.length, slotsSeenEarly, seenAt };
}

export async function drainProgress(ctx: Ctx, row: ClusterRow): Promise<DrainProgress> {
  const seen = await seenOn(ctx, row);
  const { extents, elsewhere } = await gcBacklog(ctx);
  const isListed = ctx.bytes.clusters.includes(row.id);
  const chunks = isListed ? await storedChunks(ctx.bytes, row.id) : undefined;
  const gcQueue = extents.get(row.id) ?? 0;
  const ageMs = (await ctx.metadata.now()) - row.since;
  const reasons = reasonsAgainst(row, { seen, chunks, isListed, gcQueue, elsewhere, ageMs });
  return { seen, chunks, gcQueue, reasons };
}

interface Facts {
  readonly seen: Seen;
  readonly chunks: number | undefined;
  readonly isListed: boolean;
  readonly gcQueue: number;
  readonly elsewhere: number;
  readonly ageMs: number;
}

/** Why the cluster cannot be removed yet, one sentence for each reason; an empty list means that it can. */
function reasonsAgainst({ state }: ClusterRow, facts: Facts): readonly string[] {
  const { seen, chunks = 0, isListed, gcQueue, elsewhere, ageMs } = facts;
  // A cluster that was listed by mistake and never activated may be removed again.
  if (state !== 'evacuating' && (isListed || state !== 'pending'))
    return [`The cluster is ${state}: only one that is evacuating can be left out.`];
  const waits: readonly (readonly [boolean, string])[] = [
    [
      ageMs < settledMs,
      'The drain began less than a minute ago: writes that were placed before may be under way.',
    ],
    [
      seen.slotsSeen < seen.slots,
      `The rebalance worker has walked through ${seen.slotsSeen} of ${seen.slots} slots of buckets since the drain began.`,
    ],
    [
      ageMs >= settledMs && seen.slotsSeenEarly > 0,
      `The last walk of the rebalance worker passed ${seen.slotsSeenEarly} slots while other gateways could still begin uploads on it.`,
    ],
    [seen.manifests > 0, `${seen.manifests} object versions were still on it at the worker's last walk.`],
    [seen.stuck > 0, `${seen.stuck} of them have no other cluster that they may go to.`],
    [seen.failed > 0, `${seen.failed} of them could not be moved; the log says why.`],
    [
      seen.uploads > 0,
      `${plural(seen.uploads, 'open upload is', 'open uploads are')} bound to it, and must be completed or aborted.`,
    ],
    [gcQueue > 0, `${gcQueue} extents on it wait to be deleted.`],
    [chunks > 0 && gcQueue === 0, `${plural(chunks, 'chunk is', 'chunks are')} stored on it.`],
    [
      elsewhere > 0 && (!isListed || (gcQueue === 0 && chunks > 0)),
      `${elsewhere} tasks of the deletion queue may have chunks on it.`,
    ],
  ];
  return waits.filter(([is]) => is).map(([, reason]) => reason);
}

// The effect of a drain, bucket by bucket, before it begins.

type DrainImpactCtx = Pick<Context, 'metadata' | 'bytes' | 'config' | 'clusterStates' | 'telemetry'>;

/** Versions that are read for one reply; the next request continues after the bucket. */
const versionsMax = 50_000;
const bucketsMax = 1_000;
const pageRows = 200;

interface BucketImpact {
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

interface DrainImpact {
  readonly buckets: readonly BucketImpact[];
  /** The bucket after which the next request continues. Absent when the reply includes the last bucket. */
  readonly next?: string;
}

/** Only the buckets that would be affected. */
export async function drainImpact(
  ctx: DrainImpactCtx,
  cluster: string,
  after?: string,
): Promise<DrainImpact> {
  const drained = withoutCluster(await ctx.clusterStates.view(), cluster);
  const buckets: BucketImpact[] = [];
  const budget = { versions: versionsMax, buckets: bucketsMax };
  const first = after === undefined ? 0 : bucketSlotOf(after);
  for (let slot = first; slot < bucketSlots; slot += 1) {
    const range = slot === first && after !== undefined ? { after: { name: after } } : {};
    for await (const name of bucketsInSlot(ctx.metadata, slot, range)) {
      budget.buckets -= 1;
      const left = 'a bucket is missing in the effect of a drain';
      const run = () => findBucket(ctx.metadata, name);
      const bucket = (await passOverDamage(ctx, { bucket: name, left, run }))?.row;
      if (bucket === undefined) continue;
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

async function impactOn(ctx: DrainImpactCtx, drained: ClusterView, asked: Asked): Promise<BucketImpact> {
  const { bucket, budget, cluster } = asked;
  const sum = { manifests: 0, bytes: 0, stuck: 0 };
  const cursor = ctx.metadata.scan(objectsAt(bucket));
  let isEnd = false;
  let isDamaged = false;
  while (!isEnd && budget.versions > 0) {
    const page = await soundPage(cursor, pageRows);
    isEnd = page.isEnd;
    isDamaged ||= page.damaged.length > 0;
    budget.versions -= page.rows.length;
    for (const { row } of page.rows) {
      const bytes = await unlessDamaged(() => bytesOn(ctx, row, cluster));
      isDamaged ||= bytes instanceof MetadataDamaged;
      if (bytes === undefined || bytes instanceof MetadataDamaged) continue;
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
    atLeast: !isEnd || isDamaged,
  };
}

const hasElsewhere = (
  ctx: DrainImpactCtx,
  drained: ClusterView,
  placing: Parameters<typeof readConstraints>[1],
): boolean => chooseCluster(drained, readConstraints(ctx, placing), '') !== undefined;

/** Undefined when none of its bytes are on the cluster. */
async function bytesOn(
  ctx: DrainImpactCtx,
  { manifest }: ObjectRow,
  cluster: string,
): Promise<number | undefined> {
  let bytes: number | undefined;
  for await (const extent of readExtents(ctx.metadata, manifest))
    if (extent.cluster === cluster) bytes = (bytes ?? 0) + Math.max(extent.size, 0);
  return bytes;
}

async function uploadsOn({ metadata }: DrainImpactCtx, { id }: BucketRow, cluster: string): Promise<number> {
  let count = 0;
  const open = metadata.scan(uploadsIn(id));
  for await (const page of soundPages(open, pageRows))
    for (const { row } of page) {
      const session = (await findSession(metadata, row.uploadId).catch(undefinedIfDamaged))?.row.session;
      if (session !== undefined && parseCluster(session) === cluster) count += 1;
    }
  return count;
}

// Counts the chunks that are stored on a cluster, up to a limit.

/** If the store's estimate is above this number, the estimate is returned; the exact count stops here too. */
const countMax = 10_000;

/** Exact for small numbers, because a cluster counts as empty only after its chunks were listed. */
async function storedChunks(bytes: Pick<ObjectBytes, 'find' | 'health'>, cluster: string): Promise<number> {
  const [health] = await bytes.health(cluster);
  const pools = health?.pools ?? [];
  const estimate = pools.reduce((sum, { chunkCount }) => sum + chunkCount, 0);
  if (estimate > countMax) return estimate;
  let count = 0;
  for await (const { extent } of bytes.find(cluster, '')) {
    count += Math.max(1, Math.ceil(extent.size / chunkBytes));
    if (count >= countMax) break;
  }
  return count;
}

// The deletion backlog of each cluster.

interface GcBacklog {
  /** Extents, counted in the first `backlogMax` rows of the queue. */
  readonly extents: ReadonlyMap<string, number>;
  /** By cluster, when its oldest extent became due (store time, ms); in the future during `SVC_GC_GRACE`. */
  readonly oldest: ReadonlyMap<string, number>;
  /** There are more rows than were counted. */
  readonly isCut: boolean;
  /** Rows whose clusters are known only when they are processed: large manifests and uploads. */
  readonly elsewhere: number;
}

export async function gcBacklog({ metadata }: Pick<Context, 'metadata'>): Promise<GcBacklog> {
  const extents = new Map<string, number>();
  const oldest = new Map<string, number>();
  let elsewhere = 0;
  let rows = 0;
  for (let slot = 0; slot < queueSlots && rows < backlogMax; slot += 1) {
    const cursor = allRows(metadata, 'gc', slot);
    for await (const page of soundPages(cursor, 500)) {
      rows += page.length;
      for (const { row } of page) {
        const task = row.task as GarbageTask;
        if ([task.manifestId, task.uploadId, task.bucketId].some((named) => named !== undefined))
          elsewhere += 1;
        for (const { cluster } of task.extents) {
          extents.set(cluster, (extents.get(cluster) ?? 0) + 1);
          oldest.set(cluster, Math.min(row.due, oldest.get(cluster) ?? row.due));
        }
      }
      if (rows >= backlogMax) break;
    }
  }
  return { extents, oldest, elsewhere, isCut: rows >= backlogMax };
}
