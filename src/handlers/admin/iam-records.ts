/** The records of an export: what IAM has of an account, policy, group, role or user, by names and not by ids. */

import type { Context } from '../../context.ts';
import { listAccessKeys } from '../../domain/iam/access-keys.ts';
import { listRootKeys } from '../../domain/iam/account-profiles.ts';
import { findNamed } from '../../domain/iam/entities.ts';
import { pageGroups } from '../../domain/iam/groups.ts';
import { getInlinePolicy, type HolderKind } from '../../domain/iam/inline-policies.ts';
import { findVersion } from '../../domain/iam/managed-policies.ts';
import { readTrust } from '../../domain/iam/roles.ts';
import { accountHolder, userHolder } from '../../domain/quotas/scopes.ts';
import { findAccountQuota } from '../../metadata/buckets/quotas.ts';
import type { GroupRecord, IamRecords, PolicyRecord, RoleRecord, UserRecord } from '../../metadata/iam.ts';
import type { AdminBody } from '../../protocol/admin/operations.ts';
import { boundaryJson, policiesJson } from './iam-entities.ts';

export type IamRecord = AdminBody<'ImportIam'>['records'][number];

type Kind = IamRecord['kind'];

/** The kinds in the order in which an import needs them: users name groups, and all name policies. */
export const kindsInOrder = [
  'account',
  'policies',
  'groups',
  'roles',
  'users',
] as const satisfies readonly Kind[];

export const entityKinds = { policies: 'policy', groups: 'group', roles: 'role', users: 'user' } as const;

/** The fields that records of a kind have, beside `kind` and `name`. */
export const fieldsOfKind: Readonly<Record<Kind, readonly (keyof IamRecord)[]>> = {
  account: ['displayName', 'email', 'status', 'keys', 'quota'],
  policies: ['path', 'description', 'document', 'tags'],
  groups: ['path', 'policies', 'inlinePolicies'],
  roles: ['path', 'description', 'trust', 'sessionSeconds', 'tags', 'policies', 'inlinePolicies', 'boundary'],
  users: ['path', 'status', 'tags', 'groups', 'policies', 'inlinePolicies', 'boundary', 'keys', 'quota'],
};

/** @returns undefined where the account has nothing of the name */
export async function readRecord(
  ctx: Context,
  account: string,
  { kind, name }: Pick<IamRecord, 'kind' | 'name'>,
): Promise<IamRecord | undefined> {
  if (kind === 'account') return name === account ? accountRecord(ctx, account) : undefined;
  const entity = entityKinds[kind];
  const found = await findNamed(ctx, account, { kind: entity, name });
  return found && entityRecord(ctx, account, { kind, found });
}

async function accountRecord(ctx: Context, owner: string): Promise<IamRecord | undefined> {
  const account = await ctx.credentials.account({ owner });
  if (account === undefined) return undefined;
  const { displayName, email, status = 'Active' } = account;
  const keys = (await listRootKeys(ctx, owner)).map(keyRecord);
  return {
    kind: 'account',
    name: owner,
    displayName,
    ...(email === undefined ? {} : { email }),
    status,
    keys,
    ...(await quotaRecord(ctx, accountHolder(owner).key)),
  };
}

export function entityRecord<K extends keyof typeof entityKinds>(
  ctx: Context,
  account: string,
  { kind, found }: { readonly kind: K; readonly found: IamRecords[(typeof entityKinds)[K]] },
): Promise<IamRecord> {
  // The casts: the record is of the kind.
  if (kind === 'policies') return policyRecord(ctx, account, found as PolicyRecord);
  if (kind === 'groups') return groupRecord(ctx, account, found as GroupRecord);
  if (kind === 'roles') return roleRecord(ctx, account, found as RoleRecord);
  return userRecord(ctx, account, found as UserRecord);
}

async function policyRecord(ctx: Context, account: string, found: PolicyRecord): Promise<IamRecord> {
  const { name, path, description, tags, id, defaultVersion } = found;
  const version = await findVersion(ctx, account, { id, version: defaultVersion });
  return { kind: 'policies', name, path, description, document: version?.text ?? '', tags: new Map(tags) };
}

async function groupRecord(ctx: Context, account: string, { name, path }: GroupRecord): Promise<IamRecord> {
  return { kind: 'groups', name, path, ...(await policyFields(ctx, account, { kind: 'group', name })) };
}

async function roleRecord(ctx: Context, account: string, found: RoleRecord): Promise<IamRecord> {
  const { name, path, description, sessionSecondsMax, tags } = found;
  return {
    kind: 'roles',
    name,
    path,
    description,
    trust: await readTrust(ctx, account, found),
    sessionSeconds: sessionSecondsMax,
    tags: new Map(tags),
    ...(await policyFields(ctx, account, { kind: 'role', name })),
    ...(await boundaryJson(ctx, account, found.boundary)),
  };
}

async function userRecord(ctx: Context, account: string, found: UserRecord): Promise<IamRecord> {
  const { name, path, tags, id, isDisabled = false } = found;
  return {
    kind: 'users',
    name,
    path,
    status: isDisabled ? 'Disabled' : 'Active',
    tags: new Map(tags),
    groups: (await pageGroups(ctx, account, name)).map((group) => group.name),
    ...(await policyFields(ctx, account, { kind: 'user', name })),
    ...(await boundaryJson(ctx, account, found.boundary)),
    keys: (await listAccessKeys(ctx, account, name)).map(keyRecord),
    ...(await quotaRecord(ctx, userHolder(account, id).key)),
  };
}

const keyRecord = ({ accessKey, status }: { accessKey: string; status: 'Active' | 'Inactive' }) => ({
  accessKey,
  status,
});

async function quotaRecord({ metadata }: Context, key: string): Promise<Pick<IamRecord, 'quota'>> {
  const row = (await findAccountQuota(metadata, key))?.row;
  return row === undefined ? {} : { quota: { maxBuckets: row.maxBuckets, totalMaxBytes: row.totalMaxBytes } };
}

async function policyFields(
  ctx: Context,
  account: string,
  holder: { readonly kind: HolderKind; readonly name: string },
): Promise<Pick<IamRecord, 'policies' | 'inlinePolicies'>> {
  const { policies, inlinePolicies } = await policiesJson(ctx, account, holder);
  const documents = new Map<string, string>();
  for (const policy of inlinePolicies)
    documents.set(policy, await getInlinePolicy(ctx, account, { holder, policy }));
  return { policies, inlinePolicies: documents };
}
