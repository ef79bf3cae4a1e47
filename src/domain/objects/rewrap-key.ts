/** Wraps an object's key again under another key, without touching the content (public API "UpdateObjectEncryption"). */

import { fail } from '../../base/errors.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { Recorder } from '../common/recorder.ts';
import { type Ctx as KeyCtx, openObjectKey } from '../content/object-key.ts';
import { type KeyUser, wrapKey } from '../content/provided-key.ts';
import type { ByProvider } from '../content/requested-encryption.ts';
import { amendVersion } from './amend-version.ts';
import type { Ctx } from './commit-version.ts';
import { assertRemovable, lockTime } from './object-lock.ts';

interface Rewrap {
  readonly bucket: BucketRow;
  /** The version that was read. */
  readonly row: ObjectRow;
  /** Absent: the latest version. */
  readonly versionId?: string | undefined;
  readonly how: ByProvider;
  readonly user: KeyUser;
  readonly record?: Recorder | undefined;
  readonly requestId: string;
}

/**
 * @throws InvalidRequest for a version that is not encrypted, or under a customer's key; AccessDenied for a version that
 * Object Lock holds, and for keys that the user may not use; OperationAborted when another request replaced the version or
 * wrapped its key meanwhile
 */
export async function rewrapKey(ctx: Ctx & KeyCtx, rewrap: Rewrap): Promise<void> {
  const { bucket, row, how, user, ...amendment } = rewrap;
  const { key, encryption } = row;
  if (encryption === undefined || encryption.by === 'customer')
    throw fail(
      'InvalidRequest',
      `The UpdateObjectEncryption operation doesn't support ${encryption === undefined ? 'unencrypted source objects' : 'source objects with the encryption type SSE-C'}. Only source objects encrypted with SSE-S3 or SSE-KMS are supported.`,
    );
  const place = { bucket, key };
  const { bytes } = await openObjectKey(ctx, place, { encryption, user });
  const context = encryption.by === 'provider' ? encryption.context : undefined;
  const wrapped = await wrapKey(ctx, place, { bytes, how: { context, ...how }, user });
  const now = await lockTime(ctx);
  await amendVersion(ctx, {
    bucket,
    key,
    ...amendment,
    amend: (current) => {
      if (current.encryption?.wrapped !== encryption.wrapped) throw fail('OperationAborted');
      assertRemovable(current, { now, bypass: false });
      return { ...current, encryption: wrapped };
    },
  });
}
