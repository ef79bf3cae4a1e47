/** Deletes an object or a version, or adds a delete marker. */
import type { Awaitable } from '../../base/awaitable.ts';
import { fail, Refusal } from '../../base/errors.ts';
import { findVersion, newestInHistory } from '../../metadata/objects/objects.ts';
import { type BucketRow, checkColumns, type ObjectRow } from '../../metadata/tables.ts';
import type { Revision } from '../../ports/metadata-store.ts';
import { assertVersionId, drawVersion } from '../common/ids.ts';
import type { Recorder } from '../common/recorder.ts';
import { type CommitCtx, changeKey, type KeyState } from './commit-version.ts';
import { type Conditions, checkCommit, checkDelete } from './conditions.ts';
import { type FreshVersion, type Plan, planNewVersion, planRemoval, planRemoveVersion } from './versions.ts';

export const mfaRequired = () => fail('AccessDenied', 'Mfa Authentication must be used for this request');

interface Deletion {
  readonly bucket: BucketRow;
  readonly key: string;
  /** Removes this version permanently. Absent: removes the object, or adds a delete marker. */
  readonly versionId?: string;
  /** Undefined for an unconditional delete. */
  readonly conditions: Conditions | undefined;
  /** Removes a version under GOVERNANCE retention: the caller asked for the bypass and has the permission. */
  readonly bypass?: boolean;
  /** The caller has proved the MFA that a bucket with MFA delete requires. */
  readonly mfa?: boolean;
  readonly owner: string;
  readonly record?: Recorder | undefined;
  readonly requestId: string;
}

/** `version` is the new delete marker or the removed version; undefined when there was nothing to do. */
interface Deleted {
  readonly version: ObjectRow | undefined;
}

export async function deleteObject(ctx: CommitCtx, deletion: Deletion): Promise<Deleted> {
  const { bucket, key, record, requestId, versionId, bypass = false } = deletion;
  assertVersionId(versionId);
  // A version never changes, so the public service evaluates conditions for the current version alone.
  if (versionId !== undefined && deletion.conditions !== undefined)
    throw fail('NotImplemented', 'A conditional delete of one version is not implemented.');
  const outcome = await changeKey(ctx, {
    bucket,
    key,
    requestId,
    id: `${requestId}-${drawVersion(ctx)}`,
    bypass,
    record,
    known: versionId === undefined ? deletion.conditions?.seen : undefined,
    decide: (state) =>
      versionId === undefined ? decideDelete(ctx, deletion, state) : decideVersion(ctx, deletion, state),
  });
  if (outcome.done !== 'applied') return { version: undefined };
  return { version: outcome.plan.fresh ?? outcome.plan.gone[0] };
}

function decideDelete(ctx: CommitCtx, deletion: Deletion, state: KeyState): Awaitable<Plan | undefined> {
  const { conditions } = deletion;
  if (conditions === undefined) return planDelete(ctx, state, deletion);
  return checkCommit(conditions, state.head, checkDelete).then(() => planDelete(ctx, state, deletion));
}

/** Removes the object, or adds a delete marker in a bucket that ever had versioning. Undefined: there is nothing to do. */
export function planDelete(
  ctx: Pick<CommitCtx, 'clock' | 'random'>,
  { bucket, head, oldNull }: KeyState,
  deletion: Pick<Deletion, 'key' | 'owner' | 'requestId'>,
): Plan | undefined {
  if (bucket.versioning === '') return head && planRemoval(head);
  const fresh: FreshVersion = checkColumns('marker', {
    bucketId: bucket.id,
    key: deletion.key,
    marker: true,
    modified: ctx.clock.now(),
    size: 0,
    etag: '',
    storageClass: '',
    manifest: { extents: [] },
    headers: {},
    owner: deletion.owner,
    requestId: deletion.requestId,
  });
  return planNewVersion(bucket, head, oldNull, { fresh, version: drawVersion(ctx, head?.row.version) });
}

async function decideVersion(
  ctx: CommitCtx,
  deletion: Deletion,
  { bucket, head }: KeyState,
): Promise<Plan | undefined> {
  if (bucket.mfaDelete && deletion.mfa !== true) throw mfaRequired();
  const target = await findVersion(ctx.metadata, bucket, deletion.key, deletion.versionId ?? 'null');
  if (head === undefined || target === undefined) return undefined;
  return planRemoveVersion(head, target, await newestInHistory(ctx.metadata, bucket, deletion.key));
}

// Removes one version that was read before, and no other that has replaced it since.

/** `kept`: protected by Object Lock or MFA delete. `nothing`: it did not exist. */
type Removal = 'gone' | 'kept' | 'nothing';

export async function removeSeenVersion(
  ctx: CommitCtx,
  bucket: BucketRow,
  {
    row,
    revision,
    requestId,
  }: {
    readonly row: ObjectRow;
    /** Removes the version only at this revision, so that not even its bytes have moved. */
    readonly revision?: Revision;
    readonly requestId: string;
  },
): Promise<Removal> {
  const { key, version, isNull } = row;
  try {
    const { done } = await changeKey(ctx, {
      bucket,
      key,
      requestId,
      id: `${requestId}-${drawVersion(ctx)}`,
      async decide({ bucket: now, head }) {
        if (now.mfaDelete) throw mfaRequired();
        const target = await findVersion(ctx.metadata, now, key, isNull ? 'null' : version);
        if (head === undefined || target?.row.version !== version) return undefined;
        if (revision !== undefined && target.revision !== revision) return undefined;
        return planRemoveVersion(head, target, await newestInHistory(ctx.metadata, now, key));
      },
    });
    return done === 'applied' ? 'gone' : 'nothing';
  } catch (cause) {
    if (cause instanceof Refusal && cause.code === 'AccessDenied') return 'kept';
    throw cause;
  }
}
