/** Removes a version permanently because another site has done so. */
import { newestInHistory } from '../../../metadata/objects/objects.ts';
import { tombstone } from '../../../metadata/objects/removed-versions.ts';
import type { BucketRow } from '../../../metadata/tables.ts';
import { drawVersion } from '../../common/ids.ts';
import type { Recorder } from '../../common/recorder.ts';
import { type Ctx, changeKey } from '../commit-version.ts';
import { mfaRequired } from '../delete-object.ts';
import { planRemoveVersion } from '../versions.ts';
import { findById } from './find-replica.ts';

export interface ReplicaRemoval {
  readonly bucket: BucketRow;
  readonly key: string;
  readonly version: string;
  readonly record?: Recorder | undefined;
  readonly requestId: string;
}

/**
 * Removes a version, also one that has not arrived yet.
 * @returns whether it was there
 * @throws AccessDenied for one under Object Lock, and where the bucket requires MFA
 */
export async function removeReplica(
  ctx: Ctx,
  { bucket, key, version, record, requestId }: ReplicaRemoval,
): Promise<boolean> {
  const change = { bucket, key, requestId, id: `${requestId}-${drawVersion(ctx)}`, record };
  const remove = () =>
    changeKey(ctx, {
      ...change,
      async decide(state) {
        if (state.bucket.mfaDelete) throw mfaRequired();
        const target = await findById(ctx, state, version);
        if (state.head === undefined || target === undefined) return undefined;
        return planRemoveVersion(state.head, target, await newestInHistory(ctx.metadata, state.bucket, key));
      },
    });
  if ((await remove()).done === 'applied') return true;
  // A third site may still bring it. One that arrives at this moment is found by the second attempt, or finds the tombstone itself.
  const now = await ctx.metadata.now();
  const keptMs = ctx.config.SVC_REPLICATION_TOMBSTONES;
  await ctx.metadata.apply([tombstone({ bucketId: bucket.id, key, version }, { now, keptMs })]);
  return (await remove()).done === 'applied';
}
