/**
 * Moves a version to another storage class: first its bytes to the cluster of that class, then its row, each by compare-and-set on the
 * version's revision. Between the two it has its former class and its bytes are complete, so a kill needs no repair.
 */
import type { Context } from '../../context.ts';
import { fail } from '../../errors/refusal.ts';
import { findVersion, readExtents } from '../../metadata/objects/objects.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { Stored } from '../../ports/metadata-store.ts';
import { bucketLifecycle } from '../configurations/families.ts';
import type { Recorder } from '../events/recorder.ts';
import { changeKey } from '../objects/commit-version.ts';
import { drawVersion } from '../objects/version-ids.ts';
import { placeWrite } from '../storage/placement/place-write.ts';
import { type Ctx as MoveCtx, moveVersion } from '../storage/rebalance/move-version.ts';
import type { Pace } from '../storage/rebalance/pace.ts';

export type TransitionCtx = MoveCtx & Pick<Context, 'clusterStates'>;

export interface Transition {
  readonly bucket: BucketRow;
  readonly version: Stored<ObjectRow>;
  readonly storageClass: string;
  readonly requestId: string;
  readonly pace: Pace;
  readonly signal: AbortSignal;
  readonly record: Recorder;
}

/** @returns false when the version changed meanwhile */
export async function moveToClass(ctx: TransitionCtx, transition: Transition): Promise<boolean> {
  const { bucket, version, storageClass, requestId, pace, signal } = transition;
  const { row } = version;
  const to = await placeWrite(ctx, { bucket, storageClass }, row.uploadId ?? row.requestId);
  // An upstream stores the class with each of its objects, so the bytes are written again there.
  const isRewritten = ctx.bytes.uploads !== undefined;
  const leaving = new Set<string>();
  for await (const extent of readExtents(ctx.metadata, row.manifest))
    if (isRewritten || extent.cluster !== to) leaving.add(extent.id);
  if (leaving.size > 0) {
    const move = { bucket, row: { ...row, storageClass }, to, pace, signal };
    if (!(await moveVersion(ctx, { ...move, leaves: ({ id }) => leaving.has(id) }))) return false;
  }
  const { done } = await changeKey(ctx, {
    bucket,
    key: row.key,
    requestId,
    id: `${requestId}-${drawVersion(ctx)}`,
    record: transition.record,
    decide: async (state) => {
      const { documents } = state.bucket;
      if (documents[bucketLifecycle.name] !== bucket.documents[bucketLifecycle.name]) return undefined;
      const name = row.isNull ? 'null' : row.version;
      const found = await findVersion(ctx.metadata, state.bucket, row.key, name);
      // The move of the bytes has given the row another revision: compare what a client could have changed.
      if (found === undefined || !isUnchanged(found.row, row)) return undefined;
      const amended: ObjectRow = { ...found.row, storageClass };
      return {
        changes: [{ put: amended, expect: found.revision }],
        before: [found.row],
        gone: [],
        amended,
        former: found.row,
      };
    },
  });
  if (done === 'lost') throw fail('OperationAborted');
  return done === 'applied';
}

const isUnchanged = (now: ObjectRow, then: ObjectRow): boolean =>
  now.version === then.version &&
  now.storageClass === then.storageClass &&
  JSON.stringify([now.headers, now.lock, now.acl]) === JSON.stringify([then.headers, then.lock, then.acl]);
