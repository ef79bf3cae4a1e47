/** The records of clusters, of rebalancing and of imports. */
import { table } from '../../ports/metadata-store.ts';
import type { ClusterState } from '../../ports/object-bytes.ts';

// The record of a data cluster.

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

// The progress of the `rebalance` worker in a slot of the buckets, and its findings.

/** What a pass found on a cluster that must be emptied. */
export interface Remaining {
  /** Versions that name it. */
  readonly manifests: number;
  readonly bytes: number;
  /** Of these, the versions that no other cluster may hold. */
  readonly stuck: number;
  /** Versions that this pass failed to move. */
  readonly failed: number;
  /** Open uploads that are bound to it. */
  readonly uploads: number;
}

/** One pass over the buckets of a slot. */
interface RebalancePass {
  /** Store time. */
  readonly startedAt: number;
  /** The clusters that the pass counts. */
  readonly clusters: readonly string[];
  readonly found: Readonly<Record<string, Remaining>>;
}

/** A pass under way, and its position. */
export interface OpenPass extends RebalancePass {
  /** The bucket of its position; absent at the start. */
  readonly bucket?: string;
  /** The last processed version of the bucket; 'end' when all of its versions are processed. */
  readonly after?: { readonly space: number; readonly key: string; readonly slot: string } | 'end';
}

export interface EndedPass extends RebalancePass {
  readonly endedAt: number;
}

export interface RebalanceRow {
  /** Always 0: one scan reads all slots. */
  readonly group: number;
  readonly slot: number;
  /** The generation of the slot's lease at its last holder, which fences earlier holders. */
  readonly generation: number;
  readonly open?: OpenPass;
  readonly ended?: EndedPass;
}
export const rebalance = table<RebalanceRow>()({
  name: 'rebalance_slots',
  kind: 'conditional',
  partition: ['group'],
  sort: ['slot'],
  columns: { group: 'int', slot: 'int', generation: 'int', open: 'json', ended: 'json' },
});

// The state of `sluice import` (docs/adr/0015-import-of-upstream-objects.md).

/** An upstream object that no version names any more, but that still exists upstream; an import skips it. */
export interface ReleasedRow {
  readonly bucketId: string;
  readonly slot: number;
  /** The key of the upstream object, which is also the key of the version. */
  readonly key: string;
  readonly cluster: string;
  /** The ETag of the imported content; another content under this key is another object. */
  readonly etag: string;
}
export const importReleased = table<ReleasedRow>()({
  name: 'import_released',
  kind: 'plain',
  partition: ['bucketId', 'slot'],
  sort: ['key', 'cluster'],
  columns: { bucketId: 'text', slot: 'int', key: 'text', cluster: 'text', etag: 'text' },
});
