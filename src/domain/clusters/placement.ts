/** Which clusters may take a write, as pure functions over the cached view of clusters. */

import { fail } from '../../base/errors.ts';
import { fnv32a, mixBits } from '../../base/shard.ts';
import type { Context } from '../../context.ts';
import type { BucketRow, UploadSession } from '../../metadata/tables.ts';
import type { ClusterState, ClusterView } from '../../ports/object-bytes.ts';

/** The placement rules of a bucket and a storage class. */
export interface Constraints {
  /** The cluster that the class is pinned to; or several, of which one takes the write. */
  readonly pin?: string | readonly string[] | undefined;
  /** The bucket's own policy: cluster id to weight. */
  readonly placement?: Readonly<Record<string, number>> | undefined;
  /** Absent or empty: `weighted`. */
  readonly placementMode?: 'weighted' | 'strict' | '' | undefined;
}

type Seen = Pick<ClusterView, 'states' | 'weights' | 'closed'>;

const takesWrites: Readonly<Record<ClusterState, boolean>> = {
  pending: true,
  live: true,
  draining_readonly: false,
  evacuating: false,
  removed: false,
};
/** Whether a request may name the cluster: it may be pending or have no weight, but not be draining. */
export const isOpen = (state: ClusterState): boolean => takesWrites[state];

/** The default policy: the live clusters that have a weight. */
export const defaultPolicy = (
  clusters: Iterable<
    readonly [id: string, cluster: { readonly state: ClusterState; readonly weight: number }]
  >,
): ReadonlyMap<string, number> =>
  new Map(
    [...clusters]
      .filter(([, { state, weight }]) => state === 'live' && weight > 0)
      .map(([id, { weight }]) => [id, weight]),
  );

/** A bucket's own policy without clusters that take no writes or do not exist. Weights of clusters do not count here. */
export const effectivePolicy = (
  placement: Readonly<Record<string, number>>,
  { states, closed }: Pick<Seen, 'states' | 'closed'>,
): ReadonlyMap<string, number> =>
  new Map(
    Object.entries(placement).filter(([id, weight]) => weight > 0 && states.has(id) && !closed.has(id)),
  );

/** The cluster of one write; undefined when every allowed cluster is draining. */
export function chooseCluster(seen: Seen, constraints: Constraints, seed: string): string | undefined {
  const { pin, placement, placementMode } = constraints;
  if (pin !== undefined) return choosePinned(seen, typeof pin === 'string' ? [pin] : pin, seed);
  if (placement !== undefined) {
    const policy = effectivePolicy(placement, seen);
    if (policy.size > 0) return pick(policy, seen.closed, seed);
    if (placementMode === 'strict') return undefined;
  }
  return pick(seen.weights, seen.closed, seed);
}

/** Chooses by weight among the pins that have one; where none has, all pins have the same chance. */
function choosePinned(seen: Seen, pins: readonly string[], seed: string): string | undefined {
  const open = pins.filter((pin) => seen.states.has(pin) && !seen.closed.has(pin));
  if (open.length <= 1) return open[0];
  const weighted = open.filter((pin) => (seen.weights.get(pin) ?? 0) > 0);
  const policy = weighted.length > 0 ? weighted : open;
  return pick(new Map(policy.map((pin) => [pin, seen.weights.get(pin) ?? 1])), seen.closed, seed);
}

// Picks a cluster; deterministic for a policy, an exclude set and the write's id.

/**
 * Weighted rendezvous hashing: every cluster draws a number from the seed, and its weight makes it likelier to be the highest. So the
 * order of the policy does not matter, and when a cluster is removed or its weight changes, only its own share moves.
 * @param policy cluster id to weight @param exclude clusters that take no writes @param seed the write's id
 */
export function pick(
  policy: ReadonlyMap<string, number>,
  exclude: ReadonlySet<string>,
  seed: string,
): string | undefined {
  const drawn = fnv32a(seed);
  let best: string | undefined;
  let highest = Number.NEGATIVE_INFINITY;
  for (const [id, weight] of policy) {
    if (weight <= 0 || exclude.has(id)) continue;
    const score = Math.log(fraction(drawn ^ mixBits(fnv32a(id)))) / weight;
    if (score < highest || (score === highest && best !== undefined && best < id)) continue;
    highest = score;
    best = id;
  }
  return best;
}

/** Above 0 and below 1. */
const fraction = (number: number): number => (mixBits(number) + 0.5) / 2 ** 32;

// Chooses the cluster of a new write.

type Ctx = Pick<Context, 'config' | 'clusterStates'>;

interface Placing {
  readonly bucket: Pick<BucketRow, 'placement' | 'placementMode'>;
  readonly storageClass: string;
}

/** @throws DrainRefused */
export async function placeWrite(ctx: Ctx, placing: Placing, seed: string): Promise<string> {
  const view = await ctx.clusterStates.view();
  const constraints = readConstraints(ctx, placing);
  if (constraints === unconstrained && view.only !== undefined) return view.only;
  const cluster = chooseCluster(view, constraints, seed);
  if (cluster === undefined) throw fail('DrainRefused');
  return cluster;
}

const unconstrained: Constraints = {};

/** The placement rules of the settings for the storage class, and of the bucket. */
export function readConstraints(
  { config }: { readonly config: Pick<Context['config'], 'SVC_STORAGE_CLASSES'> },
  { bucket, storageClass }: Placing,
): Constraints {
  const { SVC_STORAGE_CLASSES: classes } = config;
  const pin = classes.length === 0 ? undefined : findPin(classes, storageClass);
  const { placement, placementMode } = bucket;
  return pin === undefined && placement === undefined ? unconstrained : { pin, placement, placementMode };
}

/** A class that is pinned to several clusters has an item for each. */
function findPin(classes: Ctx['config']['SVC_STORAGE_CLASSES'], storageClass: string): Constraints['pin'] {
  const pins = classes.flatMap((each) =>
    each.storageClass === storageClass && each.cluster !== undefined ? [each.cluster] : [],
  );
  return pins.length <= 1 ? pins[0] : pins;
}

/** The cluster where the session began. All parts go there, even if the placement has changed. */
export const parseCluster = (session: UploadSession): string =>
  session.backendUploadId.split('\0', 1)[0] ?? '';
