/** The cached view of the data clusters: one snapshot for every write of a process. */

export type ClusterState = 'pending' | 'live' | 'draining_readonly' | 'evacuating' | 'removed';

/** A snapshot of the states of all listed clusters. */
export interface ClusterView {
  readonly states: ReadonlyMap<string, ClusterState>;
  /** The default policy: the weight of every live cluster that has one. */
  readonly weights: ReadonlyMap<string, number>;
  /** The exclude set: clusters that take no fresh writes. */
  readonly closed: ReadonlySet<string>;
  /** The only cluster of the default policy, so that no choice is needed; otherwise undefined. */
  readonly only: string | undefined;
  /** Clusters that the settings do not list although they may hold chunks. Their objects cannot be read. */
  readonly leftOut: readonly string[];
}

export interface ClusterStates {
  /** The view, at most 30 s old. */
  view(): Promise<ClusterView>;
  /**
   * Call it when a row of a cluster was changed, or may have been. When it resolves, no process of this node places writes by an
   * older view: each has dropped its view, or the view has expired after 30 s. Never rejects.
   */
  changed(): Promise<void>;
}
