/** Requests and bytes by bucket, account and UTC day: written by each process for itself, summed over the processes by readers. */
import { shardOf } from '../../base/shard.ts';
import type { Cursor, MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import { type TrafficRow, traffic, trafficByDay, trafficByPayer } from '../records/usage.ts';

/** The rows of a day are spread over this many partitions. */
export const trafficDaySlots = 16;

/** A row of one writer, in all three orders. */
export function trafficChanges(row: TrafficRow, expiresAt: number): readonly SideChange[] {
  const slot = shardOf(`${row.bucketId} ${row.requester}`, trafficDaySlots);
  return [
    { at: { table: traffic, in: { bucketId: row.bucketId } }, put: row, expiresAt },
    { at: { table: trafficByPayer, in: { payer: row.payer } }, put: row, expiresAt },
    { at: { table: trafficByDay, in: { day: row.day, slot } }, put: { ...row, slot }, expiresAt },
  ];
}

/** The traffic of an account with a bucket on a day, summed over the processes. */
export type Traffic = Omit<TrafficRow, 'writer'>;

export interface TrafficRange {
  readonly start: string;
  /** The day after the last one. */
  readonly before: string;
  readonly limit: number;
}

/** The traffic of a bucket by day, requester and payer. */
export function pageBucketTraffic(
  metadata: Pick<MetadataStore, 'scan'>,
  bucketId: string,
  {
    start,
    before,
    limit,
    after,
  }: TrafficRange & { readonly after?: Pick<Traffic, 'day' | 'requester' | 'payer'> | undefined },
): Promise<readonly Traffic[]> {
  const at = { table: traffic, in: { bucketId } };
  const cursor = metadata.scan(at, { from: { day: start }, before: { day: before } });
  if (after !== undefined) cursor.seek(after, { past: true });
  return take(summed(cursor), limit);
}

/** The traffic that an account pays for, by day, bucket and requester. */
export function pagePayerTraffic(
  metadata: Pick<MetadataStore, 'scan'>,
  payer: string,
  {
    start,
    before,
    limit,
    after,
  }: TrafficRange & { readonly after?: Pick<Traffic, 'day' | 'bucketId' | 'requester'> | undefined },
): Promise<readonly Traffic[]> {
  const at = { table: trafficByPayer, in: { payer } };
  const cursor = metadata.scan(at, { from: { day: start }, before: { day: before } });
  if (after !== undefined) cursor.seek(after, { past: true });
  return take(summed(cursor), limit);
}

/** All traffic of a day, slot by slot; the order is the same each time. */
export async function* everyTrafficOf(
  metadata: Pick<MetadataStore, 'scan'>,
  day: string,
): AsyncGenerator<Traffic> {
  for (let slot = 0; slot < trafficDaySlots; slot += 1)
    yield* summed(metadata.scan({ table: trafficByDay, in: { day, slot } }));
}

async function take(rows: AsyncIterable<Traffic>, limit: number): Promise<readonly Traffic[]> {
  const taken: Traffic[] = [];
  for await (const row of rows) {
    taken.push(row);
    if (taken.length >= limit) break;
  }
  return taken;
}

/** Rows that differ only in their writer, which is the last column of every order, become one. */
async function* summed(
  cursor: Pick<Cursor<typeof traffic>, 'next'> | Pick<Cursor<typeof trafficByDay>, 'next'>,
): AsyncGenerator<Traffic> {
  let sum: Traffic | undefined;
  for (let page = await cursor.next(256); page.length > 0; page = await cursor.next(256)) {
    for (const { row } of page) {
      const { bucketId, bucket, day, requester, payer } = row;
      const isSame =
        sum?.bucketId === bucketId && sum.day === day && sum.requester === requester && sum.payer === payer;
      if (sum !== undefined && !isSame) yield sum;
      const before = isSame ? sum : undefined;
      sum = {
        bucketId,
        bucket,
        day,
        requester,
        payer,
        requestsA: (before?.requestsA ?? 0) + row.requestsA,
        requestsB: (before?.requestsB ?? 0) + row.requestsB,
        requestsFree: (before?.requestsFree ?? 0) + row.requestsFree,
        ingressBytes: (before?.ingressBytes ?? 0) + row.ingressBytes,
        egressBytes: (before?.egressBytes ?? 0) + row.egressBytes,
      };
    }
  }
  if (sum !== undefined) yield sum;
}
