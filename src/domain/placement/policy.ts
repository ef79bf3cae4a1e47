/** Which clusters may take a write (spec items 8 and 9), as pure functions over what is believed of them. */
import type { ClusterState, ClusterView } from '../../ports/cluster-states.ts';
import { pick } from './pick.ts';

/** What a bucket and the class of a write say about its cluster. */
export interface Wish {
  /** The one cluster of the class. */
  readonly pin?: string | undefined;
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
/** Clusters that are asked for by name may be pending or have no weight of their own; nobody gets a draining one. */
export const isOpen = (state: ClusterState): boolean => takesWrites[state];

/** The default policy: what is live and has a weight. */
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

/** A bucket's own policy without what takes no writes now, or is not there. Weights of clusters do not count here. */
export const effectivePolicy = (
  placement: Readonly<Record<string, number>>,
  { states, closed }: Pick<Seen, 'states' | 'closed'>,
): ReadonlyMap<string, number> =>
  new Map(
    Object.entries(placement).filter(([id, weight]) => weight > 0 && states.has(id) && !closed.has(id)),
  );

/** The cluster of one write; undefined where every one that it may go to is draining. */
export function chooseCluster(seen: Seen, wish: Wish, seed: string): string | undefined {
  const { pin, placement, placementMode } = wish;
  if (pin !== undefined) return seen.states.has(pin) && !seen.closed.has(pin) ? pin : undefined;
  if (placement !== undefined) {
    const policy = effectivePolicy(placement, seen);
    if (policy.size > 0) return pick(policy, seen.closed, seed);
    if (placementMode === 'strict') return undefined;
  }
  return pick(seen.weights, seen.closed, seed);
}
