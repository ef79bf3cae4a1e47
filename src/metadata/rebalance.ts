/** The rows of the worker `rebalance`: one for each slot of the buckets, written by whoever holds the slot's lease. */
import type { At, MetadataStore } from '../ports/metadata-store.ts';
import { bucketSlots } from './buckets.ts';
import { type RebalanceRow, rebalance } from './rebalance-tables.ts';

const rebalanceAt: At<typeof rebalance> = { table: rebalance, in: { group: 0 } };

/** Of every slot; one that was never looked at has a row without a pass. */
export async function rebalanceRows(
  metadata: Pick<MetadataStore, 'scan'>,
): Promise<readonly Omit<RebalanceRow, 'group'>[]> {
  const found = new Map(
    (await metadata.scan(rebalanceAt).next(bucketSlots)).map(({ row }) => [row.slot, row]),
  );
  return Array.from({ length: bucketSlots }, (_, slot) => found.get(slot) ?? { slot });
}

export const findRebalance = async (
  metadata: Pick<MetadataStore, 'get'>,
  slot: number,
): Promise<Omit<RebalanceRow, 'group'>> => (await metadata.get(rebalanceAt, { slot }))?.row ?? { slot };

export const putRebalance = (
  metadata: Pick<MetadataStore, 'apply'>,
  { slot, open, ended }: Omit<RebalanceRow, 'group'>,
): Promise<void> =>
  metadata.apply([
    {
      at: rebalanceAt,
      put: {
        group: 0,
        slot,
        ...(open === undefined ? {} : { open }),
        ...(ended === undefined ? {} : { ended }),
      },
    },
  ]);
