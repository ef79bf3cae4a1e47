/**
 * Settles the ops of dead processes: queues the bytes that no row owns for deletion. An op whose commit applied keeps
 * its bytes. Every gateway runs it; it is idempotent. A completion that was cut short is finished or undone by
 * `uploads/complete-upload.ts`.
 */
import type { Context } from '../../context.ts';
import { hasUnlistedBuckets } from '../../metadata/buckets/buckets.ts';
import { type Abandoned, isStoreFailure, type MetadataDamaged } from '../../ports/metadata-store.ts';
import type { Extent, Owner } from '../../ports/object-bytes.ts';
import { unlessDamaged } from '../common/damaged-buckets.ts';
import { extentsPerTask, queueGarbage } from '../common/garbage.ts';
import { findWhetherOwned, type Ownership, openOwnership } from '../common/ownership.ts';
import type { KeyChanging } from '../common/version-search.ts';

export type SweepContext = Pick<Context, 'metadata' | 'bytes' | 'config'>;

const sweepId = 'sweep';
/** Intents that are examined together and settled before the next ones. This bounds the memory of a walk, and a crash repeats little. */
const intentsPerWalk = 64;
/** Clusters and intents that an error names. */
const namedMax = 16;

/**
 * Examines every abandoned intent once. No commit can apply under such an intent any more, so the rows show which of its bytes are
 * owned; the others are queued for deletion, and only then the intents are settled. If a sweep dies before that, any process
 * repeats it; bytes that are queued twice are deleted once. When a read fails it throws, and has deleted nothing whose owner is
 * unknown. An intent waits where a cluster cannot be listed, where a row that may own its bytes is damaged, or where
 * writers change the key all the time; the sweep then throws at the end, and its error names what it left.
 */
export async function sweep(context: SweepContext, signal: AbortSignal): Promise<'busy' | 'idle'> {
  const abandoned = await context.metadata.abandoned();
  if (abandoned.length === 0) return 'idle';
  const ownership = await openOwnership(context);
  const run: Run = {
    ownership,
    signal,
    away: new Map(),
    unknown: new Map(),
    areBucketsListed: false,
  };
  for (let first = 0; first < abandoned.length; first += intentsPerWalk) {
    const some = abandoned.slice(first, first + intentsPerWalk);
    for (const [cluster, prefixes] of prefixesByCluster(context, some)) {
      if (!(await examine(context, run, { cluster, prefixes }))) return 'idle';
    }
    for (const intent of some) {
      if (listPlaces(context, intent).some((cluster) => run.away.has(cluster))) continue;
      if (run.unknown.has(intent.prefix)) continue;
      await context.metadata.settle(intent);
    }
  }
  const left = [...run.away, ...run.unknown];
  const [first] = left;
  if (first !== undefined) {
    const names = left.slice(0, namedMax).map(([name]) => name);
    throw new Error(`left ${names.join(', ')} (${first.join(': ')})`, { cause: first[1] });
  }
  return 'idle';
}

interface Run {
  ownership: Ownership;
  /** `ownership` includes every bucket that could have been written to under the intents. */
  areBucketsListed: boolean;
  readonly signal: AbortSignal;
  /** Clusters that cannot be listed, and why: ops that may have stored bytes there wait, the others do not. */
  readonly away: Map<string, unknown>;
  /** Prefixes of intents with bytes whose owner cannot be found now, and why. */
  readonly unknown: Map<string, MetadataDamaged | KeyChanging>;
}

const listPlaces = ({ bytes }: SweepContext, { cluster }: Abandoned): readonly string[] =>
  cluster === undefined ? bytes.clusters : [cluster];

/** Groups the prefixes, because one walk over a whole cluster can serve many intents. */
function prefixesByCluster(
  context: SweepContext,
  abandoned: readonly Abandoned[],
): ReadonlyMap<string, readonly string[]> {
  const places = abandoned.flatMap((intent) =>
    listPlaces(context, intent).map((cluster) => ({ prefix: intent.prefix, cluster })),
  );
  const groups = Map.groupBy(places, ({ cluster }) => cluster);
  return new Map([...groups].map(([cluster, group]) => [cluster, group.map(({ prefix }) => prefix)]));
}

interface Place {
  readonly cluster: string;
  readonly prefixes: readonly string[];
}

/**
 * Whether the list of buckets can tell whose the bytes are: it has their bucket, or is complete. A new bucket is missing while its
 * creator, which died or has not finished, has yet to enter it; writers do not wait for that.
 */
async function knowsBucket(context: SweepContext, run: Run, { bucketId }: Owner): Promise<boolean> {
  if (run.areBucketsListed || run.ownership.shards.has(bucketId)) return true;
  if (await hasUnlistedBuckets(context.metadata)) return false;
  run.ownership = await openOwnership(context);
  run.areBucketsListed = true;
  return true;
}

/** False when it must stop early; the intents then wait for another sweep. */
async function examine(context: SweepContext, run: Run, place: Place): Promise<boolean> {
  const { away } = run;
  if (away.has(place.cluster)) return true;
  try {
    return await queueUnowned(context, run, place);
  } catch (cause) {
    if (isStoreFailure(cause)) throw cause;
    away.set(place.cluster, cause);
    return true;
  }
}

/** Queues the bytes without an owner on one cluster for deletion; false when it must stop early. */
async function queueUnowned(context: SweepContext, run: Run, { cluster, prefixes }: Place): Promise<boolean> {
  let orphans: Extent[] = [];
  for await (const found of context.bytes.find(cluster, ...prefixes)) {
    if (run.signal.aborted) return false;
    if (!(await knowsBucket(context, run, found.owner))) return false;
    // fsck reports bytes without a readable owner.
    if (found.owner.unreadable) continue;
    const answer = await unlessDamaged(() => findWhetherOwned(context, run.ownership, found));
    if (answer instanceof Error)
      for (const prefix of matchingPrefixes(found.extent, prefixes)) run.unknown.set(prefix, answer);
    if (answer !== 'unowned') continue;
    orphans.push(found.extent);
    if (orphans.length < extentsPerTask) continue;
    await queueOrphans(context, orphans);
    orphans = [];
  }
  if (orphans.length > 0) await queueOrphans(context, orphans);
  return true;
}

/** The prefix of the intent under which an extent was stored; its first extent has the id of the op, without the dot of the prefix. */
function matchingPrefixes({ id }: Extent, prefixes: readonly string[]): readonly string[] {
  const matching = prefixes.filter((prefix) => `${id}.`.startsWith(prefix));
  return matching.length > 0 ? matching : prefixes;
}

/** Most of them were never visible, but some may be those of a version that was removed a moment ago, which requests still read. */
async function queueOrphans({ metadata, config }: SweepContext, orphans: readonly Extent[]): Promise<void> {
  const due = (await metadata.now()) + config.SVC_GC_GRACE;
  await metadata.apply([queueGarbage(orphans, { id: sweepId, requestId: sweepId, due })]);
}
