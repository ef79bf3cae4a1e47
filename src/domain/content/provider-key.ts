/** Object keys that a key provider wraps. */

import { fromBase64, toBase64 } from '../../base/text/base64.ts';
import type { Context } from '../../context.ts';
import type { Encryption } from '../../metadata/objects/properties.ts';
import { arnName, type KeyContext, type KeyDescription, type KeyProvider } from '../../ports/key-provider.ts';
import type { CallUse } from '../../ports/trace.ts';
import type { KeyPlace, ObjectKey } from './extent-keys.ts';
import { ask, askAbout, askToUnwrap, findPayer, type NamedKey, TimedFlights } from './named-keys.ts';
import { type ByProvider, keyIdOrDefault, withKeyId } from './requested-encryption.ts';

type Ctx = Pick<Context, 'caches' | 'clock' | 'hasher' | 'keys' | 'config' | 'telemetry'>;
export type Provided = Extract<Encryption, { by: 'provider' }>;

export type KeyAction = 'kms:GenerateDataKey' | 'kms:Decrypt';

/** The caller that uses a key. Each use is authorized before the provider is called. */
export interface KeyUser {
  /** The account that the names of keys count for; '' for an anonymous caller. */
  readonly account: string;
  /** @throws AccessDenied when the key's policy or the caller's policies do not allow the action */
  assertMayUse(action: KeyAction, key: UsedKey): Promise<void>;
}

export interface UsedKey extends KeyDescription {
  /**
   * What the caller named it by: another account must not learn which key an alias stands for. Absent where the caller named none, and
   * the key is the default one of an operator.
   */
  readonly named: string | undefined;
}

/** What the provider binds an object key to. */
export function providedContext(
  { bucket, key }: KeyPlace,
  {
    context,
    bucketKey,
  }: { readonly context?: KeyContext | undefined; readonly bucketKey?: boolean | undefined },
): KeyContext {
  const arn = bucketKey ? `arn:aws:s3:::${bucket.name}` : `arn:aws:s3:::${bucket.name}/${key}`;
  return { ...context, [arnName]: arn };
}

const storedAs = (
  { context, bucketKey }: ByProvider,
  { keyId, wrapped }: { readonly keyId: string; readonly wrapped: Uint8Array },
): Provided => ({
  by: 'provider',
  keyId,
  wrapped: toBase64(wrapped),
  ...(context === undefined ? {} : { context }),
  ...(bucketKey ? { bucketKey } : {}),
});

interface Wrapping<T> {
  readonly how: ByProvider;
  readonly user: KeyUser;
  readonly question: (
    ...asked: readonly [keys: KeyProvider, keyId: string, context: KeyContext, use: CallUse]
  ) => Promise<T>;
}

async function askToWrap<T>(ctx: Ctx, place: KeyPlace, { how, user, question }: Wrapping<T>): Promise<T> {
  const bucket = place.bucket.name;
  const { keyId } = how;
  try {
    const asked = {
      name: keyIdOrDefault(ctx, bucket, keyId),
      account: user.account,
      owner: place.bucket.owner,
    };
    // Without a default key, one that is called as the bucket is used: its caller knows that name.
    const named = ctx.config.SVC_KMS_DEFAULT_KEY_ID === undefined ? asked.name : keyId;
    const name = await usableKeyId(ctx, asked, { action: 'kms:GenerateDataKey', user, named });
    const context = providedContext(place, how);
    const use = { account: place.bucket.owner };
    return await askAbout(
      ctx,
      { ...asked, name },
      { of: 'wrap', question: (keys) => question(keys, name, context, use) },
    );
  } catch (cause) {
    throw withKeyId(ctx, cause, { bucket, keyId, parameter: 'KMS key id', toOperator: false });
  }
}

export async function generateKey(
  ctx: Ctx,
  place: KeyPlace,
  { how, user }: { readonly how: ByProvider; readonly user: KeyUser },
): Promise<ObjectKey> {
  const drawn = await askToWrap(ctx, place, {
    ...{ how, user },
    question: (keys, keyId, context, use) => keys.generate(keyId, context, use),
  });
  return { bytes: drawn.key, encryption: storedAs(how, drawn) };
}

/** The provider's id of a key that the user may use, so that a later change of the alias has no effect. */
async function usableKeyId(
  ctx: Ctx,
  asked: NamedKey,
  { action, user, named }: { readonly action: KeyAction; readonly user: KeyUser } & Pick<UsedKey, 'named'>,
): Promise<string> {
  const key = await findKey(ctx, asked);
  await user.assertMayUse(action, { ...key, named });
  return key.keyId;
}

/** @throws KMSUnavailable, KeyDenied, KMS.NotFoundException; SlowDown for an account that tries names */
export const findKey = (ctx: Pick<Ctx, 'caches' | 'clock' | 'keys' | 'config'>, key: NamedKey) =>
  askAbout(ctx, key, {
    of: 'describe',
    question: (keys) => keys.describe(key.name, { account: findPayer(key) }),
  });

/** @throws AccessDenied, KMS.NotFoundException, as a read of the content would */
export async function assertMayDecrypt(
  ctx: Ctx,
  encryption: Encryption | undefined,
  user: KeyUser,
): Promise<void> {
  if (encryption?.by !== 'provider') return;
  const { keyId } = encryption;
  await usableKeyId(
    ctx,
    { name: keyId, account: user.account },
    { action: 'kms:Decrypt', user, named: keyId },
  );
}

/** Wraps an existing object key. */
export async function wrapKey(
  ctx: Ctx,
  place: KeyPlace,
  { bytes, how, user }: { readonly bytes: Uint8Array; readonly how: ByProvider; readonly user: KeyUser },
): Promise<Provided> {
  const wrapped = await askToWrap(ctx, place, {
    ...{ how, user },
    question: (keys, keyId, context, use) => keys.wrap(keyId, bytes, context, use),
  });
  return storedAs(how, wrapped);
}

const unwrappedMax = 16_384;
/** After a failure the provider is not asked again about the same wrapped key for this time. */
const failedMs = 1_000;

/** Object keys that a provider outside of this process unwrapped, by what they are bound to. */
class UnwrappedKeys extends TimedFlights<Uint8Array> {
  constructor() {
    super({ name: 'unwrapped-keys', entriesMax: unwrappedMax });
  }
}

/** Checks each caller. Calls the provider at most once in SVC_DEK_CACHE_TTL, if it is outside of this process. */
export async function unwrapKey(
  ctx: Ctx,
  place: KeyPlace,
  { stored: storedValue, user }: { readonly stored: Provided; readonly user: KeyUser },
): Promise<Uint8Array> {
  const { caches, clock, config, hasher } = ctx;
  const wrapped = { keyId: storedValue.keyId, wrapped: fromBase64(storedValue.wrapped) };
  const context = providedContext(place, storedValue);
  const use = { account: place.bucket.owner };
  const { keyId } = wrapped;
  const mayUse = async (keys: KeyProvider): Promise<void> =>
    user.assertMayUse('kms:Decrypt', { ...(await keys.describe(keyId, use)), named: keyId });
  if (!ctx.keys?.isDistant)
    return askToUnwrap(ctx, async (keys) => {
      await mayUse(keys);
      return keys.unwrap(wrapped, context, use);
    });
  await ask(ctx, mayUse);
  // The hash bounds the memory of the cache: a client chooses how long its encryption context is.
  const name = hasher.sha256Hex(
    JSON.stringify([storedValue.keyId, storedValue.wrapped, Object.entries(context).sort()]),
  );
  const times = { clock, cacheMs: config.SVC_DEK_CACHE_TTL, failureCacheMs: failedMs };
  return caches
    .of(UnwrappedKeys)
    .find(name, times, () => askToUnwrap(ctx, (keys) => keys.unwrap(wrapped, context, use)));
}
