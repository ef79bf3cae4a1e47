/** The accounts of the settings, those that operators create, the keys of their roots, and access keys that callers have themselves. */

import { assertOwnAllowed, ownPrincipal } from '../../auth/administer.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import {
  type AccessKey,
  createAccessKey,
  deleteAccessKey,
  importAccessKey,
  listAccessKeys,
  updateAccessKey,
} from '../../domain/iam/access-keys.ts';
import { readCounts } from '../../domain/iam/account.ts';
import {
  createAccount,
  createRootKey,
  deleteAccount,
  deleteRootKey,
  findProfile,
  listRootKeys,
  updateAccount,
  updateRootKey,
} from '../../domain/iam/account-profiles.ts';
import { sumOwned } from '../../domain/usage/samples.ts';
import { findAccountQuota } from '../../metadata/buckets/quotas.ts';
import { accountUsage, readUsage } from '../../metadata/buckets/usage.ts';
import { findAccessKeyUse } from '../../metadata/iam.ts';
import type { Account } from '../../ports/credentials.ts';
import { pageDefault } from '../../protocol/admin/row.ts';
import { rootArn, userArn } from '../../protocol/arns.ts';
import { emptyReply } from '../handler.ts';
import {
  type AdminHandler,
  type AdminRequest,
  assertMayChangeRootKeys,
  findAccount,
  jsonReply,
  nameIn,
  openCallTurns,
} from './call.ts';
import { assertExactNames } from './iam-entities.ts';

const accountJson = ({ owner, displayName, email, status = 'Active', ...flags }: Account) => ({
  account: owner,
  displayName,
  ...(email === undefined ? {} : { email }),
  status,
  isConfigured: flags.isConfigured === true,
  isOperators: flags.isOperators === true,
});

const rootKeyJson = ({ accessKey, status, created }: AccessKey) => ({
  accessKey,
  status,
  created: new Date(created).toISOString(),
});

export const ListAccounts: AdminHandler<'ListAccounts'> = async ({ credentials }, { query }) => {
  const { limit = pageDefault, after } = query;
  const found = await credentials.accounts({ after, limit: limit + 1 });
  const page = found.slice(0, limit);
  const last = found.length > limit ? page.at(-1) : undefined;
  return jsonReply({
    rows: page.map(accountJson),
    ...(last === undefined ? {} : { next: last.owner }),
  });
};

export const GetAccount: AdminHandler<'GetAccount'> = async (ctx, call) => {
  const account = await findAccount(ctx, call.params);
  const { users, groups, roles, policies } = await readCounts(ctx, account.owner);
  const quota = (await findAccountQuota(ctx.metadata, account.owner))?.row;
  const stored =
    quota === undefined
      ? await sumOwned(ctx, account.owner, openCallTurns(ctx, call, { isParallel: true }))
      : await readAccountCounters(ctx, quota.epoch);
  return jsonReply({
    ...accountJson(account),
    rootKeys: (await listRootKeys(ctx, account.owner)).map(rootKeyJson),
    users,
    groups,
    roles,
    policies,
    ...stored,
    ...(quota === undefined
      ? {}
      : { quota: { maxBuckets: quota.maxBuckets, totalMaxBytes: quota.totalMaxBytes } }),
  });
};

/** An account with a quota has counters of its own, so its buckets need not be read. */
async function readAccountCounters({ metadata }: Pick<Context, 'metadata'>, epoch: string) {
  const counters = await readUsage(metadata, accountUsage(epoch));
  return counters.get('') ?? { bytes: 0, objects: 0 };
}

export const CreateAccount: AdminHandler<'CreateAccount'> = async (ctx, { body, record }) => {
  const { account, displayName, email, accessKey, secretKey, adopt } = body;
  record?.about(rootArn(account));
  if ((accessKey === undefined) !== (secretKey === undefined))
    throw fail('InvalidArgument', 'accessKey and secretKey go together: send both, or none.');
  const pair = accessKey === undefined || secretKey === undefined ? undefined : { accessKey, secretKey };
  const made = await createAccount({ ...ctx, record }, account, { displayName, email, pair, adopt });
  return jsonReply({ ...accountJson(await findAccount(ctx, new Map([['account', account]]))), ...made });
};

export const PutAccount: AdminHandler<'PutAccount'> = async (ctx, { body, params, record }) => {
  const { owner, isConfigured, isOperators } = await findAccount(ctx, params);
  record?.about(rootArn(owner));
  if (isConfigured && (body.displayName ?? body.email) !== undefined)
    throw fail(
      'InvalidArgument',
      `SVC_CREDENTIALS sets the name and the e-mail address of ${owner}: change them there.`,
    );
  if (isOperators && body.status === 'Suspended')
    throw fail(
      'DeleteConflict',
      `${owner} is an account of operators, and its keys could not make it active again. Remove its keys from SVC_CREDENTIALS instead.`,
    );
  await updateAccount({ ...ctx, record }, owner, body);
  return jsonReply(accountJson(await findAccount(ctx, params)));
};

export const DeleteAccount: AdminHandler<'DeleteAccount'> = async (ctx, { params, record }) => {
  const account = params.get('account') ?? '';
  record?.about(rootArn(account));
  const isDeleted = (await findProfile(ctx.metadata, account))?.status === 'Deleted';
  // A repeated deletion removes what a failed one left.
  const known = isDeleted ? undefined : await findAccount(ctx, params);
  if (known?.isConfigured === true)
    throw fail('DeleteConflict', `SVC_CREDENTIALS has keys of ${account}. Remove them there first.`);
  await deleteAccount({ ...ctx, record }, account);
  return emptyReply(204);
};

/** The account of the path. @throws AccessDenied where the caller may not change the keys of its root */
async function findRoot(ctx: Context, { params, identity, record }: AdminRequest): Promise<string> {
  const account = await findAccount(ctx, params);
  record?.about(rootArn(account.owner));
  assertMayChangeRootKeys(account, identity);
  return account.owner;
}

export const CreateRootKey: AdminHandler<'CreateRootKey'> = async (ctx, call) => {
  const made = await createRootKey({ ...ctx, record: call.record }, await findRoot(ctx, call));
  return jsonReply({ ...rootKeyJson(made), secretKey: made.secretKey });
};

export const PutRootKey: AdminHandler<'PutRootKey'> = async (ctx, call) => {
  const owner = await findRoot(ctx, call);
  const change = { accessKey: nameIn(call, 'key'), status: call.body.status };
  await updateRootKey({ ...ctx, record: call.record }, owner, change);
  return emptyReply(204);
};

export const DeleteRootKey: AdminHandler<'DeleteRootKey'> = async (ctx, call) => {
  await deleteRootKey({ ...ctx, record: call.record }, await findRoot(ctx, call), nameIn(call, 'key'));
  return emptyReply(204);
};

// The caller's own access keys: what IAM allows about them, for a page that has no secret to sign requests of IAM with.

/** The keys of a user, or of the root of an account. @throws AccessDenied where IAM does not allow the action about the caller itself */
async function openOwnKeys(
  outer: Context,
  call: Pick<AdminRequest, 'caller' | 'identity' | 'record'>,
  action: string,
) {
  const { caller, identity, record } = call;
  const principal = ownPrincipal(call, 'access keys');
  const owner = identity?.owner ?? '';
  record?.about(principal.arn);
  await assertOwnAllowed(outer, caller, { action, resource: principal.arn });
  const ctx = { ...outer, record };
  const user = principal.username;
  if (principal.kind === 'root' || user === undefined)
    return {
      create: () => createRootKey(ctx, owner),
      list: () => listRootKeys(ctx, owner),
      update: (accessKey: string, status: AccessKey['status']) =>
        updateRootKey(ctx, owner, { accessKey, status }),
      remove: (accessKey: string) => deleteRootKey(ctx, owner, accessKey),
    };
  return {
    create: () => createAccessKey(ctx, owner, user),
    list: () => listAccessKeys(ctx, owner, user),
    update: (accessKey: string, status: AccessKey['status']) =>
      updateAccessKey(ctx, owner, { user, accessKey, status }),
    remove: (accessKey: string) => deleteAccessKey(ctx, owner, { user, accessKey }),
  };
}

const iso = (ms: number): string => new Date(ms).toISOString();

export const ListOwnAccessKeys: AdminHandler<'ListOwnAccessKeys'> = async (ctx, call) => {
  const keys = await (await openOwnKeys(ctx, call, 'iam:ListAccessKeys')).list();
  return jsonReply({
    accessKeys: await Promise.all(
      keys.map(async ({ accessKey, status, created }) => {
        const use = await findAccessKeyUse(ctx.metadata, accessKey);
        const lastUsed = use === undefined ? {} : { lastUsed: iso(use.at) };
        return { accessKey, status, created: iso(created), ...lastUsed };
      }),
    ),
  });
};

export const CreateOwnAccessKey: AdminHandler<'CreateOwnAccessKey'> = async (ctx, call) => {
  const { accessKey, secretKey, status, created } = await (
    await openOwnKeys(ctx, call, 'iam:CreateAccessKey')
  ).create();
  return jsonReply({ accessKey, secretKey, status, created: iso(created) });
};

export const PutOwnAccessKey: AdminHandler<'PutOwnAccessKey'> = async (ctx, call) => {
  await (await openOwnKeys(ctx, call, 'iam:UpdateAccessKey')).update(nameIn(call, 'key'), call.body.status);
  return emptyReply(204);
};

export const DeleteOwnAccessKey: AdminHandler<'DeleteOwnAccessKey'> = async (ctx, call) => {
  await (await openOwnKeys(ctx, call, 'iam:DeleteAccessKey')).remove(nameIn(call, 'key'));
  return emptyReply(204);
};

// ImportAccessKey: a user gets a key pair that exists already, for clients that move here.

export const ImportAccessKey: AdminHandler<'ImportAccessKey'> = async (
  ctx,
  { body, identity, params, record },
) => {
  const { account = identity?.owner ?? '', ...outer } = body;
  const user = params.get('user') ?? '';
  if (!/^[\w+=,.@-]{1,64}$/.test(user)) throw fail('NoSuchEntity', 'There is no such user.');
  record?.about(userArn(account, { name: user }));
  await assertExactNames(ctx, account, params);
  const imported = await importAccessKey({ ...ctx, record }, account, { user, pair: outer });
  const { accessKey, status, created } = imported;
  return jsonReply({ account, user, accessKey, status, createdAt: Math.floor(created / 1000) });
};
