/** The records of clusters, of rebalancing and of imports. */
import { int, json, optional, type RowOf, table, text } from '../../ports/metadata-store.ts';
import type { ClusterState } from '../../ports/object-bytes.ts';

// The record of a data cluster.
export const clusterState = table({
  name: 'cluster_state',
  kind: 'conditional',
  isExported: true,
  partition: ['slot'],
  sort: ['id'],
  columns: {
    /** Always 0: there are few clusters, and one scan reads them all. */
    slot: int(),
    id: text(),
    state: text<ClusterState>(),
    weight: int(),
    /** Store time (ms) of its last change of state. */
    since: int(),
    /** For an evacuating cluster: the store time at which it was found empty. */
    emptiedAt: optional(int()),
  },
});
export interface ClusterRow extends RowOf<typeof clusterState> {}

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
  /** The last counted open upload of the bucket, whose versions are all processed; absent ahead of the first one. */
  readonly upload?: { readonly key: string; readonly uploadId: string };
}

export interface EndedPass extends RebalancePass {
  readonly endedAt: number;
}

export const rebalance = table({
  name: 'rebalance_slots',
  kind: 'conditional',
  isExported: true,
  partition: ['group'],
  sort: ['slot'],
  columns: {
    /** Always 0: one scan reads all slots. */
    group: int(),
    slot: int(),
    /** The generation of the slot's lease at its last holder, which fences earlier holders. */
    generation: int(),
    open: optional(json<OpenPass>()),
    ended: optional(json<EndedPass>()),
  },
});
export interface RebalanceRow extends RowOf<typeof rebalance> {}

// The state of `sluice import` (docs/adr/0015-import-of-upstream-objects.md).

/** An upstream object that no version names any more, but that still exists upstream; an import skips it. */
export const importReleased = table({
  name: 'import_released',
  kind: 'plain',
  isExported: true,
  partition: ['bucketId', 'slot'],
  sort: ['key', 'cluster'],
  columns: {
    bucketId: text(),
    slot: int(),
    /** The key of the upstream object, which is also the key of the version. */
    key: text(),
    cluster: text(),
    /** The ETag of the imported content; another content under this key is another object. */
    etag: text(),
  },
});
export interface ReleasedRow extends RowOf<typeof importReleased> {}
