/** The record of a data cluster. */

import { table } from '../../ports/metadata-store.ts';
import type { ClusterState } from '../../ports/storage/cluster-states.ts';

export interface ClusterRow {
  /** Always 0: there are few clusters, and one scan reads them all. */
  readonly slot: number;
  readonly id: string;
  readonly state: ClusterState;
  readonly weight: number;
  /** Store time (ms) of its last change of state. */
  readonly since: number;
  /** For an evacuating cluster: the store time at which it was found empty. */
  readonly emptiedAt?: number;
}
export const clusterState = table<ClusterRow>()({
  name: 'cluster_state',
  kind: 'conditional',
  partition: ['slot'],
  sort: ['id'],
  columns: { slot: 'int', id: 'text', state: 'text', weight: 'int', since: 'int', emptiedAt: 'int' },
});
