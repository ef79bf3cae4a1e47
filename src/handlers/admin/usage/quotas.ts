/** Quotas of buckets and of accounts (spec, "Operator JSON API"). 0 is unlimited. */
import { openBucket } from '../../../domain/buckets/buckets.ts';
import {
  type AccountQuota,
  deleteAccountQuota,
  putAccountQuota,
} from '../../../domain/buckets/quotas/account-quota.ts';
import { changeBucketQuota } from '../../../domain/buckets/quotas/bucket-quota.ts';
import { fail } from '../../../errors/refusal.ts';
import { findAccountQuota } from '../../../metadata/buckets/quotas.ts';
import { emptyReply } from '../../common/xml-reply.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

export const GetBucketQuota: AdminHandler<'GetBucketQuota'> = async (ctx, { params }) => {
  const { name, quota } = await openBucket(ctx, params.get('name') ?? '');
  if (quota === undefined) throw fail('NoSuchBucketQuota', { elements: { BucketName: name } });
  return jsonReply(quota);
};

export const PutBucketQuota: AdminHandler<'PutBucketQuota'> = async (
  ctx,
  { params, body: quota, record, match },
) => {
  await changeBucketQuota(ctx, { bucket: params.get('name') ?? '', quota, record, check: match });
  return emptyReply(204);
};

export const DeleteBucketQuota: AdminHandler<'DeleteBucketQuota'> = async (
  ctx,
  { params, record, match },
) => {
  await changeBucketQuota(ctx, { bucket: params.get('name') ?? '', quota: undefined, record, check: match });
  return emptyReply(204);
};

export const GetUserQuota: AdminHandler<'GetUserQuota'> = async (ctx, { params }) => {
  const found = await findAccountQuota(ctx.metadata, params.get('user') ?? '');
  if (found === undefined) throw fail('NoSuchUserQuota');
  return jsonReply(accountQuotaJson(found.row));
};

const accountQuotaJson = ({ maxBuckets, totalMaxBytes }: AccountQuota) => ({ maxBuckets, totalMaxBytes });

export const PutUserQuota: AdminHandler<'PutUserQuota'> = async (
  ctx,
  { params, body: quota, record, match },
) => {
  await putAccountQuota(ctx, readAccount(params.get('user')), {
    quota,
    record,
    check: (present) => match(present && accountQuotaJson(present)),
  });
  return emptyReply(204);
};

export const DeleteUserQuota: AdminHandler<'DeleteUserQuota'> = async (ctx, { params, record, match }) => {
  await deleteAccountQuota(ctx, params.get('user') ?? '', {
    record,
    check: (present) => match(present && accountQuotaJson(present)),
  });
  return emptyReply(204);
};

function readAccount(account = ''): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._@-]{0,127}$/.test(account)) return account;
  throw fail(
    'InvalidArgument',
    'The path must name an account: 1 to 128 characters of A-Z, a-z, 0-9 and ._@-.',
  );
}
