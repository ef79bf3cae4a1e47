/** Quotas of buckets, accounts and users, their defaults, and limits of request rates. */
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { openBucket } from '../../domain/common/buckets.ts';
import { recorded } from '../../domain/common/recorder.ts';
import { findNamed } from '../../domain/iam/entities.ts';
import {
  changeDefaultQuota,
  type DefaultLimits,
  type DefaultQuota,
  readDefaultQuota,
} from '../../domain/quotas/default-quotas.ts';
import {
  type AccountQuota,
  changeBucketQuota,
  deleteAccountQuota,
  putAccountQuota,
} from '../../domain/quotas/quota-limits.ts';
import { formatScope, limitsTopic, RateLimiter } from '../../domain/quotas/rate-limiter.ts';
import { accountHolder, type QuotaHolder, userHolder } from '../../domain/quotas/scopes.ts';
import { findAccountQuota } from '../../metadata/buckets/quotas.ts';
import {
  findRateLimit,
  type RateLimit,
  readRateLimits,
  replaceRateLimit,
} from '../../metadata/records/limits.ts';
import { rootArn, userArn } from '../../protocol/arns.ts';
import { emptyReply } from '../handler.ts';
import { type AdminHandler, type AdminRequest, findAccount, jsonReply } from './call.ts';

// The limits of quotas in requests: a request changes the limits that it names.

const bucketLimits = ['maxBytes', 'maxObjects', 'maxBytesPerObject'] as const;
const accountLimits = ['maxBuckets', 'totalMaxBytes'] as const;

type Limits<Name extends string> = Readonly<Record<Name, number>>;
type LimitsChange<Name extends string> = Readonly<Partial<Record<Name, number | null | undefined>>>;

/** @throws MalformedJSON for a body that would change nothing */
function assertAnyLimit<Name extends string>(change: LimitsChange<Name>, names: readonly Name[]): void {
  if (names.some((name) => change[name] !== undefined)) return;
  throw fail('MalformedJSON', `The body names no limit; it takes ${names.join(', ')}.`);
}

/** A limit that the change does not name stays; null makes it unlimited. */
const changeLimits = <Name extends string>(
  names: readonly Name[],
  present: Limits<Name> | undefined,
  change: LimitsChange<Name>,
): Limits<Name> => {
  const changedLimit = (name: Name): number =>
    change[name] === undefined ? (present?.[name] ?? 0) : (change[name] ?? 0);
  // The cast: each name has its value.
  return Object.fromEntries(names.map((name) => [name, changedLimit(name)])) as Limits<Name>;
};

// Quotas of buckets and of accounts (spec, "Operator JSON API"). 0 is unlimited.

export const GetBucketQuota: AdminHandler<'GetBucketQuota'> = async (ctx, { params }) => {
  const { name, quota } = await openBucket(ctx, params.get('name') ?? '');
  if (quota === undefined) throw fail('NoSuchBucketQuota', { elements: { BucketName: name } });
  return jsonReply(quota);
};

export const PutBucketQuota: AdminHandler<'PutBucketQuota'> = async (
  ctx,
  { params, body, record, match },
) => {
  assertAnyLimit(body, bucketLimits);
  await changeBucketQuota(ctx, {
    bucket: params.get('name') ?? '',
    quota: (present) => changeLimits(bucketLimits, present, body),
    record,
    check: match,
  });
  return emptyReply(204);
};

export const DeleteBucketQuota: AdminHandler<'DeleteBucketQuota'> = async (
  ctx,
  { params, record, match },
) => {
  await changeBucketQuota(ctx, {
    bucket: params.get('name') ?? '',
    quota: () => undefined,
    record,
    check: match,
  });
  return emptyReply(204);
};

export const GetUserQuota: AdminHandler<'GetUserQuota'> = async (ctx, call) => {
  const { key } = await findHolder(ctx, call);
  const found = await findAccountQuota(ctx.metadata, key);
  if (found === undefined) throw fail('NoSuchUserQuota');
  return jsonReply(accountQuotaJson(found.row));
};

const accountQuotaJson = ({ maxBuckets, totalMaxBytes, isDefault = false }: AccountQuota) => ({
  maxBuckets,
  totalMaxBytes,
  ...(isDefault ? { isDefault } : {}),
});

export const PutUserQuota: AdminHandler<'PutUserQuota'> = async (ctx, call) => {
  const { body, record, match } = call;
  assertAnyLimit(body, accountLimits);
  await putAccountQuota(ctx, await findHolder(ctx, call), {
    quota: (present) => changeLimits(accountLimits, present, body),
    record,
    check: (present) => match(present && accountQuotaJson(present)),
  });
  return emptyReply(204);
};

export const DeleteUserQuota: AdminHandler<'DeleteUserQuota'> = async (ctx, call) => {
  const { record, match } = call;
  await deleteAccountQuota(ctx, await findHolder(ctx, call), {
    record,
    check: (present) => match(present && accountQuotaJson(present)),
  });
  return emptyReply(204);
};

type Call = Pick<AdminRequest<'GetUserQuota'>, 'params' | 'query' | 'identity' | 'record' | 'permit'>;

/**
 * The account or the IAM user that the path names: an account first, then a user of the caller's account, then a user of the only account
 * that has one of this name.
 * @throws NoSuchEntity; InvalidArgument where several accounts have such a user
 */
async function findHolder(ctx: Context, call: Call): Promise<QuotaHolder> {
  const { params, query, identity, record, permit } = call;
  const name = params.get('user') ?? '';
  const asked = query.account;
  if (asked === undefined && (await ctx.credentials.account({ owner: name })) !== undefined) {
    record?.about(rootArn(name));
    return accountHolder(name);
  }
  const accounts = asked === undefined ? await accountsWith(ctx, name, identity?.owner) : [asked];
  const [account = ''] = accounts;
  if (accounts.length > 1)
    throw fail('InvalidArgument', {
      message: `Several accounts have a user ${name}: name one of them as ?account=, such as ${account}.`,
      field: 'account',
    });
  const user = account === '' ? undefined : await findNamed(ctx, account, { kind: 'user', name });
  if (user === undefined) throw fail('NoSuchEntity', `There is no account or IAM user ${name}.`);
  record?.about(userArn(account, user));
  // Policies about the account of a user that was found by its name alone hold too.
  if (asked === undefined) await permit({ account });
  return userHolder(account, user.id);
}

/** An installation with more accounts finds users of the others by `?account=` only. */
const searchedMax = 1_000;

/** The caller's account where it has a user of the name, else all accounts that have one. */
async function accountsWith(ctx: Context, name: string, own = ''): Promise<readonly string[]> {
  const has = async (account: string) =>
    (await findNamed(ctx, account, { kind: 'user', name })) !== undefined;
  if (own !== '' && (await has(own))) return [own];
  const found: string[] = [];
  const accounts = await ctx.credentials.accounts({ after: undefined, limit: searchedMax });
  for (const { owner } of accounts) if (await has(owner)) found.push(owner);
  return found;
}

// The quotas that new buckets, accounts and IAM users begin with.

type Kind = keyof DefaultLimits;
type DefaultsCall = Pick<AdminRequest, 'record' | 'match'>;
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
async function change<K extends Kind>(ctx: Context, kind: K, call: DefaultsCall, asked: Change | undefined) {
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

// Rate limits of accounts, buckets and anonymous sources.

const announceMs = 5_000;

interface Limited {
  readonly scope: string;
  /** The bucket's name, else ''. */
  readonly name: string;
  /** The resource of the audit row. */
  readonly about: string;
}
type LimitCall = Pick<AdminRequest, 'params' | 'record' | 'match'>;
type Find = (ctx: Context, params: LimitCall['params']) => Promise<Limited>;

const accountLimited: Find = async (ctx, params) => {
  const { owner } = await findAccount(ctx, params);
  return { scope: formatScope({ kind: 'account', id: owner }), name: '', about: rootArn(owner) };
};
const bucketLimited: Find = async (ctx, params) => {
  const { id, name } = await openBucket(ctx, params.get('name') ?? '');
  return { scope: formatScope({ kind: 'bucket', id }), name, about: `bucket:${name}` };
};
const anonymousLimited: Find = async () => ({ scope: 'anonymous', name: '', about: 'limits:anonymous' });

const getLimit =
  (find: Find) =>
  async (ctx: Context, { params }: LimitCall) => {
    const { scope } = await find(ctx, params);
    const found = await findRateLimit(ctx.metadata, scope);
    if (found === undefined) throw fail('NoSuchConfiguration', 'There is no rate limit.');
    return jsonReply(found.row.limit);
  };

/** What limits something: `burstSeconds` alone does not. */
const rates = ['requestsPerSecond', 'bytesPerSecond', 'concurrentRequests'] as const;

type LimitBody = { readonly [F in keyof RateLimit]: RateLimit[F] | undefined };

async function replace(ctx: Context, find: Find, call: LimitCall, body: LimitBody | undefined) {
  if (body !== undefined) assertAnyLimit(body, rates);
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

const remove = (find: Find) => (ctx: Context, call: LimitCall) => replace(ctx, find, call, undefined);

export const GetAccountLimit: AdminHandler<'GetAccountLimit'> = getLimit(accountLimited);
export const PutAccountLimit: AdminHandler<'PutAccountLimit'> = (ctx, call) =>
  replace(ctx, accountLimited, call, call.body);
export const DeleteAccountLimit: AdminHandler<'DeleteAccountLimit'> = remove(accountLimited);

export const GetBucketLimit: AdminHandler<'GetBucketLimit'> = getLimit(bucketLimited);
export const PutBucketLimit: AdminHandler<'PutBucketLimit'> = (ctx, call) =>
  replace(ctx, bucketLimited, call, call.body);
export const DeleteBucketLimit: AdminHandler<'DeleteBucketLimit'> = remove(bucketLimited);

export const GetAnonymousLimit: AdminHandler<'GetAnonymousLimit'> = getLimit(anonymousLimited);
export const PutAnonymousLimit: AdminHandler<'PutAnonymousLimit'> = (ctx, call) =>
  replace(ctx, anonymousLimited, call, call.body);
export const DeleteAnonymousLimit: AdminHandler<'DeleteAnonymousLimit'> = remove(anonymousLimited);

export const ListLimits: AdminHandler<'ListLimits'> = async ({ metadata }) => {
  const rows = (await readRateLimits(metadata)).map(({ scope, name, limit }) => {
    const [kind = '', id = ''] = scope.split(/:(.*)/s);
    const of = { account: { account: id }, bucket: { bucket: name }, anonymous: { isAnonymous: true } }[kind];
    return { ...of, ...limit };
  });
  return jsonReply({ rows });
};
