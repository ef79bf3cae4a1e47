/** The object keys that operations need: of what they read, and of the upload that they add a part to. */
import { keyUserOf } from '../../auth/key-user.ts';
import type { Context } from '../../context.ts';
import type { ObjectKey } from '../../domain/encryption/key.ts';
import { assertCustomerKey, openObjectKey } from '../../domain/encryption/object-key.ts';
import { fail } from '../../errors/refusal.ts';
import type { BucketRow, ObjectRow, UploadSession } from '../../metadata/tables.ts';
import type { BucketCall } from '../call.ts';
import { customerKeyOf, mentionsEncryption, refuseChoosing } from './encryption-headers.ts';

/**
 * What the headers of a read must say about the object's encryption. A customer's key is tried at once: who has not got
 * it learns nothing about the object (public API "HeadObject").
 */
export function describeKeyOf(
  ctx: Context,
  call: BucketCall,
  row: ObjectRow,
): Promise<ObjectKey> | undefined {
  const { encryption } = row;
  if (encryption === undefined && !mentionsEncryption(call)) return undefined;
  refuseChoosing(call);
  const customerKey = customerKeyOf(ctx, call);
  assertCustomerKey(encryption, customerKey);
  if (encryption?.by !== 'customer') return undefined;
  return openObjectKey(
    ctx,
    { bucket: call.bucket, key: row.key },
    { encryption, customerKey, user: keyUserOf(ctx, call) },
  );
}

/** The key to the content, for those who read it: other people's key services are not asked before. */
export const contentKeyOf = (
  ctx: Context,
  call: BucketCall,
  { encryption, key }: ObjectRow,
): Promise<ObjectKey> | undefined =>
  encryption && openObjectKey(ctx, { bucket: call.bucket, key }, { encryption, user: keyUserOf(ctx, call) });

/** The key to the source of a copy. */
export function sourceKeyOf(
  ctx: Context,
  call: BucketCall,
  { bucket, row }: { readonly bucket: BucketRow; readonly row: ObjectRow },
): Promise<ObjectKey> | undefined {
  const { encryption } = row;
  const customerKey = customerKeyOf(ctx, call, 'copy-source-');
  assertCustomerKey(encryption, customerKey);
  return (
    encryption &&
    openObjectKey(ctx, { bucket, key: row.key }, { encryption, customerKey, user: keyUserOf(ctx, call) })
  );
}

/** The key of an upload, which every part of it is encrypted under; a customer sends theirs with each (spec "UploadPart"). */
export function uploadKeyOf(
  ctx: Context,
  call: BucketCall,
  { encryption, key }: UploadSession,
): Promise<ObjectKey> | undefined {
  refuseChoosing(call);
  const customerKey = customerKeyOf(ctx, call);
  if (encryption?.by === 'customer' && customerKey === undefined)
    throw fail(
      'InvalidRequest',
      'The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate encryption parameters.',
    );
  if (encryption?.by === 'customer' && customerKey?.md5 !== encryption.keyMd5)
    throw fail(
      'InvalidRequest',
      'The provided encryption parameters did not match the ones used originally.',
    );
  assertCustomerKey(encryption, customerKey);
  return (
    encryption &&
    openObjectKey(ctx, { bucket: call.bucket, key }, { encryption, customerKey, user: keyUserOf(ctx, call) })
  );
}
