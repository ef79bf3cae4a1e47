/** Counters, usage by day, and traffic of a bucket. */
import { hashToShard } from '../../base/shard.ts';
import type { At, Cursor, MetadataStore, RowOf, SideChange, Stored } from '../../ports/metadata-store.ts';
import { storageClassNames } from '../../ports/storage-classes.ts';
import type { TaskAmount } from '../records/tasks.ts';
import {
  type DayUsageRow,
  type TrafficRow,
  traffic,
  trafficByDay,
  trafficByPayer,
  usage,
  usageAggregates,
  usageByDay,
  usageByOwner,
} from '../records/usage.ts';
import type { BucketRow } from '../tables.ts';

// What a bucket holds, by storage class: counter rows that change in the commit that changes the objects.

/** The counters of a bucket are spread over this many rows, so that its writers do not contend for one row. */
const usageSlots = 64;

const usageAt = (bucketId: string): At<typeof usage> => ({ table: usage, in: { bucketId } });

export interface UsageDelta {
  readonly storageClass: string;
  readonly bytes: number;
  readonly objects: number;
}

/** The bytes of the parts of a bucket's open uploads, in one class ''. They count under quotas, and are not billed. */
export const partUsage = (bucketId: string): string => `parts/${bucketId}`;

/** The class of these parts in the counters of an account. */
export const openParts = 'parts';

/**
 * The counters of all buckets of an account or an IAM user that has a quota: its objects in the class '', parts of open
 * uploads in `openParts`.
 */
export const accountUsage = (epoch: string): string => `account/${epoch}`;

/** The epochs of the quotas of an account and an IAM user that count a bucket. */
export const listHolders = ({
  accountQuota,
  userQuota,
}: Pick<BucketRow, 'accountQuota' | 'userQuota'>): readonly string[] =>
  accountQuota === undefined && userQuota === undefined
    ? []
    : [accountQuota, userQuota].filter((epoch) => epoch !== undefined);

/**
 * @param opId spreads the deltas of concurrent writers over the rows
 * @param updatedAt the time of a write or a deletion (ms), which is stored also where the amounts are 0; a correction has none
 */
export function usageChanges(
  bucket: Pick<BucketRow, 'id' | 'accountQuota' | 'userQuota'>,
  opId: string,
  deltas: readonly UsageDelta[],
  updatedAt?: number,
): SideChange[] {
  const ofBucket = counterChanges(bucket.id, opId, deltas, updatedAt);
  const holders = listHolders(bucket);
  if (holders.length === 0) return ofBucket;
  const ofHolder = deltas.map((delta) => ({ ...delta, storageClass: '' }));
  return [...ofBucket, ...holders.flatMap((epoch) => counterChanges(accountUsage(epoch), opId, ofHolder))];
}

export function counterChanges(
  usageId: string,
  opId: string,
  deltas: readonly UsageDelta[],
  updatedAt = 0,
): SideChange[] {
  const slot = hashToShard(opId, usageSlots);
  const at = usageAt(usageId);
  // A linear search suffices: a commit changes very few storage classes.
  const sums: { readonly storageClass: string; bytes: number; objects: number }[] = [];
  for (const { storageClass, bytes, objects } of deltas) {
    const sum = sums.find((each) => each.storageClass === storageClass);
    if (sum === undefined) sums.push({ storageClass, bytes, objects });
    else {
      sum.bytes += bytes;
      sum.objects += objects;
    }
  }
  const changes: SideChange[] = [];
  for (const { storageClass, bytes, objects } of sums)
    if (bytes !== 0 || objects !== 0 || updatedAt !== 0)
      changes.push({ at, add: { storageClass, slot }, by: { bytes, objects, updatedAt } });
  return changes;
}

/** Every counter row of a bucket. */
async function* usageRows(
  metadata: Pick<MetadataStore, 'scan'>,
  bucketId: string,
): AsyncGenerator<Stored<RowOf<typeof usage>>> {
  const cursor = metadata.scan(usageAt(bucketId));
  for (let page = await cursor.next(256); page.length > 0; page = await cursor.next(256)) yield* page;
}

/** What a bucket holds now, by storage class, and when it last changed (ms; absent where that is not known). */
export interface BucketUsage {
  readonly classes: ReadonlyMap<string, { readonly bytes: number; readonly objects: number }>;
  readonly updatedAt: number | undefined;
}

export async function readBucketUsage(
  metadata: Pick<MetadataStore, 'scan'>,
  bucketId: string,
): Promise<BucketUsage> {
  const classes = new Map<string, { bytes: number; objects: number }>();
  let updatedAt = 0;
  for await (const { row } of usageRows(metadata, bucketId)) {
    updatedAt = Math.max(updatedAt, row.updatedAt);
    // Delete markers have no class and no bytes: their row holds a time only.
    if (row.storageClass === '' && row.bytes === 0 && row.objects === 0) continue;
    const sum = classes.get(row.storageClass) ?? { bytes: 0, objects: 0 };
    classes.set(row.storageClass, { bytes: sum.bytes + row.bytes, objects: sum.objects + row.objects });
  }
  return { classes, updatedAt: updatedAt || undefined };
}

/** The bytes and objects of a bucket now, by storage class. */
export const readUsage = async (
  metadata: Pick<MetadataStore, 'scan'>,
  bucketId: string,
): Promise<BucketUsage['classes']> => (await readBucketUsage(metadata, bucketId)).classes;

/** The versions and bytes of all storage classes. */
export function sumUsage(
  classes: Iterable<{ readonly bytes: number; readonly objects: number }>,
): Required<TaskAmount> {
  let [count, bytes] = [0, 0];
  for (const each of classes) {
    count += each.objects;
    bytes += each.bytes;
  }
  return { count, bytes };
}

/** Equal texts mean that nothing was added to a bucket's counters in between, not even amounts that cancel out. */
export async function usageRevisions(
  metadata: Pick<MetadataStore, 'scan'>,
  bucketId: string,
): Promise<string> {
  const revisions: string[] = [];
  for await (const { row, revision } of usageRows(metadata, bucketId))
    revisions.push(`${row.storageClass}/${row.slot}/${revision}`);
  return revisions.join(' ');
}

/** Whether a commit that has applied, for example of a killed gateway, may still add to a bucket's counters. */
export const hasPendingUsage = (
  metadata: Pick<MetadataStore, 'hasPendingAdditions'>,
  bucketId: string,
): Promise<boolean> => metadata.hasPendingAdditions(usageAt(bucketId));

// The usage of closed days: written once for each bucket and day, and read by bucket, by owner or by day.

/** The rows of a day are spread over this many partitions. */
const usageDaySlots = 16;

/**
 * Writes the rows of one bucket and day, unless a row of that bucket and day is stored in any storage class: a closed day never changes.
 * @param rows all of one day
 */
export async function closeBucketDay(
  metadata: Pick<MetadataStore, 'commit'>,
  bucketId: string,
  rows: readonly DayUsageRow[],
): Promise<void> {
  const [first] = rows;
  if (first === undefined) return;
  const { day } = first;
  const slot = hashToShard(bucketId, usageDaySlots);
  const otherClasses = storageClassNames.filter((name) =>
    rows.every(({ storageClass }) => storageClass !== name),
  );
  // A conflict means that the day is closed: this leader, or an earlier one, has written its rows.
  await metadata.commit(
    { table: usageAggregates, in: { bucketId } },
    [
      ...rows.map((put) => ({ put, expect: 'absent' }) as const),
      ...otherClasses.map((storageClass) => ({ check: { day, storageClass }, expect: 'absent' }) as const),
    ],
    {
      then: rows.flatMap((row) => [
        { at: { table: usageByOwner, in: { owner: row.owner } }, put: row },
        { at: { table: usageByDay, in: { day: row.day, slot } }, put: { ...row, slot } },
      ]),
    },
  );
}

interface DayRange {
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
export async function* everyUsageOn(
  metadata: Pick<MetadataStore, 'scan'>,
  day: string,
): AsyncGenerator<DayUsageRow> {
  for (let slot = 0; slot < usageDaySlots; slot += 1) {
    const cursor = metadata.scan({ table: usageByDay, in: { day, slot } });
    for (let page = await cursor.next(256); page.length > 0; page = await cursor.next(256))
      for (const { row } of page) yield row;
  }
}

// Requests and bytes by bucket, account and UTC day: written by each process for itself, summed over the processes by readers.

/** The rows of a day are spread over this many partitions. */
const trafficDaySlots = 16;

/** A row of one writer, in all three orders. */
export function trafficChanges(row: TrafficRow, expiresAt: number): readonly SideChange[] {
  const slot = hashToShard(`${row.bucketId} ${row.requester}`, trafficDaySlots);
  return [
    { at: { table: traffic, in: { bucketId: row.bucketId } }, put: row, expiresAt },
    { at: { table: trafficByPayer, in: { payer: row.payer } }, put: row, expiresAt },
    { at: { table: trafficByDay, in: { day: row.day, slot } }, put: { ...row, slot }, expiresAt },
  ];
}

/** The row of one writer. */
export const findTraffic = async (
  metadata: Pick<MetadataStore, 'get'>,
  { bucketId, day, requester, payer, writer }: TrafficRow,
): Promise<TrafficRow | undefined> =>
  (await metadata.get({ table: traffic, in: { bucketId } }, { day, requester, payer, writer }))?.row;

/** The traffic of an account with a bucket on a day, summed over the processes. */
export type Traffic = Omit<TrafficRow, 'writer'>;

interface TrafficRange {
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
export async function* everyTrafficOn(
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
