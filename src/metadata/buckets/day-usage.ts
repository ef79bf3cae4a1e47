/** The usage of closed days: written once for each bucket and day, and read by bucket, by owner or by day. */
import { shardOf } from '../../base/shard.ts';
import type { MetadataStore } from '../../ports/metadata-store.ts';
import { type DayUsageRow, usageAggregates, usageByDay, usageByOwner } from '../records/usage.ts';

/** The rows of a day are spread over this many partitions. */
export const usageDaySlots = 16;

/** Writes the rows of one bucket and day, unless they have been written: a closed day never changes. */
export async function closeBucketDay(
  metadata: Pick<MetadataStore, 'commit'>,
  bucketId: string,
  rows: readonly DayUsageRow[],
): Promise<void> {
  if (rows.length === 0) return;
  const slot = shardOf(bucketId, usageDaySlots);
  // A conflict means that the rows exist: this leader, or an earlier one, has written them from the same samples.
  await metadata.commit(
    { table: usageAggregates, in: { bucketId } },
    rows.map((put) => ({ put, expect: 'absent' })),
    {
      then: rows.flatMap((row) => [
        { at: { table: usageByOwner, in: { owner: row.owner } }, put: row },
        { at: { table: usageByDay, in: { day: row.day, slot } }, put: { ...row, slot } },
      ]),
    },
  );
}

export interface DayRange {
  readonly start: string;
  /** The day after the last one. */
  readonly before: string;
  readonly limit: number;
}

/** The rows of a bucket by day and storage class. */
export async function pageBucketDays(
  metadata: Pick<MetadataStore, 'scan'>,
  bucketId: string,
  {
    start,
    before,
    limit,
    after,
  }: DayRange & { readonly after?: { day: string; storageClass: string } | undefined },
): Promise<readonly DayUsageRow[]> {
  const at = { table: usageAggregates, in: { bucketId } };
  const range = { from: { day: start }, before: { day: before } };
  const cursor = metadata.scan(at, range);
  if (after !== undefined) cursor.seek(after, { past: true });
  return (await cursor.next(limit)).map(({ row }) => row);
}

/** The rows of the buckets that an account owned, by day, bucket and storage class. */
export async function pageOwnerDays(
  metadata: Pick<MetadataStore, 'scan'>,
  owner: string,
  {
    start,
    before,
    limit,
    after,
  }: DayRange & {
    readonly after?: { day: string; bucketId: string; storageClass: string } | undefined;
  },
): Promise<readonly DayUsageRow[]> {
  const at = { table: usageByOwner, in: { owner } };
  const range = { from: { day: start }, before: { day: before } };
  const cursor = metadata.scan(at, range);
  if (after !== undefined) cursor.seek(after, { past: true });
  return (await cursor.next(limit)).map(({ row }) => row);
}

/** Every row of a day, slot by slot; the order is the same each time. */
export async function* everyUsageOf(
  metadata: Pick<MetadataStore, 'scan'>,
  day: string,
): AsyncGenerator<DayUsageRow> {
  for (let slot = 0; slot < usageDaySlots; slot += 1) {
    const cursor = metadata.scan({ table: usageByDay, in: { day, slot } });
    for (let page = await cursor.next(256); page.length > 0; page = await cursor.next(256))
      for (const { row } of page) yield row;
  }
}
