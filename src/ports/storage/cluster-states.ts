/** The cached view of the data clusters: one snapshot for every write of a process. */

export type ClusterState = 'pending' | 'live' | 'draining_readonly' | 'evacuating' | 'removed';

/** Every listed cluster as it stood when this was read. */
export interface ClusterView {
  readonly states: ReadonlyMap<string, ClusterState>;
  /** The default policy: the weight of every cluster that is live with one. */
  readonly weights: ReadonlyMap<string, number>;
  /** The exclude set: clusters that take no fresh writes. */
  readonly closed: ReadonlySet<string>;
  /** The cluster of a default policy that has no other: nothing is picked there. */
  readonly only: string | undefined;
  /** Clusters that the settings leave out, and that may hold chunks: their objects cannot be read. */
  readonly leftOut: readonly string[];
}

export interface ClusterStates {
  /** At most 30 s old; a promise only where it has to be read again. */
  view(): ClusterView | Promise<ClusterView>;
  /**
   * A row of a cluster was changed, or may have been. On return no process of this node places by what was read before:
   * each has forgotten it, or has not acknowledged within the 30 s after which it no longer believes it. Never rejects.
   */
  changed(): Promise<void>;
}
