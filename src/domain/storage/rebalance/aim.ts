/** Where the bytes of a version belong, and which of them must move there. */
import type { ObjectRow } from '../../../metadata/tables.ts';
import type { ClusterView } from '../../../ports/storage/cluster-states.ts';
import type { Extent } from '../../../ports/storage/object-bytes.ts';
import { chooseCluster, type Wish } from '../placement/policy.ts';

export interface Aim {
  /** Undefined where there is no cluster that it may go to. */
  readonly to: string | undefined;
  /** Whether these bytes must, or should, leave their cluster. */
  leaves(extent: Extent): boolean;
}

/**
 * The target is the cluster that a write would pick today, so bytes that are where their weight put them stay.
 * @param byWeight also moves bytes away from live clusters
 */
export function aimOf(
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
