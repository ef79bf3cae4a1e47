/** The progress of the `rebalance` worker in a slot of the buckets, and its findings. */
import { table } from '../../ports/metadata-store.ts';

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
export interface RebalancePass {
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
