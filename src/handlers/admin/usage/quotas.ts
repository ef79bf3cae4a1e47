/** Quotas of buckets and of accounts (spec, "Operator JSON API"). 0 is unlimited. */
import { openBucket } from '../../../domain/buckets/buckets.ts';
import { deleteAccountQuota, putAccountQuota } from '../../../domain/buckets/quotas/account-quota.ts';
import { changeBucketQuota } from '../../../domain/buckets/quotas/bucket-quota.ts';
import { fail } from '../../../errors/refusal.ts';
import { findAccountQuota } from '../../../metadata/buckets/quotas.ts';
import { jsonInteger, jsonObject, readJson } from '../../../protocol/formats/json.ts';
import { emptyReply } from '../../common/xml-reply.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

const count = jsonInteger({ min: 0, max: Number.MAX_SAFE_INTEGER });
const bucketQuota = jsonObject({ maxBytes: count, maxObjects: count, maxBytesPerObject: count });
const userQuota = jsonObject({ maxBuckets: jsonInteger({ min: 0, max: 2 ** 31 - 1 }), totalMaxBytes: count });

export const GetBucketQuota: AdminHandler = async (ctx, { params }) => {
  const { name, quota } = await openBucket(ctx, params.get('name') ?? '');
  if (quota === undefined) throw fail('NoSuchBucketQuota', { elements: { BucketName: name } });
  return jsonReply(quota);
};

export const PutBucketQuota: AdminHandler = async (ctx, { params, body, record }) => {
  const quota = readJson(bucketQuota, body);
  await changeBucketQuota(ctx, { bucket: params.get('name') ?? '', quota, record });
  return emptyReply(204);
};

export const DeleteBucketQuota: AdminHandler = async (ctx, { params, record }) => {
  await changeBucketQuota(ctx, { bucket: params.get('name') ?? '', quota: undefined, record });
  return emptyReply(204);
};

export const GetUserQuota: AdminHandler = async (ctx, { params }) => {
  const found = await findAccountQuota(ctx.metadata, params.get('user') ?? '');
  if (found === undefined) throw fail('NoSuchUserQuota');
  const { maxBuckets, totalMaxBytes } = found.row;
  return jsonReply({ maxBuckets, totalMaxBytes });
};

export const PutUserQuota: AdminHandler = async (ctx, { params, body, record }) => {
  const quota = readJson(userQuota, body);
  await putAccountQuota(ctx, readAccount(params.get('user')), { quota, record });
  return emptyReply(204);
};

export const DeleteUserQuota: AdminHandler = async (ctx, { params, record }) => {
  await deleteAccountQuota(ctx, params.get('user') ?? '', record);
  return emptyReply(204);
};

function readAccount(account = ''): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/.test(account)) return account;
  throw fail(
    'InvalidArgument',
    'The path must name an account: 1 to 128 characters of A-Z, a-z, 0-9 and ._@-.',
  );
}
