/**
 * What the parts of open uploads count under the quotas of their bucket and its account. Each part says what it added to which counters, so
 * that exactly this is subtracted once: by the part that replaces it, by the commit of the object, or after an abort.
 */

import type { Context } from '../../context.ts';
import {
  accountUsage,
  counterChanges,
  listHolders,
  openParts,
  partUsage,
} from '../../metadata/buckets/usage.ts';
import { readExtents } from '../../metadata/objects/objects.ts';
import { everyPart, replaceSession, type StoredSession, unindexed } from '../../metadata/objects/uploads.ts';
import type { BucketRow, CountedPart, ObjectRow, UploadPart } from '../../metadata/tables.ts';
import type { MetadataStore, SideChange } from '../../ports/metadata-store.ts';
import { findAmongVersions } from '../common/version-search.ts';
import { type Freed, freedBy } from '../quotas/amounts.ts';

/** The counters to which the parts of a bucket are added beside its own. */
export function lockedBy(
  bucket: Pick<BucketRow, 'accountQuota' | 'userQuota'>,
): Pick<CountedPart, 'holders'> {
  const holders = listHolders(bucket);
  return holders.length === 0 ? {} : { holders };
}

/** @param uploadId spreads the additions of concurrent uploads over the rows of the counters */
export function partChanges(
  { bucketId, uploadId }: { readonly bucketId: string; readonly uploadId: string },
  { added, freed }: { readonly added?: CountedPart | undefined; readonly freed: Freed },
): readonly SideChange[] {
  const ofAccounts = new Map([...freed.accounts].map(([account, bytes]) => [account, -bytes]));
  for (const epoch of added?.holders ?? [])
    ofAccounts.set(epoch, (ofAccounts.get(epoch) ?? 0) + (added?.bytes ?? 0));
  const change = (usageId: string, storageClass: string, bytes: number) =>
    counterChanges(usageId, uploadId, [{ storageClass, bytes, objects: 0 }]);
  return [
    ...change(partUsage(bucketId), '', (added?.bytes ?? 0) - freed.bucket),
    ...[...ofAccounts].flatMap(([account, bytes]) => change(accountUsage(account), openParts, bytes)),
  ];
}

/**
 * Subtracts the parts of an aborted upload, of which none can be added any more, and takes the upload out of the list. The session says
 * that this was done: it is done once, also by several processes and after a kill.
 */
export async function freeParts(
  metadata: Pick<MetadataStore, 'get' | 'scan' | 'commit'>,
  found: StoredSession,
): Promise<void> {
  const { uploadId, session } = found.row;
  if (session.state !== 'aborted' || session.isFreed === true) return;
  const parts: UploadPart[] = [];
  for await (const { stored } of everyPart(metadata, uploadId)) parts.push(stored);
  await replaceSession(metadata, found, {
    session: { ...session, isFreed: true },
    then: [
      ...unindexed(uploadId, session),
      ...partChanges({ bucketId: session.bucketId, uploadId }, { freed: freedBy(parts) }),
    ],
  });
}

// Which parts of an ended upload are owned by versions of its key: one walk answers for all parts.

type Ctx = Pick<Context, 'metadata'>;

/**
 * @param extentIds of the parts; no commit of them may be possible any more
 * @returns those that a version names. A change that removes a version queues its bytes itself.
 */
export async function ownedParts(
  ctx: Ctx,
  place: {
    readonly bucket: Pick<BucketRow, 'id' | 'shards' | 'generation'>;
    readonly key: string;
    readonly uploadId: string;
  },
  extentIds: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const owned = new Set<string>();
  const note = async ({ manifest }: ObjectRow): Promise<boolean> => {
    for await (const { id } of readExtents(ctx.metadata, manifest)) if (extentIds.has(id)) owned.add(id);
    return owned.size > 0;
  };
  const { bucket, key, uploadId } = place;
  // Parts become one version, which names its upload; in most cases it still exists.
  await findAmongVersions(ctx, bucket, key, async (row) => row.uploadId === uploadId && note(row));
  // Before the answer is "none", every version is read.
  if (owned.size === 0) await findAmongVersions(ctx, bucket, key, note);
  return owned;
}
