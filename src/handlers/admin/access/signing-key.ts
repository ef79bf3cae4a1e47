/** The signing key of a bucket: rotate, status, delete (spec, "Operator JSON API"). Times are Unix seconds. */
import { deleteSigningKey, rotateSigningKey, signingKeyStatus } from '../../../domain/buckets/signing-key.ts';
import { fromBase64 } from '../../../domain/content/digests.ts';
import { emptyReply } from '../../common/xml-reply.ts';
import { type AdminHandler, jsonReply } from '../call.ts';
import { seconds } from '../times.ts';

export const RotateBucketSigningKey: AdminHandler<'RotateBucketSigningKey'> = async (
  ctx,
  { params, body: { key_id }, record },
) => {
  const { key, secret } = await rotateSigningKey(ctx, params.get('name') ?? '', { keyId: key_id, record });
  return jsonReply({
    key_id: key.keyId,
    secret_access_key: secret,
    created_at: seconds(key.createdAt),
    wrapped_dek_length: fromBase64(key.wrapped).length,
  });
};

export const GetBucketSigningKeyStatus: AdminHandler<'GetBucketSigningKeyStatus'> = async (
  ctx,
  { params },
) => {
  const { keyId: id, createdAt, ageMs, isExpired } = await signingKeyStatus(ctx, params.get('name') ?? '');
  return jsonReply({
    key_id: id,
    created_at: seconds(createdAt),
    age_days: ageMs / dayMs,
    max_age_days: ctx.config.SVC_KEY_MAX_AGE / dayMs,
    expired: isExpired,
  });
};

export const DeleteBucketSigningKey: AdminHandler<'DeleteBucketSigningKey'> = async (
  ctx,
  { params, record },
) => {
  await deleteSigningKey(ctx, params.get('name') ?? '', record);
  return emptyReply(204);
};

const dayMs = 24 * 60 * 60 * 1000;
