/** What a bucket holds, by storage class: counter rows that change in the commit that changes the objects. */

import { shardOf } from '../../base/shard.ts';
import type { At, MetadataStore, RowOf, SideChange, Stored } from '../../ports/metadata-store.ts';
import type { TaskAmount } from '../records/tasks.ts';
import { usage } from '../records/usage.ts';
import type { BucketRow } from '../tables.ts';

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

/** The counters of all buckets of an account or an IAM user that has a quota: its objects in the class '', parts of open uploads in `openParts`. */
export const accountUsage = (epoch: string): string => `account/${epoch}`;

/** The epochs of the quotas of an account and an IAM user that count a bucket. */
export const holdersOf = ({
  accountQuota,
  userQuota,
}: Pick<BucketRow, 'accountQuota' | 'userQuota'>): readonly string[] =>
  [accountQuota, userQuota].filter((epoch) => epoch !== undefined);

/** @param opId spreads the deltas of concurrent writers over the rows */
export function usageChanges(
  bucket: Pick<BucketRow, 'id' | 'accountQuota' | 'userQuota'>,
  opId: string,
  deltas: readonly UsageDelta[],
): SideChange[] {
  const ofBucket = counterChanges(bucket.id, opId, deltas);
  const holders = holdersOf(bucket);
  if (holders.length === 0) return ofBucket;
  const ofHolder = deltas.map((delta) => ({ ...delta, storageClass: '' }));
  return [...ofBucket, ...holders.flatMap((epoch) => counterChanges(accountUsage(epoch), opId, ofHolder))];
}

export function counterChanges(usageId: string, opId: string, deltas: readonly UsageDelta[]): SideChange[] {
  const slot = shardOf(opId, usageSlots);
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
  return sums
    .filter(({ bytes, objects }) => bytes !== 0 || objects !== 0)
    .map(({ storageClass, bytes, objects }) => ({
      at,
      add: { storageClass, slot },
      by: { bytes, objects },
    }));
}

/** Every counter row of a bucket. */
async function* usageRows(
  metadata: Pick<MetadataStore, 'scan'>,
  bucketId: string,
): AsyncGenerator<Stored<RowOf<typeof usage>>> {
  const cursor = metadata.scan(usageAt(bucketId));
  for (let page = await cursor.next(256); page.length > 0; page = await cursor.next(256)) yield* page;
}

/** The bytes and objects of a bucket now, by storage class. */
export async function readUsage(
  metadata: Pick<MetadataStore, 'scan'>,
  bucketId: string,
): Promise<ReadonlyMap<string, { bytes: number; objects: number }>> {
  const sums = new Map<string, { bytes: number; objects: number }>();
  for await (const { row } of usageRows(metadata, bucketId)) {
    const sum = sums.get(row.storageClass) ?? { bytes: 0, objects: 0 };
    sums.set(row.storageClass, { bytes: sum.bytes + row.bytes, objects: sum.objects + row.objects });
  }
  return sums;
}

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
