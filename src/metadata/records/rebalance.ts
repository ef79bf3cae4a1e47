/** How far the worker `rebalance` has come with a slot of the buckets, and what it found there. */
import { table } from '../../ports/metadata-store.ts';

/** What is on a cluster that chunks are to leave, as far as a pass has seen. */
export interface Remaining {
  /** Versions that name it. */
  readonly manifests: number;
  readonly bytes: number;
  /** Of these: there is no cluster that they may go to. */
  readonly stuck: number;
  /** … and those that could not be moved this time. */
  readonly failed: number;
  /** Open uploads that are bound to it. */
  readonly uploads: number;
}

/** One walk over the buckets of a slot. */
export interface RebalancePass {
  /** Store time. */
  readonly startedAt: number;
  /** The clusters that it looks for. */
  readonly clusters: readonly string[];
  readonly found: Readonly<Record<string, Remaining>>;
}

/** A pass under way, and where it goes on. */
export interface OpenPass extends RebalancePass {
  /** The bucket that it came to; absent at its start. */
  readonly bucket?: string;
  /** The last version in it that was dealt with, or that all of it was. */
  readonly after?: { readonly space: number; readonly key: string; readonly slot: string } | 'end';
}

export interface EndedPass extends RebalancePass {
  readonly endedAt: number;
}

export interface RebalanceRow {
  /** Always 0: one scan reads all slots. */
  readonly group: number;
  readonly slot: number;
  /** Of the lease of the slot's last holder, which fences the holders before it. */
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
