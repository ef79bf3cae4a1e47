/**
 * The repairs of fsck, and the proof that each is safe. Each repair is idempotent, and none deletes anything when the outcome of a
 * commit is unknown:
 *
 * | repair | proof |
 * |---|---|
 * | `queueExtent` | the op that the bytes are named after is closed, which is final; after that no row owns them (`bytes.ts`), and `gc` looks for an owner again before it deletes them |
 * | `unqueue` | the row of the queue was read before the second read of a version or part that owns the bytes (`owners.ts`), so it is not of that one's removal; other bytes of the row are unowned then, and the walk over the stored bytes finds them |
 * | `correctUsage` | see `usage.ts`; the commit states that no other run has corrected counters since |
 * | `unlistUpload` | upload ids are never reused, and a session's row exists before the session is listed and as long as it is listed |
 * | `keepRemoved` | the row still names the bytes at the revision that was read; a later run removes bytes that no row names |
 * | `dropVersion` | the commit removes the row only at the revision that named the missing bytes |
 * | `rebuildIndex` | as `queueExtent`; the commit states that the key is absent |
 */

import { queueAt } from '../../metadata/background/queues.ts';
import { findTask, putTask, type TaskKind } from '../../metadata/background/tasks.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { type UsageDelta, usageChanges } from '../../metadata/buckets/usage.ts';
import { uploadsIn } from '../../metadata/objects/uploads.ts';
import type { QueueRow } from '../../metadata/records/queues.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { Revision, SideChange, Stored } from '../../ports/metadata-store.ts';
import { ChunkMissing, type Extent, type Owner } from '../../ports/object-bytes.ts';
import { queueOrphan } from '../common/garbage.ts';
import { drawId } from '../common/ids.ts';
import { removeSeenVersion } from '../objects/delete-object.ts';
import { freedBy } from '../quotas/amounts.ts';
import { lockedBy, partChanges } from '../uploads/part-counts.ts';
import type { FsckRun, Repaired } from './findings.ts';

const requestId = 'fsck';

/** Queues bytes that have no owner and cannot get one. gc deletes them after its grace period, so an operator has time to stop it. */
export async function queueExtent(
  { metadata, config }: FsckRun,
  { extent, owner }: { readonly extent: Extent; readonly owner: Owner },
): Promise<Repaired> {
  const due = (await metadata.now()) + config.SVC_GC_GRACE;
  await metadata.apply([queueOrphan(extent, { owner, id: 'fsck', requestId, due })]);
  return { fixed: 'queued for deletion' };
}

/** Takes a row from the deletion queue that names bytes with an owner. */
export async function unqueue(
  { metadata }: FsckRun,
  { queue, slot, due, id }: Pick<QueueRow, 'queue' | 'slot' | 'due' | 'id'>,
): Promise<Repaired> {
  await metadata.apply([{ at: queueAt(queue, slot), remove: { due, id } }]);
  return { fixed: 'taken from the deletion queue' };
}

/** The last correction of counters by any run, of any bucket. */
const corrections: TaskKind<{ readonly bucketId: string }> = { kind: 'usage-correction' };

export const lastCorrection = async ({ metadata }: Pick<FsckRun, 'metadata'>): Promise<'absent' | Revision> =>
  (await findTask(metadata, corrections, ''))?.revision ?? 'absent';

/**
 * Adds the difference instead of setting the sum, so that concurrent additions of writers stay. It uses a commit, because the
 * outcome of a commit is always settled: a bare addition with an unknown outcome could apply after the next run has repeated it.
 */
export async function correctUsage(
  run: Pick<FsckRun, 'metadata' | 'random'>,
  bucket: BucketRow,
  {
    proven,
    correction,
  }: {
    readonly proven: readonly { readonly delta: UsageDelta; readonly of: 'objects' | 'parts' }[];
    readonly correction: 'absent' | Revision;
  },
): Promise<Repaired> {
  const now = (await findBucket(run.metadata, bucket.name))?.row;
  if (now?.id !== bucket.id || now.generation !== bucket.generation || now.shards !== bucket.shards)
    return { left: 'the bucket changed meanwhile' };
  const provenDeltas = (what: 'objects' | 'parts') =>
    proven.flatMap(({ delta, of }) => (of === what ? [delta] : []));
  const outcome = await putTask(run.metadata, corrections, {
    name: '',
    state: { bucketId: bucket.id },
    expect: correction,
    then: [
      ...usageChanges(now, drawId(run.random), provenDeltas('objects')),
      ...openPartChanges(now, provenDeltas('parts')),
    ],
  });
  return outcome.applied
    ? { fixed: 'counter corrected' }
    : { left: 'another run corrected counters meanwhile' };
}

/** As the parts of a bucket are counted: in its account's counters too. */
function openPartChanges(
  bucket: Pick<BucketRow, 'id' | 'accountQuota' | 'userQuota'>,
  deltas: readonly UsageDelta[],
): readonly SideChange[] {
  const bytes = deltas.reduce((sum, delta) => sum + delta.bytes, 0);
  const added = { bytes, ...lockedBy(bucket) };
  return partChanges({ bucketId: bucket.id, uploadId: '' }, { added, freed: freedBy([]) });
}

export async function unlistUpload(
  { metadata }: FsckRun,
  { bucketId, key, uploadId }: { readonly bucketId: string; readonly key: string; readonly uploadId: string },
): Promise<Repaired> {
  await metadata.apply([{ at: uploadsIn(bucketId), remove: { key, uploadId } }]);
  return { fixed: 'taken from the list' };
}

/** Removes the removal marks of bytes that a row names, and reads the bytes again: a compaction may have removed them already. */
export async function keepRemoved(
  { bytes, signal }: FsckRun,
  extents: AsyncIterable<Extent> | Iterable<Extent>,
): Promise<Repaired> {
  for await (const extent of extents) {
    if (!(await bytes.removals?.isMarked(extent))) continue;
    await bytes.removals?.unmark(extent);
    try {
      const last = extent.size - 1;
      for await (const _ of bytes.read(extent, { start: last, end: last }, signal));
    } catch (cause) {
      if (!(cause instanceof ChunkMissing)) throw cause;
      return { left: 'their space was given back meanwhile' };
    }
  }
  return { fixed: 'its bytes are kept' };
}

/** Removes a version whose bytes are lost; reads of it fail anyway. Only an operator's flag asks for it. */
export async function dropVersion(
  run: FsckRun,
  bucket: BucketRow,
  { seen, cluster }: { readonly seen: Stored<ObjectRow>; readonly cluster: string | undefined },
): Promise<Repaired> {
  if (!run.mode.drop) return { left: 'its bytes cannot be made again; --drop-missing takes it away' };
  // An entirely empty cluster is probably a wrong or unmounted one.
  if (cluster === undefined || !(await run.bytes.holdsAnything(cluster)))
    return { left: `cluster ${cluster} holds nothing at all: is it the right one?` };
  switch (await removeSeenVersion(run, bucket, { row: seen.row, revision: seen.revision, requestId })) {
    case 'gone':
      return { fixed: 'version taken away' };
    case 'kept':
      return { left: 'Object Lock or MFA delete holds it' };
    case 'nothing':
      return { left: 'it was changed or taken away meanwhile' };
  }
}
