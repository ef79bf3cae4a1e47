/**
 * Accounts that operators create, suspend and delete at run time, and the access keys of their roots. A profile is a record of the
 * account's IAM partition, so its change gives the account another revision, and every process obeys it with the next request.
 */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { pageBuckets } from '../../metadata/buckets/buckets.ts';
import {
  type AccountProfile,
  findAccountClaim,
  findIam,
  type IamKind,
  idClaim,
  type KeyRecord,
  putAccessKey,
  putAccountClaim,
  putAccountRow,
  removeAccessKey,
  removeAccountRow,
  scanIam,
  toRecord,
} from '../../metadata/iam.ts';
import type { IamRow } from '../../metadata/records/iam.ts';
import { giveDefaultQuota } from '../quotas/default-quotas.ts';
import { deleteAccountQuota } from '../quotas/quota-limits.ts';
import { dropRateLimit } from '../quotas/rate-limiter.ts';
import { accountHolder, userHolder } from '../quotas/scopes.ts';
import { type AccessKey, assertKeyIsFree, findKey, type SealingCtx, sealSecret } from './access-keys.ts';
import { type AccountCtx, type AccountDraft, changeAccount, readCounts } from './account.ts';
import { drawKeyPair, type KeyPair } from './entities.ts';

/** Two, so that a new key can be in use before the old one ends. */
const rootKeysMax = 2;
const claimAttemptsMax = 8;
const removedAtOnce = 100;

/** What the settings say about accounts and keys. */
type Configured = Pick<Context['credentials'], 'account' | 'hasAccountLike' | 'isConfigured'>;
type Changing = SealingCtx & { readonly credentials: Configured };

export async function findProfile(
  metadata: Pick<Context['metadata'], 'get'>,
  account: string,
): Promise<AccountProfile | undefined> {
  const stored = await findIam(metadata, account, { kind: 'profile', name: '' });
  return stored === undefined ? undefined : toRecord<'profile'>(stored).value;
}

const emailClaim = (email: string): string => `email:${email.toLowerCase()}`;

/** The account whose profile has the e-mail address. */
export async function findAccountByEmail(
  metadata: Pick<Context['metadata'], 'get'>,
  email: string,
): Promise<{ readonly account: string; readonly profile: AccountProfile } | undefined> {
  const claim = await findAccountClaim(metadata, emailClaim(email));
  const profile = claim === undefined ? undefined : await findProfile(metadata, claim.row.account);
  if (claim === undefined || profile?.email?.toLowerCase() !== email.toLowerCase()) return undefined;
  return profile.status === 'Deleted' ? undefined : { account: claim.row.account, profile };
}

/**
 * Claims a text for an account. A claim whose account does not have the text was left by a creation that failed, and is replaced.
 * @throws EntityAlreadyExists
 */
async function claim(
  { metadata }: Pick<AccountCtx, 'metadata'>,
  {
    text,
    account,
    isOf,
  }: { readonly text: string; readonly account: string; isOf(profile: AccountProfile): boolean },
): Promise<void> {
  for (let attempt = 0; attempt < claimAttemptsMax; attempt += 1) {
    const before = await findAccountClaim(metadata, text);
    if (before?.row.account === account) return;
    const profile = before === undefined ? undefined : await findProfile(metadata, before.row.account);
    if (profile !== undefined && isOf(profile))
      throw fail('EntityAlreadyExists', `Another account has the ${text.replace(':', ' ')}.`);
    if (await putAccountClaim(metadata, { claim: text, account }, before)) return;
  }
  throw fail('OperationAborted');
}

const claimEmail = (ctx: Pick<AccountCtx, 'metadata'>, account: string, email: string): Promise<void> =>
  claim(ctx, {
    text: emailClaim(email),
    account,
    isOf: (profile) => profile.status !== 'Deleted' && profile.email?.toLowerCase() === email.toLowerCase(),
  });

/** @throws EntityAlreadyExists */
async function assertEmailIsFree({ credentials }: Changing, account: string, email: string): Promise<void> {
  const found = await credentials.account({ email });
  if (found !== undefined && found.owner !== account)
    throw fail('EntityAlreadyExists', 'Another account has this e-mail address.');
}

async function putProfile(draft: AccountDraft, profile: AccountProfile): Promise<void> {
  const { account } = draft;
  const { displayName = account, email, status } = profile;
  await draft.put('profile', '', profile);
  draft.also(
    status === 'Deleted'
      ? removeAccountRow(account)
      : putAccountRow({ account, displayName, status, ...(email === undefined ? {} : { email }) }),
  );
}

interface NewAccount {
  readonly displayName?: string | undefined;
  readonly email?: string | undefined;
  /** The key pair of its root; drawn where it is absent. */
  readonly pair?: KeyPair | undefined;
  /** Default Active. */
  readonly status?: 'Active' | 'Suspended' | undefined;
  /** Takes over the buckets and IAM records of an account of the same id that left the settings. */
  readonly adopt?: boolean | undefined;
}

/** @returns the root's key pair: its secret cannot be read again @throws EntityAlreadyExists */
export async function createAccount(
  ctx: Changing & Pick<Context, 'config'>,
  account: string,
  input: NewAccount,
): Promise<KeyPair> {
  const { pair = drawKeyPair(ctx.random) } = input;
  if (input.pair !== undefined) await assertKeyIsFree(ctx, pair.accessKey);
  await insertAccount(ctx, account, { ...input, pair });
  return pair;
}

/** For an import, which adds the keys of the root afterwards. @throws EntityAlreadyExists */
export const createKeylessAccount = (
  ctx: Changing & Pick<Context, 'config'>,
  account: string,
  input: Pick<NewAccount, 'displayName' | 'email' | 'status' | 'adopt'>,
): Promise<void> => insertAccount(ctx, account, input);

/** Whether there are buckets, users, groups, roles, policies or MFA devices of the id of an account. */
export async function hasHoldings(ctx: Pick<AccountCtx, 'metadata'>, account: string): Promise<boolean> {
  if (Object.values(await readCounts(ctx, account)).some((count) => count > 0)) return true;
  return (await findOwnedBucket(ctx, account)) !== undefined;
}

async function insertAccount(
  ctx: Changing & Pick<Context, 'config'>,
  account: string,
  { displayName = account, email, pair, status = 'Active', adopt = false }: NewAccount,
): Promise<void> {
  if (ctx.credentials.hasAccountLike(account))
    throw fail('EntityAlreadyExists', `The account ${account} exists.`);
  if (email !== undefined) await assertEmailIsFree(ctx, account, email);
  await claim(ctx, { text: idClaim(account), account, isOf: () => true });
  if (email !== undefined) await claimEmail(ctx, account, email);
  const secret = pair && (await sealSecret(ctx, pair));
  await changeAccount(ctx, account, async (draft) => {
    const present = (await draft.find('profile', ''))?.value;
    if (present?.status === 'Deleted')
      throw fail(
        'EntityAlreadyExists',
        `The account ${account} was deleted. Ids of accounts are not used again, because policies and ACLs may still name them.`,
      );
    if (present !== undefined) throw fail('EntityAlreadyExists', `The account ${account} exists.`);
    if (!adopt && (await hasHoldings(ctx, account)))
      throw fail(
        'EntityAlreadyExists',
        `Buckets or IAM records of ${account} exist, because it was an account of SVC_CREDENTIALS. Send "adopt": true to create the account with them and to serve its users again.`,
      );
    await giveDefaultQuota(ctx, 'account', accountHolder(account).key);
    const created = ctx.clock.now();
    if (pair !== undefined && secret !== undefined) {
      await draft.put('key', pair.accessKey, { user: '', status: 'Active', created });
      draft.also(putAccessKey({ accessKey: pair.accessKey, account, secret }));
    }
    await putProfile(draft, {
      displayName,
      ...(email === undefined ? {} : { email }),
      status,
      created,
      keys: pair === undefined ? [] : [pair.accessKey],
    });
  });
}

interface AccountChange {
  readonly displayName?: string | undefined;
  /** '' removes it. */
  readonly email?: string | undefined;
  readonly status?: 'Active' | 'Suspended' | undefined;
}

/** @throws EntityAlreadyExists for the e-mail address of another account */
export async function updateAccount(ctx: Changing, account: string, change: AccountChange): Promise<void> {
  const { displayName, email, status } = change;
  if (email !== undefined && email !== '') {
    await assertEmailIsFree(ctx, account, email);
    await claimEmail(ctx, account, email);
  }
  await changeAccount(ctx, account, async (draft) => {
    const { email: before, ...profile } = await profileIn(draft, ctx.clock.now());
    const after = email ?? before ?? '';
    await putProfile(draft, {
      ...profile,
      ...(displayName === undefined ? {} : { displayName }),
      ...(after === '' ? {} : { email: after }),
      ...(status === undefined ? {} : { status }),
    });
  });
}

/** The profile; a new one for an account of the settings. @throws NoSuchEntity */
async function profileIn(draft: AccountDraft, now: number): Promise<AccountProfile> {
  const profile = (await draft.find('profile', ''))?.value ?? { status: 'Active', created: now, keys: [] };
  if (profile.status === 'Deleted') throw fail('NoSuchEntity', `There is no account ${draft.account}.`);
  return profile;
}

/**
 * Ends every key of an account and removes its IAM records, quotas and rate limit. It can be repeated after a failure.
 * @throws DeleteConflict while the account owns a bucket
 */
export async function deleteAccount(ctx: AccountCtx, account: string): Promise<void> {
  await assertOwnsNothing(ctx, account);
  const before = await findProfile(ctx.metadata, account);
  await setStatus(ctx, account, 'Deleted');
  try {
    // A CreateBucket that was authorized before may have been committed meanwhile.
    await assertOwnsNothing(ctx, account);
  } catch (error) {
    if (before !== undefined && before.status !== 'Deleted') await setStatus(ctx, account, 'Suspended');
    throw error;
  }
  for (const kind of ownedKinds) await removeAll(ctx, account, kind);
  await deleteAccountQuota(ctx, accountHolder(account), {});
  await dropRateLimit(ctx, { kind: 'account', id: account });
}

const setStatus = (ctx: AccountCtx, account: string, status: AccountProfile['status']): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const profile = (await draft.find('profile', ''))?.value;
    if (profile === undefined) throw fail('NoSuchEntity', `There is no account ${account}.`);
    if (profile.status !== status) await putProfile(draft, { ...profile, status });
  });

async function findOwnedBucket({ metadata }: Pick<AccountCtx, 'metadata'>, account: string) {
  const [bucket] = await pageBuckets(metadata, account, { prefix: '', after: undefined, limit: 1 });
  return bucket;
}

async function assertOwnsNothing(ctx: Pick<AccountCtx, 'metadata'>, account: string): Promise<void> {
  const bucket = await findOwnedBucket(ctx, account);
  if (bucket !== undefined)
    throw fail(
      'DeleteConflict',
      `The account ${account} owns the bucket ${bucket.name}. Delete its buckets, or give them to another account, before you delete it.`,
    );
}

/** Keys come first, so that no secret outlives the records that name it. */
const ownedKinds: readonly IamKind[] = [
  'key',
  'device',
  'deviceUse',
  'document',
  'attachment',
  'member',
  'id',
  'policy',
  'role',
  'group',
  'user',
];

const deleteQuotaOfUser = (ctx: AccountCtx, account: string, row: IamRow): Promise<void> =>
  deleteAccountQuota(ctx, userHolder(account, toRecord<'user'>({ row }).value.id), {});

async function removeAll(ctx: AccountCtx, account: string, kind: IamKind): Promise<void> {
  // The audit row belongs to the change of the status.
  const { record: _, ...unrecorded } = ctx;
  for (;;) {
    const page = await scanIam(ctx.metadata, account, { kind, count: removedAtOnce });
    if (page.length === 0) return;
    if (kind === 'user') for (const { row } of page) await deleteQuotaOfUser(ctx, account, row);
    await changeAccount(unrecorded, account, async (draft) => {
      for (const { row } of page) {
        await draft.remove(kind, row.name);
        if (kind === 'key') draft.also(...removeAccessKey(row.name));
      }
    });
  }
}

/** Adds a key of the account's root. @throws LimitExceeded */
export const createRootKey = (ctx: SealingCtx, account: string): Promise<AccessKey & KeyPair> =>
  addRootKey(ctx, account, drawKeyPair(ctx.random));

/** Adds a key pair that exists already. @throws LimitExceeded; EntityAlreadyExists when the access key exists in any account */
export async function importRootKey(
  ctx: SealingCtx & Pick<Changing, 'credentials'>,
  account: string,
  { status, ...pair }: KeyPair & Pick<KeyRecord, 'status'>,
): Promise<void> {
  await assertKeyIsFree(ctx, pair.accessKey);
  await addRootKey(ctx, account, pair, status);
}

async function addRootKey(
  ctx: SealingCtx,
  account: string,
  pair: KeyPair,
  status: KeyRecord['status'] = 'Active',
): Promise<AccessKey & KeyPair> {
  const secret = await sealSecret(ctx, pair);
  return changeAccount(ctx, account, async (draft) => {
    const profile = await profileIn(draft, ctx.clock.now());
    if (profile.keys.length >= rootKeysMax)
      throw fail('LimitExceeded', `Cannot exceed quota for access keys of the root: ${rootKeysMax}`);
    const key: KeyRecord = { user: '', status, created: ctx.clock.now() };
    await draft.put('key', pair.accessKey, key);
    await putProfile(draft, { ...profile, keys: [...profile.keys, pair.accessKey] });
    draft.also(putAccessKey({ accessKey: pair.accessKey, account, secret }));
    return { ...key, ...pair };
  });
}

export async function listRootKeys(
  ctx: Pick<AccountCtx, 'metadata'>,
  account: string,
): Promise<readonly AccessKey[]> {
  const keys = (await findProfile(ctx.metadata, account))?.keys ?? [];
  const found = await Promise.all(keys.map((accessKey) => findKey(ctx, account, accessKey)));
  return found.filter((key) => key !== undefined);
}

/** Where a root key is changed: the settings may have further keys of the account. */
type RootKeyCtx = AccountCtx & { readonly credentials: Configured };

export const updateRootKey = (
  ctx: RootKeyCtx,
  account: string,
  { accessKey, status }: { readonly accessKey: string } & Pick<KeyRecord, 'status'>,
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    const key = await rootKeyIn(draft, accessKey);
    if (status === 'Inactive') await assertNotLast(ctx, draft, accessKey);
    await draft.put('key', accessKey, { ...key, status });
  });

export const deleteRootKey = (ctx: RootKeyCtx, account: string, accessKey: string): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    await rootKeyIn(draft, accessKey);
    await assertNotLast(ctx, draft, accessKey);
    const profile = await profileIn(draft, ctx.clock.now());
    await putProfile(draft, { ...profile, keys: profile.keys.filter((each) => each !== accessKey) });
    await draft.remove('key', accessKey);
    draft.also(...removeAccessKey(accessKey));
  });

async function rootKeyIn(draft: AccountDraft, accessKey: string): Promise<KeyRecord> {
  const key = (await draft.find('key', accessKey))?.value;
  if (key === undefined || key.user !== '')
    throw fail('NoSuchEntity', `The Access Key with id ${accessKey} cannot be found.`);
  return key;
}

/** @throws DeleteConflict when the account would have no active root key */
async function assertNotLast(
  { credentials }: RootKeyCtx,
  draft: AccountDraft,
  accessKey: string,
): Promise<void> {
  if ((await credentials.account({ owner: draft.account }))?.isConfigured === true) return;
  for (const other of (await draft.find('profile', ''))?.value.keys ?? []) {
    if (other !== accessKey && (await draft.find('key', other))?.value.status === 'Active') return;
  }
  throw fail(
    'DeleteConflict',
    `${accessKey} is the last active key of the root of ${draft.account}. Create another one first.`,
  );
}
