/** The accounts of the settings, those that operators create, and the keys of their roots. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { AccessKey } from '../../domain/iam/access-keys.ts';
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
import { sumOwned } from '../../domain/usage/read-usage.ts';
import { findAccountQuota } from '../../metadata/buckets/quotas.ts';
import { accountUsage, readUsage } from '../../metadata/buckets/usage.ts';
import type { Account } from '../../ports/credentials.ts';
import { pageDefault } from '../../protocol/operations/admin/row.ts';
import { rootArn } from '../../protocol/request/arns.ts';
import { emptyReply } from '../common/xml-reply.ts';
import { type AdminHandler, findAccount, jsonReply, nameIn } from './call.ts';

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

export const GetAccount: AdminHandler<'GetAccount'> = async (ctx, { params, signal }) => {
  const account = await findAccount(ctx, params);
  const { users, groups, roles, policies } = await readCounts(ctx, account.owner);
  const quota = (await findAccountQuota(ctx.metadata, account.owner))?.row;
  const held =
    quota === undefined
      ? await sumOwned(ctx, account.owner, signal)
      : await readAccountCounters(ctx, quota.epoch);
  return jsonReply({
    ...accountJson(account),
    rootKeys: (await listRootKeys(ctx, account.owner)).map(rootKeyJson),
    users,
    groups,
    roles,
    policies,
    ...held,
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
  const { account, displayName, email, accessKey, secretKey } = body;
  record?.about(rootArn(account));
  if ((accessKey === undefined) !== (secretKey === undefined))
    throw fail('InvalidArgument', 'accessKey and secretKey go together: send both, or none.');
  const pair = accessKey === undefined || secretKey === undefined ? undefined : { accessKey, secretKey };
  const made = await createAccount({ ...ctx, record }, account, { displayName, email, pair });
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

export const CreateRootKey: AdminHandler<'CreateRootKey'> = async (ctx, { params, record }) => {
  const { owner } = await findAccount(ctx, params);
  record?.about(rootArn(owner));
  const made = await createRootKey({ ...ctx, record }, owner);
  return jsonReply({ ...rootKeyJson(made), secretKey: made.secretKey });
};

export const PutRootKey: AdminHandler<'PutRootKey'> = async (ctx, call) => {
  const { owner } = await findAccount(ctx, call.params);
  call.record?.about(rootArn(owner));
  const change = { accessKey: nameIn(call, 'key'), status: call.body.status };
  await updateRootKey({ ...ctx, record: call.record }, owner, change);
  return emptyReply(204);
};

export const DeleteRootKey: AdminHandler<'DeleteRootKey'> = async (ctx, call) => {
  const { owner } = await findAccount(ctx, call.params);
  call.record?.about(rootArn(owner));
  await deleteRootKey({ ...ctx, record: call.record }, owner, nameIn(call, 'key'));
  return emptyReply(204);
};
