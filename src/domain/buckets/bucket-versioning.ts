/** The versioning state of a bucket, and whether MFA is required to change it and to delete versions permanently. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { objectsAt } from '../../metadata/objects/objects.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { type AuthorizedBucket, changeBucket } from '../common/buckets.ts';
import type { Recorder } from '../common/recorder.ts';
import { bucketLifecycle, bucketReplication } from '../configurations/families.ts';
import { mfaRequired } from '../objects/delete-object.ts';

export interface VersioningChange {
  readonly versioning: 'Enabled' | 'Suspended';
  /** Undefined does not change it. */
  readonly mfaDelete?: boolean | undefined;
  /** The caller is the bucket's owner and has shown the code of a device. */
  readonly mfa?: boolean;
  readonly record?: Recorder | undefined;
}

/** Turning MFA delete on requires MFA, and so does every change while it is on. */
export const takesMfa = (
  { mfaDelete = false }: Pick<BucketRow, 'mfaDelete'>,
  requested: boolean | undefined,
): boolean => mfaDelete || requested === true;

/** Sets the versioning state. Once it returns, every write and delete obeys it. */
export async function setVersioning(
  ctx: Pick<Context, 'caches' | 'metadata' | 'clock' | 'random'>,
  bucket: AuthorizedBucket,
  change: VersioningChange,
): Promise<void> {
  const { versioning, mfaDelete, record } = change;
  const row = await changeBucket(ctx, bucket, {
    record,
    change(row) {
      assertVersioningAllowed(row, change);
      const generation = row.generation + 1;
      return { ...row, versioning, ...(mfaDelete === undefined ? {} : { mfaDelete }), generation };
    },
  });
  await ctx.metadata.raiseFence(objectsAt(row), row.generation);
}

/** @throws AccessDenied without MFA where it is required, InvalidBucketState */
export function assertVersioningAllowed(
  bucket: BucketRow,
  { versioning, mfaDelete, mfa = false }: VersioningChange,
): void {
  if (takesMfa(bucket, mfaDelete) && !mfa) throw mfaRequired();
  const isSuspended = versioning === 'Suspended';
  if (isSuspended && bucket.objectLock)
    throw fail(
      'InvalidBucketState',
      'An Object Lock configuration is present on this bucket, so versioning cannot be suspended.',
    );
  if (isSuspended && bucketReplication.name in bucket.documents)
    throw fail(
      'InvalidBucketState',
      'A replication configuration is present on this bucket, so you cannot change the versioning state. To change the versioning state, first delete the replication configuration.',
    );
  if (mfaDelete === true && bucketLifecycle.name in bucket.documents)
    throw fail(
      'InvalidBucketState',
      'A lifecycle configuration is present on this bucket, so MFA delete cannot be enabled.',
    );
}
