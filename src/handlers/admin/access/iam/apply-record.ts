/** Makes what a record names, or changes the fields of it that differ. Each step can be repeated. */
import type { Context } from '../../../../context.ts';
import { putAccountQuota } from '../../../../domain/buckets/quotas/account-quota.ts';
import { accountHolder, type QuotaHolder, userHolder } from '../../../../domain/buckets/quotas/scopes.ts';
import { findKey, importAccessKey, updateAccessKey } from '../../../../domain/iam/access-keys.ts';
import {
  createKeylessAccount,
  importRootKey,
  updateAccount,
  updateRootKey,
} from '../../../../domain/iam/account-profiles.ts';
import { getNamed } from '../../../../domain/iam/entities.ts';
import {
  addUserToGroup,
  createGroup,
  pageGroups,
  removeUserFromGroup,
  updateGroup,
} from '../../../../domain/iam/groups.ts';
import { attachPolicy, changeBoundary, detachPolicy } from '../../../../domain/iam/policies/attachments.ts';
import {
  deleteInlinePolicy,
  type HolderKind,
  putInlinePolicy,
} from '../../../../domain/iam/policies/inline-policies.ts';
import {
  changePolicyTags,
  createPolicy,
  createVersion,
} from '../../../../domain/iam/policies/managed-policies.ts';
import { createRole, updateRole } from '../../../../domain/iam/roles.ts';
import { createUser, updateUser } from '../../../../domain/iam/users.ts';
import { fail } from '../../../../errors/refusal.ts';
import { policiesJson, readPolicy, toTags } from './entities.ts';
import { entityKinds, type IamRecord } from './iam-records.ts';

interface Apply {
  readonly record: IamRecord;
  readonly isNew: boolean;
  /** The fields of an existing one that differ. */
  readonly changes: readonly string[];
}

/** @throws what the operations on accounts, users, groups, roles and policies throw */
export async function applyRecord(ctx: Context, account: string, apply: Apply): Promise<void> {
  const { kind } = apply.record;
  if (kind === 'account') return applyAccount(ctx, account, apply);
  if (kind === 'policies') return applyPolicy(ctx, account, apply);
  if (kind === 'groups') return applyGroup(ctx, account, apply);
  if (kind === 'roles') return applyRole(ctx, account, apply);
  return applyUser(ctx, account, apply);
}

async function applyAccount(ctx: Context, account: string, { record, isNew, changes }: Apply): Promise<void> {
  const { displayName, email, status, keys = [], quota } = record;
  const isConfigured = (await ctx.credentials.account({ owner: account }))?.isConfigured === true;
  if (isConfigured && (changes.includes('displayName') || changes.includes('email')))
    throw fail('InvalidArgument', `SVC_CREDENTIALS sets the name and the e-mail address of ${account}.`);
  if (isNew) await createKeylessAccount(ctx, account, { displayName, email });
  await applyKeys(ctx, account, {
    keys,
    add: (pair) => importRootKey(ctx, account, pair),
    setStatus: (key) => updateRootKey(ctx, account, key),
  });
  const isChanged = (field: string): boolean => isNew || changes.includes(field);
  if (quota !== undefined && isChanged('quota')) await applyQuota(ctx, accountHolder(account), quota);
  const accountStatus = status === 'Disabled' ? undefined : status;
  const change = {
    ...(changes.includes('displayName') ? { displayName } : {}),
    ...(changes.includes('email') ? { email } : {}),
    ...(accountStatus !== undefined && isChanged('status') ? { status: accountStatus } : {}),
  };
  if (
    accountStatus === 'Suspended' &&
    (await ctx.credentials.account({ owner: account }))?.isOperators === true
  )
    throw fail('DeleteConflict', `${account} is an account of operators, which is not suspended.`);
  if (Object.keys(change).length > 0) await updateAccount(ctx, account, change);
}

const applyQuota = (
  ctx: Context,
  holder: QuotaHolder,
  quota: NonNullable<IamRecord['quota']>,
): Promise<void> => putAccountQuota(ctx, holder, { quota: () => quota });

async function applyPolicy(ctx: Context, account: string, { record, isNew, changes }: Apply): Promise<void> {
  const { name, path = '/', description = '', document, tags } = record;
  if (isNew) {
    if (document === undefined) throw fail('InvalidArgument', `The policy ${name} has no document.`);
    await createPolicy(ctx, account, { name, path, description, text: document, tags: toTags(tags) });
    return;
  }
  assertUnchangeable(record, changes, ['path', 'description']);
  const policy = { account, name, path: (await getNamed(ctx, account, { kind: 'policy', name })).path };
  if (document !== undefined && changes.includes('document'))
    await createVersion(ctx, account, { policy, text: document, isDefault: true, makeRoom: true });
  if (tags !== undefined && changes.includes('tags'))
    await changePolicyTags(ctx, account, { policy, to: () => toTags(tags) });
}

/** The path of a policy is part of its ARN, which others name. */
function assertUnchangeable(record: IamRecord, changes: readonly string[], fields: readonly string[]): void {
  const field = fields.find((each) => changes.includes(each));
  if (field !== undefined)
    throw fail('InvalidArgument', `The ${field} of ${record.kind} ${record.name} cannot be changed.`);
}

async function applyGroup(ctx: Context, account: string, { record, isNew, changes }: Apply): Promise<void> {
  const { name, path = '/' } = record;
  if (isNew) await createGroup(ctx, account, { name, path });
  else if (changes.includes('path'))
    await updateGroup(ctx, account, { group: name, to: { name: undefined, path } });
  await applyPolicies(ctx, account, record);
}

async function applyRole(ctx: Context, account: string, { record, isNew, changes }: Apply): Promise<void> {
  const { name, path = '/', description = '', trust, sessionSeconds, tags } = record;
  if (isNew) {
    if (trust === undefined) throw fail('InvalidArgument', `The role ${name} has no trust policy.`);
    const sessionSecondsMax = sessionSeconds ?? 3_600;
    const role = { name, path, description, trust, sessionSecondsMax, tags: toTags(tags) };
    await createRole(ctx, account, { ...role, boundary: undefined });
  } else {
    assertUnchangeable(record, changes, ['path']);
    const to = {
      trust,
      description: record.description,
      sessionSecondsMax: sessionSeconds,
      ...(tags === undefined ? {} : { tags: () => toTags(tags) }),
    };
    await updateRole(ctx, account, { role: name, to });
  }
  await applyBoundary(ctx, account, record);
  await applyPolicies(ctx, account, record);
}

async function applyUser(ctx: Context, account: string, { record, isNew, changes }: Apply): Promise<void> {
  const { name, path, tags, status, groups, keys = [], quota } = record;
  if (isNew)
    await createUser(ctx, account, { name, path: path ?? '/', tags: toTags(tags), boundary: undefined });
  // Before its keys, so that those of a disabled user never sign.
  const isDisabled = status === undefined ? undefined : status === 'Disabled';
  const to = { path, isDisabled, ...(tags === undefined ? {} : { tags: () => toTags(tags) }) };
  await updateUser(ctx, account, { user: name, to });
  await applyBoundary(ctx, account, record);
  await applyPolicies(ctx, account, record);
  if (groups !== undefined) {
    const present = (await pageGroups(ctx, account, name)).map((group) => group.name);
    for (const group of present)
      if (!groups.includes(group)) await removeUserFromGroup(ctx, account, { group, user: name });
    for (const group of groups) await addUserToGroup(ctx, account, { group, user: name });
  }
  const { id } = await getNamed(ctx, account, { kind: 'user', name });
  if (quota !== undefined && (isNew || changes.includes('quota')))
    await applyQuota(ctx, userHolder(account, id), quota);
  await applyKeys(ctx, account, {
    keys,
    add: (pair) => importAccessKey(ctx, account, { user: name, pair }),
    setStatus: (key) => updateAccessKey(ctx, account, { user: name, ...key }),
  });
}

type RecordedKey = NonNullable<IamRecord['keys']>[number];

/** Adds the keys that are missing, where the record has their secrets, and gives all keys their status. */
async function applyKeys(
  ctx: Context,
  account: string,
  {
    keys,
    add,
    setStatus,
  }: {
    readonly keys: readonly RecordedKey[];
    add(pair: { readonly accessKey: string; readonly secretKey: string }): Promise<unknown>;
    setStatus(key: Pick<RecordedKey, 'accessKey' | 'status'>): Promise<void>;
  },
): Promise<void> {
  for (const { accessKey, secretKey, status } of keys) {
    if ((await findKey(ctx, account, accessKey)) === undefined) {
      if (secretKey === undefined) continue;
      await add({ accessKey, secretKey });
    }
    if ((await findKey(ctx, account, accessKey))?.status !== status) await setStatus({ accessKey, status });
  }
}

async function applyBoundary(ctx: Context, account: string, record: IamRecord): Promise<void> {
  const { kind, name, boundary } = record;
  if (boundary === undefined || (kind !== 'users' && kind !== 'roles')) return;
  const holder = { kind: entityKinds[kind], name };
  await changeBoundary(ctx, account, { holder, policy: readPolicy(account, boundary) });
}

/** Attaches and detaches policies, so that exactly those of the record are attached; the same for inline policies. */
async function applyPolicies(ctx: Context, account: string, record: IamRecord): Promise<void> {
  const { kind, name, policies, inlinePolicies } = record;
  if (kind === 'account' || kind === 'policies') return;
  const holder: { readonly kind: HolderKind; readonly name: string } = { kind: entityKinds[kind], name };
  const present = await policiesJson(ctx, account, holder);
  if (policies !== undefined) {
    for (const arn of policies)
      if (!present.policies.includes(arn))
        await attachPolicy(ctx, account, { holder, policy: readPolicy(account, arn) });
    for (const arn of present.policies)
      if (!policies.includes(arn))
        await detachPolicy(ctx, account, { holder, policy: readPolicy(account, arn) });
  }
  if (inlinePolicies === undefined) return;
  for (const policy of present.inlinePolicies)
    if (!inlinePolicies.has(policy)) await deleteInlinePolicy(ctx, account, { holder, policy });
  for (const [policy, text] of inlinePolicies) await putInlinePolicy(ctx, account, { holder, policy, text });
}
