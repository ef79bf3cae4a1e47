/** Chooses the target cluster of a version, and the extents that must move there. */
import type { ObjectRow } from '../../../metadata/tables.ts';
import type { ClusterView } from '../../../ports/storage/cluster-states.ts';
import type { Extent } from '../../../ports/storage/object-bytes.ts';
import { chooseCluster, type Wish } from '../placement/policy.ts';

export interface Aim {
  /** Undefined when no cluster may take the version. */
  readonly to: string | undefined;
  /** Whether these bytes must, or should, leave their cluster. */
  leaves(extent: Extent): boolean;
}

/**
 * The target is the cluster that a new write would pick now, so bytes on the cluster that the weights chose stay there.
 * @param byWeight also moves bytes away from live clusters
 */
export function chooseAim(
  view: ClusterView,
  { row, wish, byWeight }: { readonly row: ObjectRow; readonly wish: Wish; readonly byWeight: boolean },
): Aim {
  const to = chooseCluster(view, wish, row.uploadId ?? row.requestId);
  const leaves = ({ cluster }: Extent): boolean => {
    const state = view.states.get(cluster);
    if (state === 'evacuating') return true;
    return byWeight && to !== undefined && cluster !== to && state !== undefined && !view.closed.has(cluster);
  };
  return { to, leaves };
}
