/** Managed policies and their versions. Built-in policies are read like an account's own. */
import { fail, type Refusal } from '../../base/errors.ts';
import { findIam, type IamTag, type PolicyRecord, toRecord } from '../../metadata/iam.ts';
import { type AccountCtx, type AccountDraft, changeAccount } from './account.ts';
import {
  addEntity,
  assertFree,
  drawPolicyId,
  findById,
  findNamed,
  foldName,
  mergeTags,
  namedIn,
  putEntity,
  removeEntity,
} from './entities.ts';

type Reading = Pick<AccountCtx, 'metadata'>;
const kind = 'policy';
const sizeMax = 6_144;
const versionsMax = 5;

/** The parts of a policy's ARN. */
export interface PolicyName {
  /** The account that owns the policy, or `aws` for a built-in one. */
  readonly account: string;
  readonly path: string;
  readonly name: string;
}

export const noSuchPolicy = ({ name }: Pick<PolicyName, 'name'>): Refusal =>
  fail('NoSuchEntity', `Policy ${name} does not exist or is not attachable.`);

const assertOwn = (account: string, named: PolicyName): void => {
  if (named.account === builtInAccount)
    throw fail('AccessDenied', `The policy ${named.name} is the service's own and cannot be changed.`);
  if (named.account !== account) throw noSuchPolicy(named);
};

/** @throws NoSuchEntity */
export async function getPolicy(ctx: Reading, account: string, named: PolicyName): Promise<PolicyRecord> {
  const own =
    named.account === account ? await findNamed(ctx, account, { kind, name: named.name }) : undefined;
  const found = named.account === builtInAccount ? builtInNamed(named.name) : own;
  if (found?.path !== named.path) throw noSuchPolicy(named);
  return found;
}

/** @throws NoSuchEntity */
export async function policyIn(draft: AccountDraft, named: PolicyName): Promise<PolicyRecord> {
  const isBuiltIn = named.account === builtInAccount;
  if (!isBuiltIn && named.account !== draft.account) throw noSuchPolicy(named);
  const found = isBuiltIn ? builtInNamed(named.name) : await namedIn(draft, { kind, name: named.name });
  if (found?.path !== named.path) throw noSuchPolicy(named);
  return found;
}

export const findPolicyById = async (
  ctx: Reading,
  account: string,
  id: string,
): Promise<PolicyRecord | undefined> => builtInById(id) ?? findById(ctx, account, { kind, id });

/** The account that a policy's ARN names. */
export const accountOfPolicy = (account: string, { id }: Pick<PolicyRecord, 'id'>): string =>
  builtInById(id) === undefined ? account : builtInAccount;

const documentName = (id: string, version: number): string => `${id}/${String(version).padStart(6, '0')}`;

/** A version's document, with a key for caches that no other document has. */
export async function findVersion(
  { metadata }: Reading,
  account: string,
  { id, version }: { readonly id: string; readonly version: number },
): Promise<{ readonly text: string; readonly key: string } | undefined> {
  const builtIn = builtInById(id);
  if (builtIn !== undefined) return version === 1 ? { text: builtIn.text, key: id } : undefined;
  const name = documentName(id, version);
  const stored = await findIam(metadata, account, { kind: 'document', name });
  if (stored === undefined) return undefined;
  return { text: toRecord<'document'>(stored).text ?? '', key: `${id} ${version}` };
}

interface NewPolicy {
  readonly name: string;
  readonly path: string;
  readonly description: string;
  readonly tags: readonly IamTag[];
  readonly text: string;
}

export const createPolicy = (ctx: AccountCtx, account: string, requested: NewPolicy): Promise<PolicyRecord> =>
  changeAccount(ctx, account, async (draft) => {
    const { text, name, path, description, tags } = requested;
    assertSize(text, { what: 'PolicySize', max: sizeMax });
    await assertFree(draft, { kind, name });
    const created = ctx.clock.now();
    const policy: PolicyRecord = {
      id: drawPolicyId(ctx.random),
      name,
      path,
      description,
      created,
      updated: created,
      tags: mergeTags([], tags),
      versions: [{ number: 1, created }],
      defaultVersion: 1,
      latestVersion: 1,
      attachments: 0,
      boundaries: 0,
    };
    await addEntity(draft, kind, policy);
    await draft.put('document', documentName(policy.id, 1), { name }, text);
    draft.note({ after: { document: text } });
    return policy;
  });

/**
 * @param withVersions deletes the other versions too, in the same commit
 * @throws DeleteConflict while it is attached, or has other versions than the default one
 */
export const deletePolicy = (
  ctx: AccountCtx,
  account: string,
  { policy: named, withVersions }: { readonly policy: PolicyName; readonly withVersions: boolean },
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    assertOwn(account, named);
    const policy = await policyIn(draft, named);
    if (policy.attachments + policy.boundaries > 0)
      throw fail('DeleteConflict', 'Cannot delete a policy attached to entities.');
    if (policy.versions.length > 1 && !withVersions)
      throw fail(
        'DeleteConflict',
        'This policy has more than one version. Before you delete a policy, you must delete the policy’s versions. The default version is deleted with the policy.',
      );
    for (const { number } of policy.versions) await draft.remove('document', documentName(policy.id, number));
    await removeEntity(draft, kind, policy);
  });

interface NewVersion {
  readonly text: string;
  readonly isDefault: boolean;
  /** At the limit of versions, removes the oldest one that is not the default, in the same commit. */
  readonly makeSpace?: boolean;
}

export type Version = PolicyRecord['versions'][number];

const findOldest = ({ versions, defaultVersion }: PolicyRecord): Version | undefined =>
  versions.filter(({ number }) => number !== defaultVersion).sort((a, b) => a.number - b.number)[0];

/** @throws LimitExceeded for a sixth version */
export const createVersion = (
  ctx: AccountCtx,
  account: string,
  { policy: named, text, isDefault, makeSpace = false }: NewVersion & { readonly policy: PolicyName },
): Promise<Version> =>
  changeAccount(ctx, account, async (draft) => {
    assertOwn(account, named);
    assertSize(text, { what: 'PolicySize', max: sizeMax });
    const policy = await policyIn(draft, named);
    const isFull = policy.versions.length >= versionsMax;
    const oldest = isFull && makeSpace ? findOldest(policy) : undefined;
    if (isFull && oldest === undefined)
      throw fail(
        'LimitExceeded',
        `A managed policy can have up to ${versionsMax} versions. Before you create a new version, you must delete an existing version.`,
      );
    const version = { number: policy.latestVersion + 1, created: ctx.clock.now() };
    await putEntity(draft, kind, {
      ...policy,
      updated: version.created,
      latestVersion: version.number,
      defaultVersion: isDefault ? version.number : policy.defaultVersion,
      versions: [...policy.versions.filter(({ number }) => number !== oldest?.number), version],
    });
    if (oldest !== undefined) await draft.remove('document', documentName(policy.id, oldest.number));
    await draft.put('document', documentName(policy.id, version.number), { name: policy.name }, text);
    const former = await draft.find('document', documentName(policy.id, policy.defaultVersion));
    draft.note({ before: { document: former?.text }, after: { document: text } });
    return version;
  });

const noSuchVersion = (version: number): Refusal =>
  fail('NoSuchEntity', `The policy version v${version} cannot be found.`);

/** @throws NoSuchEntity */
export function requireVersion({ versions }: PolicyRecord, number: number): Version {
  const found = versions.find((each) => each.number === number);
  if (found === undefined) throw noSuchVersion(number);
  return found;
}

interface NamedVersion {
  readonly policy: PolicyName;
  readonly version: number;
}

export const setDefaultVersion = (
  ctx: AccountCtx,
  account: string,
  { policy: named, version }: NamedVersion,
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    assertOwn(account, named);
    const policy = await policyIn(draft, named);
    requireVersion(policy, version);
    await putEntity(draft, kind, { ...policy, updated: ctx.clock.now(), defaultVersion: version });
  });

/** @throws DeleteConflict for the default version */
export const deleteVersion = (
  ctx: AccountCtx,
  account: string,
  { policy: named, version }: NamedVersion,
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    assertOwn(account, named);
    const policy = await policyIn(draft, named);
    requireVersion(policy, version);
    if (version === policy.defaultVersion)
      throw fail('DeleteConflict', 'Cannot delete the default version of a policy.');
    const versions = policy.versions.filter(({ number }) => number !== version);
    await putEntity(draft, kind, { ...policy, versions });
    await draft.remove('document', documentName(policy.id, version));
  });

export const changePolicyTags = (
  ctx: AccountCtx,
  account: string,
  {
    policy: named,
    to,
  }: { readonly policy: PolicyName; readonly to: (present: readonly IamTag[]) => readonly IamTag[] },
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    assertOwn(account, named);
    const policy = await policyIn(draft, named);
    await putEntity(draft, kind, { ...policy, tags: to(policy.tags) });
  });

// Managed policies that every account has, under the names and ids that the public service gave them.

/** The account in the ARNs of built-in policies. */
export const builtInAccount = 'aws';

interface BuiltInPolicy extends PolicyRecord {
  readonly text: string;
}

const allow = (elements: object): string =>
  JSON.stringify({ Version: '2012-10-17', Statement: [{ Effect: 'Allow', ...elements, Resource: '*' }] });

const created = Date.UTC(2015, 1, 6, 18, 40);
const builtIn = (id: string, name: string, more: Pick<BuiltInPolicy, 'description' | 'text'>) => ({
  id,
  name,
  ...more,
  path: '/',
  created,
  updated: created,
  tags: [],
  versions: [{ number: 1, created }],
  defaultVersion: 1,
  latestVersion: 1,
  attachments: 0,
  boundaries: 0,
});

export const builtInPolicies: readonly BuiltInPolicy[] = [
  builtIn('ANPAIWMBCKSKIEE64ZLYK', 'AdministratorAccess', {
    description: 'Provides full access to everything.',
    text: allow({ Action: '*' }),
  }),
  builtIn('ANPAIFIR6V6BVTRAHWINE', 'AmazonS3FullAccess', {
    description: 'Provides full access to all buckets.',
    text: allow({ Action: ['s3:*'] }),
  }),
  builtIn('ANPAIZTJ4DXE7G6AGAE6M', 'AmazonS3ReadOnlyAccess', {
    description: 'Provides read only access to all buckets.',
    text: allow({ Action: ['s3:Get*', 's3:List*'] }),
  }),
  builtIn('ANPAI7XKCFMBPM3QQRRVQ', 'IAMFullAccess', {
    description: 'Provides full access to IAM.',
    text: allow({ Action: ['iam:*'] }),
  }),
  builtIn('ANPAJKSO7NDY4T57MWDSQ', 'IAMReadOnlyAccess', {
    description: 'Provides read only access to IAM.',
    text: allow({
      Action: ['iam:Get*', 'iam:List*', 'iam:SimulateCustomPolicy', 'iam:SimulatePrincipalPolicy'],
    }),
  }),
  builtIn('ANPAJYRXTHIB4FOVS3ZXS', 'PowerUserAccess', {
    description: 'Provides full access to everything but IAM.',
    text: allow({ NotAction: ['iam:*'] }),
  }),
];

const byId = new Map(builtInPolicies.map((policy) => [policy.id, policy]));
const byName = new Map(builtInPolicies.map((policy) => [foldName(policy.name), policy]));

export const builtInById = (id: string): BuiltInPolicy | undefined => byId.get(id);
function builtInNamed(name: string): BuiltInPolicy | undefined {
  const found = byName.get(foldName(name));
  return found?.name === name ? found : undefined;
}

// Policy documents as they were sent: inline policies, versions of managed policies, trust policies.

/** The size of a policy as the public API counts it: characters without white space. */
export const policySize = (text: string): number => text.replace(/\s+/g, '').length;

/** The limit with white space: a document is stored in one row. */
const documentBytesMax = 20_000;
const encoder = new TextEncoder();

/** @throws LimitExceeded */
export function assertSize(
  text: string,
  { what, max }: { readonly what: string; readonly max: number },
): void {
  if (policySize(text) > max) throw fail('LimitExceeded', `Cannot exceed quota for ${what}: ${max}`);
  if (encoder.encode(text).length > documentBytesMax)
    throw fail('LimitExceeded', `A policy document has at most ${documentBytesMax} bytes, blanks included.`);
}
