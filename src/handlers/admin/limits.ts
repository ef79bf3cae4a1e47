/** Rate limits of accounts, buckets and anonymous sources. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { openBucket } from '../../domain/common/buckets.ts';
import { recorded } from '../../domain/common/recorder.ts';
import { limitsTopic, RateLimiter, scopeOf } from '../../domain/quotas/rate-limiter.ts';
import {
  findRateLimit,
  type RateLimit,
  readRateLimits,
  replaceRateLimit,
} from '../../metadata/records/limits.ts';
import { rootArn } from '../../protocol/request/arns.ts';
import { emptyReply } from '../common/xml-reply.ts';
import { type AdminHandler, type AdminRequest, findAccount, jsonReply } from './call.ts';

const announceMs = 5_000;

interface Limited {
  readonly scope: string;
  /** The bucket's name, else ''. */
  readonly name: string;
  /** The resource of the audit row. */
  readonly about: string;
}
type Call = Pick<AdminRequest, 'params' | 'record' | 'match'>;
type Find = (ctx: Context, params: Call['params']) => Promise<Limited>;

const accountLimited: Find = async (ctx, params) => {
  const { owner } = await findAccount(ctx, params);
  return { scope: scopeOf({ kind: 'account', id: owner }), name: '', about: rootArn(owner) };
};
const bucketLimited: Find = async (ctx, params) => {
  const { id, name } = await openBucket(ctx, params.get('name') ?? '');
  return { scope: scopeOf({ kind: 'bucket', id }), name, about: `bucket:${name}` };
};
const anonymousLimited: Find = async () => ({ scope: 'anonymous', name: '', about: 'limits:anonymous' });

const show =
  (find: Find) =>
  async (ctx: Context, { params }: Call) => {
    const { scope } = await find(ctx, params);
    const found = await findRateLimit(ctx.metadata, scope);
    if (found === undefined) throw fail('NoSuchConfiguration', 'There is no rate limit.');
    return jsonReply(found.row.limit);
  };

type LimitBody = { readonly [F in keyof RateLimit]: RateLimit[F] | undefined };

async function replace(ctx: Context, find: Find, call: Call, body: LimitBody | undefined) {
  const { scope, name, about } = await find(ctx, call.params);
  call.record?.about(about);
  const before = await findRateLimit(ctx.metadata, scope);
  call.match(before?.row.limit);
  const set = body && Object.entries(body).filter(([, value]) => value !== undefined);
  const after = set && { scope, name, limit: Object.fromEntries(set) as RateLimit };
  call.record?.change?.(before && { ...before.row.limit }, after && { ...after.limit });
  const isApplied = await replaceRateLimit(ctx.metadata, before, after, await recorded(call.record));
  if (!isApplied) throw fail('OperationAborted');
  call.record?.applied();
  ctx.caches.of(RateLimiter).forget();
  await ctx.siblings.announce({ topic: limitsTopic, about: '' }, announceMs);
  return emptyReply(204);
}

const remove = (find: Find) => (ctx: Context, call: Call) => replace(ctx, find, call, undefined);

export const GetAccountLimit: AdminHandler<'GetAccountLimit'> = show(accountLimited);
export const PutAccountLimit: AdminHandler<'PutAccountLimit'> = (ctx, call) =>
  replace(ctx, accountLimited, call, call.body);
export const DeleteAccountLimit: AdminHandler<'DeleteAccountLimit'> = remove(accountLimited);

export const GetBucketLimit: AdminHandler<'GetBucketLimit'> = show(bucketLimited);
export const PutBucketLimit: AdminHandler<'PutBucketLimit'> = (ctx, call) =>
  replace(ctx, bucketLimited, call, call.body);
export const DeleteBucketLimit: AdminHandler<'DeleteBucketLimit'> = remove(bucketLimited);

export const GetAnonymousLimit: AdminHandler<'GetAnonymousLimit'> = show(anonymousLimited);
export const PutAnonymousLimit: AdminHandler<'PutAnonymousLimit'> = (ctx, call) =>
  replace(ctx, anonymousLimited, call, call.body);
export const DeleteAnonymousLimit: AdminHandler<'DeleteAnonymousLimit'> = remove(anonymousLimited);

export const ListLimits: AdminHandler<'ListLimits'> = async ({ metadata }) => {
  const rows = (await readRateLimits(metadata)).map(({ scope, name, limit }) => {
    const [kind = '', id = ''] = scope.split(/:(.*)/s);
    const of = { account: { account: id }, bucket: { bucket: name } }[kind];
    return { ...of, ...limit };
  });
  return jsonReply({ rows });
};
