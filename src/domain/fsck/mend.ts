/** What fsck does about what it finds, where it may: never on an outcome that is not known, never to what an open op owns. */
import { findBucket } from '../../metadata/buckets.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { uploadsIn } from '../../metadata/uploads.ts';
import { type UsageDelta, usageChanges } from '../../metadata/usage.ts';
import type { Extent } from '../../ports/object-bytes.ts';
import { queueGarbage } from '../garbage.ts';
import { removeSeenVersion } from '../remove-version.ts';
import { drawId } from '../version-ids.ts';
import type { FsckRun, Mended } from './findings.ts';

const requestId = 'fsck';

/** Bytes that nobody owns and nobody can come to own. They go by way of gc, so there is time to change one's mind. */
export async function queueExtent({ metadata, config }: FsckRun, extent: Extent): Promise<Mended> {
  const due = (await metadata.now()) + config.SVC_GC_GRACE;
  await metadata.apply([queueGarbage([extent], { id: `fsck/${extent.id}`, requestId, due })]);
  return { fixed: 'queued for deletion' };
}

/** Added, not set: what writers add meanwhile stays. A sum over a bucket that was split meanwhile counts for nothing. */
export async function correctUsage(run: FsckRun, bucket: BucketRow, delta: UsageDelta): Promise<Mended> {
  const now = (await findBucket(run.metadata, bucket.name))?.row;
  if (now?.id !== bucket.id || now.generation !== bucket.generation || now.shards !== bucket.shards)
    return { left: 'the bucket changed meanwhile' };
  await run.metadata.apply(usageChanges(bucket.id, drawId(run.random), [delta]));
  return { fixed: 'counter corrected' };
}

export async function unlistUpload(
  { metadata }: FsckRun,
  { bucketId, key, uploadId }: { readonly bucketId: string; readonly key: string; readonly uploadId: string },
): Promise<Mended> {
  await metadata.apply([{ at: uploadsIn(bucketId), remove: { key, uploadId } }]);
  return { fixed: 'taken from the list' };
}

/** A version whose bytes are gone for good answers nothing but errors; still, only who says so has it taken away. */
export async function dropVersion(
  run: FsckRun,
  bucket: BucketRow,
  { row, cluster }: { readonly row: ObjectRow; readonly cluster: string | undefined },
): Promise<Mended> {
  if (!run.mode.drop) return { left: 'its bytes cannot be made again; --drop-missing takes it away' };
  // A cluster that holds nothing at all is more likely the wrong one than an empty one.
  if (cluster === undefined || !(await run.bytes.holdsAnything(cluster)))
    return { left: `cluster ${cluster} holds nothing at all: is it the right one?` };
  switch (await removeSeenVersion(run, bucket, { row, requestId })) {
    case 'gone':
      return { fixed: 'version taken away' };
    case 'kept':
      return { left: 'Object Lock or MFA delete holds it' };
    case 'nothing':
      return { left: 'somebody else took it away' };
  }
}
