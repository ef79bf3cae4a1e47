/** The accounts of the settings. */
import type { Context } from '../../../context.ts';
import { sumOwned } from '../../../domain/buckets/usage/read-usage.ts';
import { readCounts } from '../../../domain/iam/account.ts';
import { fail } from '../../../errors/refusal.ts';
import { findAccountQuota } from '../../../metadata/buckets/quotas.ts';
import { accountUsage, readUsage } from '../../../metadata/buckets/usage.ts';
import type { Account } from '../../../ports/crypto/credentials.ts';
import { pageDefault } from '../../../protocol/operations/admin/row.ts';
import { type AdminHandler, jsonReply } from '../call.ts';

const accountJson = ({ owner, displayName, isOperators = false }: Account) => ({
  account: owner,
  displayName,
  isOperators,
});

export const ListAccounts: AdminHandler<'ListAccounts'> = async ({ credentials }, { query }) => {
  const { limit = pageDefault, after } = query;
  const all = (await credentials.accounts?.()) ?? [];
  const left = all.filter(({ owner }) => after === undefined || owner > after);
  const shown = left.slice(0, limit);
  const last = left.length > limit ? shown.at(-1) : undefined;
  return jsonReply({
    rows: shown.map(accountJson),
    ...(last === undefined ? {} : { next: last.owner }),
  });
};

/** @throws NoSuchEntity for an account that has no key in the settings */
export async function findAccount(
  { credentials }: Pick<Context, 'credentials'>,
  params: ReadonlyMap<string, string>,
): Promise<Account> {
  const owner = params.get('account') ?? '';
  const found = await credentials.account({ owner });
  if (found === undefined) throw fail('NoSuchEntity', `There is no account ${owner}.`);
  return found;
}

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
