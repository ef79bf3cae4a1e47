/** The quotas that new buckets, accounts and IAM users begin with. */
import type { Context } from '../../../context.ts';
import {
  changeDefaultQuota,
  type DefaultLimits,
  type DefaultQuota,
  readDefaultQuota,
} from '../../../domain/buckets/quotas/default-quotas.ts';
import { emptyReply } from '../../common/xml-reply.ts';
import { type AdminHandler, type AdminRequest, jsonReply } from '../call.ts';
import { accountLimits, assertAnyLimit, bucketLimits, changeLimits } from './quota-limits.ts';

type Kind = keyof DefaultLimits;
type Call = Pick<AdminRequest, 'record' | 'match'>;
type Change = Readonly<Partial<Record<string, number | null | undefined>>>;

const limitNames: Readonly<Record<Kind, readonly string[]>> = {
  bucket: bucketLimits,
  account: accountLimits,
  user: accountLimits,
};

const toJson = <K extends Kind>({ limits, source }: DefaultQuota<K>) => ({ ...limits, source });

const show =
  <K extends Kind>(kind: K) =>
  async (ctx: Context) =>
    jsonReply(toJson(await readDefaultQuota(ctx, kind)));

/** @param change undefined leaves the settings in force */
async function change<K extends Kind>(ctx: Context, kind: K, call: Call, asked: Change | undefined) {
  const { record, match } = call;
  const names = limitNames[kind];
  if (asked !== undefined) assertAnyLimit(asked, names);
  record?.about(`quotas:defaults/${kind}`);
  await changeDefaultQuota(ctx, {
    kind,
    // The casts: the names are those of the limits of the kind.
    limits: (present) =>
      asked === undefined
        ? undefined
        : (changeLimits(names, present as unknown as Record<string, number>, asked) as never),
    record,
    check: (present) => match(toJson(present)),
  });
  return emptyReply(204);
}

export const GetBucketQuotaDefault: AdminHandler<'GetBucketQuotaDefault'> = show('bucket');
export const PutBucketQuotaDefault: AdminHandler<'PutBucketQuotaDefault'> = (ctx, call) =>
  change(ctx, 'bucket', call, call.body);
export const DeleteBucketQuotaDefault: AdminHandler<'DeleteBucketQuotaDefault'> = (ctx, call) =>
  change(ctx, 'bucket', call, undefined);

export const GetAccountQuotaDefault: AdminHandler<'GetAccountQuotaDefault'> = show('account');
export const PutAccountQuotaDefault: AdminHandler<'PutAccountQuotaDefault'> = (ctx, call) =>
  change(ctx, 'account', call, call.body);
export const DeleteAccountQuotaDefault: AdminHandler<'DeleteAccountQuotaDefault'> = (ctx, call) =>
  change(ctx, 'account', call, undefined);

export const GetUserQuotaDefault: AdminHandler<'GetUserQuotaDefault'> = show('user');
export const PutUserQuotaDefault: AdminHandler<'PutUserQuotaDefault'> = (ctx, call) =>
  change(ctx, 'user', call, call.body);
export const DeleteUserQuotaDefault: AdminHandler<'DeleteUserQuotaDefault'> = (ctx, call) =>
  change(ctx, 'user', call, undefined);
