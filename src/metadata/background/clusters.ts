/** Rows of clusters and of rebalancing. */

import {
  type At,
  MetadataDamaged,
  type MetadataStore,
  type Outcome,
  type Revision,
  type SideChange,
  type Stored,
} from '../../ports/metadata-store.ts';
import { bucketSlots } from '../buckets/buckets.ts';
import { type ClusterRow, clusterState, type RebalanceRow, rebalance } from '../records/clusters.ts';
import { soundPage, undefinedIfDamaged } from '../sound-rows.ts';
import { LeaseLost } from './leases.ts';
import { longPast } from './tasks.ts';

// Rows of data clusters: few, in one partition.

type Metadata = Pick<MetadataStore, 'get' | 'scan'>;

const clustersAt: At<typeof clusterState> = { table: clusterState, in: { slot: 0 } };

/** The largest number of rows, tombstones of removed clusters included. */
const clustersMax = 10_000;

/** The rows that can be read, and whether there are others. */
interface ClusterRows {
  readonly found: readonly Stored<ClusterRow>[];
  readonly hasDamaged: boolean;
}

export async function readClusters(metadata: Pick<MetadataStore, 'scan'>): Promise<ClusterRows> {
  const { rows, damaged } = await soundPage(metadata.scan(clustersAt), clustersMax);
  return { found: rows, hasDamaged: damaged.length > 0 };
}

/** The rows of the clusters, in which damaged ones are left out. */
export const everyCluster = async (
  metadata: Pick<MetadataStore, 'scan'>,
): Promise<readonly Stored<ClusterRow>[]> => (await readClusters(metadata)).found;

/** Writes the row of a cluster in place of a damaged one. @returns false where it can be read, or the store cannot replace it */
export const replaceCluster = async (
  metadata: Pick<MetadataStore, 'replaceDamaged'>,
  row: Omit<ClusterRow, 'slot'>,
): Promise<boolean> => (await metadata.replaceDamaged?.(clustersAt, { ...row, slot: 0 })) ?? false;

export const findCluster = (metadata: Metadata, id: string): Promise<Stored<ClusterRow> | undefined> =>
  metadata.get(clustersAt, { id });

/** One change of a row, with the row that it was based on; absent when there was none. */
export interface ClusterPut {
  readonly row: Omit<ClusterRow, 'slot'>;
  readonly found: Stored<ClusterRow> | undefined;
}

/** Applies all changes or none. */
export const putClusters = (
  metadata: Pick<MetadataStore, 'commit'>,
  puts: readonly ClusterPut[],
  then: readonly SideChange[] = [],
): Promise<Outcome<typeof clusterState>> =>
  metadata.commit(
    clustersAt,
    puts.map(({ row, found }) => ({ put: { ...row, slot: 0 }, expect: found?.revision ?? 'absent' })),
    { then },
  );

// The rows of the worker `rebalance`: one for each slot of the buckets, written by the holder of the slot's lease alone.

const rebalanceAt: At<typeof rebalance> = { table: rebalance, in: { group: 0 } };

/** The state of a slot; one that was never processed has no pass. */
export type SlotRow = Omit<RebalanceRow, 'group' | 'generation'>;

/** A slot whose row is damaged counts as one that was never processed, so the other slots go on and no drain ends. */
export async function rebalanceRows(metadata: Pick<MetadataStore, 'scan'>): Promise<readonly SlotRow[]> {
  const { rows } = await soundPage(metadata.scan(rebalanceAt), bucketSlots);
  const found = new Map(rows.map(({ row }) => [row.slot, row]));
  return Array.from({ length: bucketSlots }, (_, slot) => found.get(slot) ?? { slot });
}

const find = (
  metadata: Pick<MetadataStore, 'get'>,
  slot: number,
): Promise<Stored<RebalanceRow> | undefined> => metadata.get(rebalanceAt, { slot });

/** As `rebalanceRows`. */
export const findRebalance = async (metadata: Pick<MetadataStore, 'get'>, slot: number): Promise<SlotRow> =>
  (await find(metadata, slot).catch(undefinedIfDamaged))?.row ?? { slot };

/** A slot that the holder of its lease may write, until a later holder claims it. */
export class ClaimedSlot {
  readonly #metadata: Pick<MetadataStore, 'commit'>;
  readonly #generation: number;
  #revision: Revision;
  #row: SlotRow;

  constructor(
    metadata: Pick<MetadataStore, 'commit'>,
    { row, revision }: { readonly row: RebalanceRow; readonly revision: Revision },
  ) {
    this.#metadata = metadata;
    this.#generation = row.generation;
    this.#revision = revision;
    this.#row = row;
  }

  get row(): SlotRow {
    return this.#row;
  }

  /** @throws LeaseLost once a later holder has claimed the slot */
  async put({ slot, open, ended }: SlotRow): Promise<void> {
    const put: RebalanceRow = {
      group: 0,
      slot,
      generation: this.#generation,
      ...(open === undefined ? {} : { open }),
      ...(ended === undefined ? {} : { ended }),
    };
    const outcome = await this.#metadata.commit(rebalanceAt, [{ put, expect: this.#revision }]);
    if (!outcome.applied) throw new LeaseLost(`slot ${slot} of rebalance`, this.#generation);
    this.#row = put;
    this.#revision = outcome.revision;
  }
}

/** Removes a damaged row, so that the slot begins again: a pass may be repeated, because a version that was moved is not moved again. */
async function findOrRemove(
  metadata: Pick<MetadataStore, 'get' | 'replaceDamaged'>,
  slot: number,
): Promise<Stored<RebalanceRow> | undefined> {
  try {
    return await find(metadata, slot);
  } catch (cause) {
    if (!(cause instanceof MetadataDamaged) || metadata.replaceDamaged === undefined) throw cause;
    await metadata.replaceDamaged(rebalanceAt, { group: 0, slot, generation: 0 }, longPast);
    return find(metadata, slot);
  }
}

/** Attempts against holders that claim the slot concurrently. */
const claimsMax = 8;

/** Fences all earlier holders of the slot's lease. @throws LeaseLost when a later holder has claimed the slot */
export async function claimSlot(
  metadata: Pick<MetadataStore, 'get' | 'commit' | 'replaceDamaged'>,
  slot: number,
  generation: number,
): Promise<ClaimedSlot> {
  for (let attempt = 0; attempt < claimsMax; attempt += 1) {
    const found = await findOrRemove(metadata, slot);
    if (found !== undefined && found.row.generation > generation) break;
    const row: RebalanceRow = { ...(found?.row ?? { group: 0, slot }), generation };
    const outcome = await metadata.commit(rebalanceAt, [{ put: row, expect: found?.revision ?? 'absent' }]);
    if (outcome.applied) return new ClaimedSlot(metadata, { row, revision: outcome.revision });
  }
  throw new LeaseLost(`slot ${slot} of rebalance`, generation);
}
