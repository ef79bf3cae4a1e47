/** Object keys that a key provider wraps. */

import { fromBase64, toBase64 } from '../../base/text/base64.ts';
import type { Context } from '../../context.ts';
import type { Encryption } from '../../metadata/objects/properties.ts';
import type { KeyContext, KeyDescription, KeyProvider } from '../../ports/key-provider.ts';
import type { KeyPlace, ObjectKey } from './extent-keys.ts';
import { ask, askAbout, askToUnwrap, type NamedKey, TimedFlights } from './named-keys.ts';
import { type ByProvider, keyIdOrDefault, withKeyId } from './requested-encryption.ts';

type Ctx = Pick<Context, 'caches' | 'clock' | 'hasher' | 'keys' | 'config' | 'telemetry'>;
export type Provided = Extract<Encryption, { by: 'provider' }>;

export type KeyAction = 'kms:GenerateDataKey' | 'kms:Decrypt';

/** The caller that uses a key. Each use is authorized before the provider is called. */
export interface KeyUser {
  /** The account that the names of keys count for; '' for an anonymous caller. */
  readonly account: string;
  /** @throws AccessDenied when the key's policy or the caller's policies do not allow the action */
  assertMayUse(action: KeyAction, key: KeyDescription): Promise<void>;
}

/** A name in the encryption context. The provider binds the key to its value and logs it; a client cannot set it (public API). */
export const arnName = 'aws:s3:arn';

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
  readonly question: (keys: KeyProvider, keyId: string, context: KeyContext) => Promise<T>;
}

async function askToWrap<T>(ctx: Ctx, place: KeyPlace, { how, user, question }: Wrapping<T>): Promise<T> {
  const bucket = place.bucket.name;
  const { keyId } = how;
  try {
    const asked = keyIdOrDefault(ctx, bucket, keyId);
    const name = await usableKeyId(ctx, asked, { action: 'kms:GenerateDataKey', user });
    const context = providedContext(place, how);
    const named = { name, account: user.account };
    return await askAbout(ctx, named, { of: 'wrap', question: (keys) => question(keys, name, context) });
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
    question: (keys, keyId, context) => keys.generate(keyId, context),
  });
  return { bytes: drawn.key, encryption: storedAs(how, drawn) };
}

/** The provider's id of a key that the user may use, so that a later change of the alias has no effect. */
async function usableKeyId(
  ctx: Ctx,
  name: string,
  { action, user }: { readonly action: KeyAction; readonly user: KeyUser },
): Promise<string> {
  const key = await findKey(ctx, { name, account: user.account });
  await user.assertMayUse(action, key);
  return key.keyId;
}

/** @throws KMSUnavailable, KeyDenied, KMS.NotFoundException; SlowDown for an account that tries names */
export const findKey = (ctx: Pick<Ctx, 'caches' | 'clock' | 'keys' | 'config'>, key: NamedKey) =>
  askAbout(ctx, key, { of: 'describe', question: (keys) => keys.describe(key.name) });

/** @throws AccessDenied, KMS.NotFoundException, as a read of the content would */
export async function assertMayDecrypt(
  ctx: Ctx,
  encryption: Encryption | undefined,
  user: KeyUser,
): Promise<void> {
  if (encryption?.by === 'provider')
    await usableKeyId(ctx, encryption.keyId, { action: 'kms:Decrypt', user });
}

/** Wraps an existing object key. */
export async function wrapKey(
  ctx: Ctx,
  place: KeyPlace,
  { bytes, how, user }: { readonly bytes: Uint8Array; readonly how: ByProvider; readonly user: KeyUser },
): Promise<Provided> {
  const wrapped = await askToWrap(ctx, place, {
    ...{ how, user },
    question: (keys, keyId, context) => keys.wrap(keyId, bytes, context),
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
  const mayUse = async (keys: KeyProvider): Promise<void> =>
    user.assertMayUse('kms:Decrypt', await keys.describe(storedValue.keyId));
  if (!ctx.keys?.isDistant)
    return askToUnwrap(ctx, async (keys) => {
      await mayUse(keys);
      return keys.unwrap(wrapped, context);
    });
  await ask(ctx, mayUse);
  // The hash bounds the memory of the cache: a client chooses how long its encryption context is.
  const name = hasher.sha256Hex(
    JSON.stringify([storedValue.keyId, storedValue.wrapped, Object.entries(context).sort()]),
  );
  const times = { clock, cacheMs: config.SVC_DEK_CACHE_TTL, failureCacheMs: failedMs };
  return caches
    .of(UnwrappedKeys)
    .find(name, times, () => askToUnwrap(ctx, (keys) => keys.unwrap(wrapped, context)));
}
