/**
 * The access keys of users. A key has a row with its sealed secret and its account. Its user and its status are in the account's
 * records, so one change of them takes effect in every process.
 */

import { fail, type Refusal } from '../../base/errors.ts';
import { decodeUtf8 } from '../../base/text/utf8.ts';
import type { Context } from '../../context.ts';
import {
  findAccessKey,
  findAccessKeyUse,
  findIam,
  type KeyRecord,
  putAccessKey,
  removeAccessKey,
  toRecord,
} from '../../metadata/iam.ts';
import { SecretUnreadable } from '../../ports/cryptography.ts';
import { type AccountCtx, type AccountDraft, changeAccount } from './account.ts';
import { drawKeyPair, findById, getNamed, type KeyPair, namedIn, putEntity } from './entities.ts';

export type SealingCtx = AccountCtx & Pick<Context, 'sealer'>;

const keysMax = 2;
const encoder = new TextEncoder();
const mutexKey = (accessKey: string): string => `access key ${accessKey}`;

export interface AccessKey extends KeyRecord {
  readonly accessKey: string;
}

const noSuchKey = (accessKey: string): Refusal =>
  fail('NoSuchEntity', `The Access Key with id ${accessKey} cannot be found.`);

export const createAccessKey = (
  ctx: SealingCtx,
  account: string,
  user: string,
): Promise<AccessKey & KeyPair> => addAccessKey(ctx, account, { user, pair: drawKeyPair(ctx.random) });

interface NewKey {
  readonly user: string;
  readonly pair: KeyPair;
  /** Default Active. */
  readonly status?: KeyRecord['status'];
}

/**
 * Adds an existing key pair to a user, for clients that move to this service.
 * @throws EntityAlreadyExists when the access key exists in any account
 */
export async function importAccessKey(
  ctx: SealingCtx & Pick<Context, 'credentials'>,
  account: string,
  input: NewKey,
): Promise<AccessKey> {
  await assertKeyIsFree(ctx, input.pair.accessKey);
  const { secretKey: _, ...key } = await addAccessKey(ctx, account, input);
  return key;
}

/** @throws EntityAlreadyExists for a key of any account, active or not */
export async function assertKeyIsFree(
  {
    credentials,
    metadata,
  }: { readonly credentials: Pick<Context['credentials'], 'isConfigured'> } & Pick<Context, 'metadata'>,
  accessKey: string,
): Promise<void> {
  // A key of the settings has no row.
  if (credentials.isConfigured(accessKey) || (await findAccessKey(metadata, accessKey)) !== undefined)
    throw fail('EntityAlreadyExists', `The access key ${accessKey} is in use.`);
}

export const sealSecret = (
  { sealer }: Pick<Context, 'sealer'>,
  { accessKey, secretKey }: KeyPair,
): Promise<Uint8Array> => sealer.seal(encoder.encode(secretKey), mutexKey(accessKey));

async function addAccessKey(
  ctx: SealingCtx,
  account: string,
  { user: name, pair, status = 'Active' }: NewKey,
): Promise<AccessKey & KeyPair> {
  const { accessKey } = pair;
  const secret = await sealSecret(ctx, pair);
  return changeAccount(ctx, account, async (draft) => {
    const user = await namedIn(draft, { kind: 'user', name });
    if (user.keys.length >= keysMax)
      throw fail('LimitExceeded', `Cannot exceed quota for AccessKeysPerUser: ${keysMax}`);
    const key: KeyRecord = { user: user.id, status, created: ctx.clock.now() };
    await draft.put('key', accessKey, key);
    await putEntity(draft, 'user', { ...user, keys: [...user.keys, accessKey] });
    draft.also(putAccessKey({ accessKey, account, secret }));
    return { ...key, ...pair };
  });
}

async function keyIn(draft: AccountDraft, user: string, accessKey: string): Promise<KeyRecord> {
  const { keys } = await namedIn(draft, { kind: 'user', name: user });
  const key = keys.includes(accessKey) ? await draft.find('key', accessKey) : undefined;
  if (key === undefined) throw noSuchKey(accessKey);
  return key.value;
}

interface NamedKey {
  readonly user: string;
  readonly accessKey: string;
}

export const updateAccessKey = (
  ctx: AccountCtx,
  account: string,
  { user, accessKey, status }: NamedKey & Pick<KeyRecord, 'status'>,
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    await draft.put('key', accessKey, { ...(await keyIn(draft, user, accessKey)), status });
  });

export const deleteAccessKey = (
  ctx: AccountCtx,
  account: string,
  { user: name, accessKey }: NamedKey,
): Promise<void> =>
  changeAccount(ctx, account, async (draft) => {
    await keyIn(draft, name, accessKey);
    const user = await namedIn(draft, { kind: 'user', name });
    await putEntity(draft, 'user', { ...user, keys: user.keys.filter((each) => each !== accessKey) });
    await draft.remove('key', accessKey);
    draft.also(...removeAccessKey(accessKey));
  });

export async function listAccessKeys(
  ctx: Pick<AccountCtx, 'metadata'>,
  account: string,
  user: string,
): Promise<readonly AccessKey[]> {
  const { keys } = await getNamed(ctx, account, { kind: 'user', name: user });
  const found = await Promise.all(keys.map((accessKey) => findKey(ctx, account, accessKey)));
  return found.filter((key) => key !== undefined);
}

/** Finds a key in its account's records. */
export async function findKey(
  { metadata }: Pick<AccountCtx, 'metadata'>,
  account: string,
  accessKey: string,
): Promise<AccessKey | undefined> {
  const stored = await findIam(metadata, account, { kind: 'key', name: accessKey });
  return stored === undefined ? undefined : { accessKey, ...toRecord<'key'>(stored).value };
}

/**
 * The account and the secret of a key. The status of the key is in the account's records.
 * @throws SecretUnreadable
 */
export async function openAccessKey(
  { metadata, sealer }: Pick<Context, 'metadata' | 'sealer'>,
  accessKey: string,
): Promise<{ readonly account: string; readonly secretKey: string } | undefined> {
  const row = await findAccessKey(metadata, accessKey);
  if (row === undefined) return undefined;
  const secret = await sealer.open(row.secret, mutexKey(accessKey));
  if (secret === undefined)
    throw new SecretUnreadable(`the secret of access key ${accessKey} does not open under any master key`);
  return { account: row.account, secretKey: decodeUtf8(secret) };
}

interface LastUse {
  readonly userName: string;
  readonly use: { readonly at: number; readonly service: string; readonly region: string } | undefined;
}

/** @throws NoSuchEntity, also for a key of another account */
export async function readLastUse(
  ctx: Pick<AccountCtx, 'metadata'>,
  account: string,
  accessKey: string,
): Promise<LastUse> {
  const key = await findKey(ctx, account, accessKey);
  const user = key === undefined ? undefined : await findById(ctx, account, { kind: 'user', id: key.user });
  if (user === undefined) throw noSuchKey(accessKey);
  return { userName: user.name, use: await findAccessKeyUse(ctx.metadata, accessKey) };
}
