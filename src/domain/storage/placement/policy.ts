/** Which clusters may take a write, as pure functions over the cached view of clusters. */
import type { ClusterState, ClusterView } from '../../../ports/storage/cluster-states.ts';
import { pick } from './pick.ts';

/** The placement rules of a bucket and a storage class. */
export interface Wish {
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
export function chooseCluster(seen: Seen, wish: Wish, seed: string): string | undefined {
  const { pin, placement, placementMode } = wish;
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
