/** A pass over the buckets of a slot, which any process can resume. */
import { inParallel } from '../../base/concurrency.ts';
import type { ClaimedSlot, SlotRow } from '../../metadata/background/clusters.ts';
import { bucketsInSlot, findBucket } from '../../metadata/buckets/buckets.ts';
import { objectsAt, readExtents } from '../../metadata/objects/objects.ts';
import { findSession, uploadsIn } from '../../metadata/objects/uploads.ts';
import type { EndedPass, OpenPass, Remaining } from '../../metadata/records/clusters.ts';
import type { TaskAmount } from '../../metadata/records/tasks.ts';
import { soundPage } from '../../metadata/sound-rows.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { MetadataDamaged } from '../../ports/metadata-store.ts';
import { type ClusterView, DataUnavailable, type Extent, unreachable } from '../../ports/object-bytes.ts';
import { type Constraints, chooseCluster, parseCluster, readConstraints } from '../clusters/placement.ts';
import { reportDamaged, unlessDamaged } from '../common/damaged-buckets.ts';
import { extentAmount, sumAmounts } from './evacuations.ts';
import { type Move, type MoveCtx, moveVersion } from './move-version.ts';
import type { Pace } from './pace.ts';

/** Versions between two saved positions. */
const pageRows = 100;
/** Versions that move concurrently; they share one rate limit. */
const movesMax = 4;
/** After this time the slot is released, so that a successor or another process gets its turn. */
const turnMs = 5_000;

/**
 * @param from the position where the pass resumes
 * @returns whether the pass reached its end
 * @throws LeaseLost once a later holder of the slot's lease has claimed the slot
 */
export async function walkSlot(
  ctx: MoveCtx,
  tending: Tending,
  { claimed, from: row }: { readonly claimed: ClaimedSlot; readonly from: SlotRow },
): Promise<boolean> {
  const { metadata, clock } = ctx;
  const { slot, ended } = row;
  const until = clock.elapsed() + turnMs;
  let pass = row.open ?? (await openPass(ctx, tending));
  const note = async (next: OpenPass): Promise<void> => {
    pass = next;
    await claimed.put({ slot, open: pass, ...(ended === undefined ? {} : { ended }) });
  };
  const isOver = (): boolean => tending.signal.aborted || clock.elapsed() >= until;
  for await (const name of bucketsInSlot(metadata, slot, placeIn(pass))) {
    const found = await unlessDamaged(() => findBucket(metadata, name));
    if (found instanceof MetadataDamaged)
      pass = addDamaged(ctx, tending, { bucket: name, pass, damaged: [found] });
    const bucket = found instanceof MetadataDamaged ? undefined : found?.row;
    if (bucket === undefined) {
      await note({ ...pass, bucket: name, after: 'end' });
      if (isOver()) return false;
      continue;
    }
    if (pass.bucket !== name) {
      const { after: _, upload: __, ...fresh } = pass;
      await note({ ...fresh, bucket: name });
    }
    for await (const next of pages(ctx, tending, { bucket, pass })) {
      await note(next);
      if (isOver()) return false;
    }
  }
  const over: EndedPass = { ...pass, endedAt: await metadata.now() };
  await claimed.put({ slot, ended: withoutPlace(over) });
  return true;
}

const openPass = async ({ metadata }: MoveCtx, { clusters }: Tending): Promise<OpenPass> => ({
  startedAt: await metadata.now(),
  clusters: [...clusters],
  found: {},
});

function placeIn({ bucket, after }: OpenPass): Parameters<typeof bucketsInSlot>[2] {
  if (bucket === undefined) return {};
  return after === 'end' ? { after: { name: bucket } } : { from: { name: bucket } };
}

const withoutPlace = ({ startedAt, endedAt, clusters, found }: EndedPass): EndedPass => ({
  startedAt,
  endedAt,
  clusters,
  found,
});

/** Yields the position after each page of versions, and then of open uploads; the last one is the end of the bucket. */
async function* pages(
  ctx: MoveCtx,
  tending: Tending,
  { bucket, pass }: { readonly bucket: BucketRow; readonly pass: OpenPass },
): AsyncGenerator<OpenPass> {
  let last = pass;
  if (pass.upload === undefined)
    for await (const { now, isEnd } of versionPages(ctx, tending, { bucket, pass })) {
      last = now;
      // The place behind the last page is stored with the first uploads, so that its damaged rows are counted once.
      if (!isEnd) yield now;
    }
  yield* uploadPages(ctx, tending, { bucket, pass: last });
}

async function* versionPages(
  ctx: MoveCtx,
  tending: Tending,
  { bucket, pass }: { readonly bucket: BucketRow; readonly pass: OpenPass },
): AsyncGenerator<{ readonly now: OpenPass; readonly isEnd: boolean }> {
  let now = pass;
  const { after } = pass;
  const cursor = ctx.metadata.scan(
    objectsAt(bucket),
    after === undefined || after === 'end' ? {} : { after },
  );
  for (let isEnd = false; !isEnd; ) {
    const page = await soundPage(cursor, pageRows);
    const damaged = [...page.damaged];
    const found: Found = new Map(Object.entries(now.found));
    await inParallel(movesMax, page.rows, async ({ row }) => {
      const left = await unlessDamaged(() => tendVersion(ctx, tending, { bucket, row }));
      if (left instanceof MetadataDamaged) damaged.push(left);
      else for (const [cluster, more] of left) addTo(found, cluster, more);
    });
    isEnd = page.isEnd;
    const last = page.rows.at(-1)?.row;
    const after = last && { space: last.space, key: last.key, slot: last.slot };
    now = { ...now, found: Object.fromEntries(found), ...(after === undefined ? {} : { after }) };
    now = addDamaged(ctx, tending, { bucket: bucket.name, pass: now, damaged });
    yield { now, isEnd };
  }
}

/** Counts open uploads. They do not move, because their parts go to the cluster where the upload began. */
async function* uploadPages(
  ctx: MoveCtx,
  tending: Tending,
  { bucket, pass }: { readonly bucket: BucketRow; readonly pass: OpenPass },
): AsyncGenerator<OpenPass> {
  const { metadata } = ctx;
  const { clusters } = tending;
  let now = pass;
  const cursor = metadata.scan(uploadsIn(bucket.id), pass.upload === undefined ? {} : { after: pass.upload });
  for (let isEnd = clusters.size === 0; !isEnd; ) {
    const page = await soundPage(cursor, pageRows);
    const damaged = [...page.damaged];
    const found: Found = new Map(Object.entries(now.found));
    for (const { row } of page.rows) {
      const stored = await unlessDamaged(() => findSession(metadata, row.uploadId));
      if (stored instanceof MetadataDamaged) damaged.push(stored);
      else if (stored !== undefined && clusters.has(parseCluster(stored.row.session)))
        addTo(found, parseCluster(stored.row.session), { uploads: 1 });
    }
    isEnd = page.isEnd;
    const last = page.rows.at(-1)?.row;
    const upload = last && { key: last.key, uploadId: last.uploadId };
    now = { ...now, found: Object.fromEntries(found), ...(upload === undefined ? {} : { upload }) };
    now = addDamaged(ctx, tending, { bucket: bucket.name, pass: now, damaged });
    if (!isEnd) yield now;
  }
  yield { ...now, after: 'end' };
}

/** What is behind damaged rows may be on any cluster, so they count as versions that could not be moved off each. */
function addDamaged(
  ctx: MoveCtx,
  { clusters }: Tending,
  {
    bucket,
    pass,
    damaged,
  }: { readonly bucket: string; readonly pass: OpenPass; readonly damaged: readonly MetadataDamaged[] },
): OpenPass {
  if (damaged.length === 0) return pass;
  reportDamaged(ctx, { bucket, left: 'versions are left where they are', damaged });
  const found: Found = new Map(Object.entries(pass.found));
  const { length } = damaged;
  for (const cluster of clusters) addTo(found, cluster, { manifests: length, failed: length });
  return { ...pass, found: Object.fromEntries(found) };
}

// One step of the `rebalance` worker: moves a version to its target cluster, and counts the bytes that stay.

/** The view and settings that a worker uses for a while. */
export interface Tending {
  readonly view: ClusterView;
  /** The clusters whose remains are counted. */
  readonly clusters: ReadonlySet<string>;
  readonly byWeight: boolean;
  /** From one cluster to another: how many versions in a row could not be moved. From `failedMax` on the worker tries no more of them. */
  readonly failures: Map<string, number>;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  /** Chunks and bytes of a version that left a counted cluster. */
  movedOff?(cluster: string, amount: Required<TaskAmount>): void;
}

type Found = Map<string, Remaining>;

const nothingLeft: Remaining = { manifests: 0, bytes: 0, stuck: 0, failed: 0, uploads: 0 };

function addTo(found: Found, cluster: string, more: Partial<Remaining>): void {
  const sum = { ...nothingLeft, ...found.get(cluster) };
  for (const [name, count] of Object.entries(more) as [keyof Remaining, number][]) sum[name] += count;
  found.set(cluster, sum);
}

/** @returns the remains of the version on the counted clusters, after it was moved as far as possible */
async function tendVersion(
  ctx: MoveCtx,
  tending: Tending,
  { bucket, row }: { readonly bucket: BucketRow; readonly row: ObjectRow },
): Promise<Found> {
  const { view, clusters, byWeight } = tending;
  const found: Found = new Map();
  if (row.marker) return found;
  const constraints = readConstraints(ctx, { bucket, storageClass: row.storageClass });
  const { to, leaves } = chooseDestination(view, { row, constraints, byWeight });
  const from = new Set<string>();
  const amounts = new Map<string, Required<TaskAmount>>();
  for await (const extent of readExtents(ctx.metadata, row.manifest)) {
    if (leaves(extent)) from.add(extent.cluster);
    if (!clusters.has(extent.cluster)) continue;
    const sum = amounts.get(extent.cluster);
    const amount = extentAmount(extent);
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

interface Requested extends Pick<Move, 'bucket' | 'row' | 'to' | 'leaves'> {
  readonly from: ReadonlySet<string>;
}

/** Clusters that say that they answer, and move none of so many different versions, are taken to be away. */
const failedMax = 8;

async function moved(
  ctx: MoveCtx,
  { failures, pace, signal }: Tending,
  { from, ...requested }: Requested,
): Promise<'moved' | 'changed' | 'failed'> {
  const { bucket, row, to } = requested;
  const ways = [...from].map((cluster) => `${cluster} ${to}`);
  if (ways.some((way) => (failures.get(way) ?? 0) >= failedMax)) return 'failed';
  try {
    const isMoved = await moveVersion(ctx, { ...requested, pace, signal });
    for (const way of ways) failures.delete(way);
    return isMoved ? 'moved' : 'changed';
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof DataUnavailable) {
      // It may be about this version alone, as with a bad sector.
      const more = (await isAnyAway(ctx, [...from, to])) ? failedMax : 1;
      for (const way of ways) failures.set(way, (failures.get(way) ?? 0) + more);
    }
    const { key, version } = row;
    const fields = { bucket: bucket.name, key, version, to, cause };
    ctx.telemetry.log('WARN', 'a version could not be moved', fields);
    return 'failed';
  }
}

async function isAnyAway({ bytes }: Pick<MoveCtx, 'bytes'>, clusters: readonly string[]): Promise<boolean> {
  const reports = await Promise.all(clusters.map((cluster) => bytes.health(cluster)));
  return reports.flat().some(({ status }) => status === unreachable);
}

// Chooses the target cluster of a version, and the extents that must move there.

interface Destination {
  /** Undefined when no cluster may take the version. */
  readonly to: string | undefined;
  /** Whether these bytes must, or should, leave their cluster. */
  leaves(extent: Extent): boolean;
}

/**
 * The target is the cluster that a new write would pick now, so bytes on the cluster that the weights chose stay there.
 * @param byWeight also moves bytes away from live clusters
 */
function chooseDestination(
  view: ClusterView,
  {
    row,
    constraints,
    byWeight,
  }: { readonly row: ObjectRow; readonly constraints: Constraints; readonly byWeight: boolean },
): Destination {
  const to = chooseCluster(view, constraints, row.uploadId ?? row.requestId);
  const leaves = ({ cluster }: Extent): boolean => {
    const state = view.states.get(cluster);
    if (state === 'evacuating') return true;
    return byWeight && to !== undefined && cluster !== to && state !== undefined && !view.closed.has(cluster);
  };
  return { to, leaves };
}
