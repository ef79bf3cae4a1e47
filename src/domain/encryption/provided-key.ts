/** Object keys that a key provider wraps (spec "Encryption", "Errors"). */
import type { Context } from '../../context.ts';
import { fail } from '../../errors/refusal.ts';
import type { Encryption } from '../../metadata/encryption.ts';
import {
  type KeyContext,
  KeyFailure,
  type KeyFailureReason,
  type KeyProvider,
} from '../../ports/key-provider.ts';
import { fromBase64, toBase64 } from '../digests.ts';
import type { KeyPlace, ObjectKey } from './key.ts';
import type { ByProvider } from './wanted.ts';

type Ctx = Pick<Context, 'keys' | 'config' | 'telemetry'>;
type Provided = Extract<Encryption, { by: 'provider' }>;

/** What the provider binds the key to, and logs; a client cannot give it (public API "Encryption context"). */
export const arnName = 'aws:s3:arn';

function contextOf(
  { bucket, key }: KeyPlace,
  {
    context,
    bucketKey,
  }: { readonly context?: KeyContext | undefined; readonly bucketKey?: boolean | undefined },
): KeyContext {
  const arn = bucketKey ? `arn:aws:s3:::${bucket.name}` : `arn:aws:s3:::${bucket.name}/${key}`;
  return { ...context, [arnName]: arn };
}

/** Without a name of its own or a configured one, a key is called as its bucket (spec "SVC_KMS_DEFAULT_KEY_ID"). */
const keyIdOf = ({ config }: Ctx, { bucket }: KeyPlace, { keyId }: ByProvider): string =>
  keyId ?? config.SVC_KMS_DEFAULT_KEY_ID ?? bucket.name;

const keptAs = (
  { context, bucketKey }: ByProvider,
  { keyId, wrapped }: { readonly keyId: string; readonly wrapped: Uint8Array },
): Provided => ({
  by: 'provider',
  keyId,
  wrapped: toBase64(wrapped),
  ...(context === undefined ? {} : { context }),
  ...(bucketKey ? { bucketKey } : {}),
});

export async function generateKey(ctx: Ctx, place: KeyPlace, how: ByProvider): Promise<ObjectKey> {
  const keyId = keyIdOf(ctx, place, how);
  const drawn = await ask(ctx, (keys) => keys.generate(keyId, contextOf(place, how)));
  return { bytes: drawn.key, encryption: keptAs(how, drawn) };
}

/** Wraps a key that is in use already. */
export async function wrapKey(
  ctx: Ctx,
  place: KeyPlace,
  { bytes, how }: { readonly bytes: Uint8Array; readonly how: ByProvider },
): Promise<Provided> {
  const keyId = keyIdOf(ctx, place, how);
  return keptAs(how, await ask(ctx, (keys) => keys.wrap(keyId, bytes, contextOf(place, how))));
}

export function unwrapKey(ctx: Ctx, place: KeyPlace, kept: Provided): Promise<Uint8Array> {
  const { telemetry } = ctx;
  return ask(ctx, async (keys) => {
    try {
      const wrapped = { keyId: kept.keyId, wrapped: fromBase64(kept.wrapped) };
      const key = await keys.unwrap(wrapped, contextOf(place, kept));
      telemetry.keyUnwrapped('ok');
      return key;
    } catch (cause) {
      if (cause instanceof KeyFailure) telemetry.keyUnwrapped(outcomes[cause.reason]);
      throw cause;
    }
  });
}

/** As the specification labels `svc_kms_decrypt_total`; with a key that is not there no caller can decrypt. */
const outcomes = {
  'unknown-key': 'denied',
  denied: 'denied',
  tampered: 'tampered',
  unavailable: 'unavailable',
} as const satisfies Readonly<Record<KeyFailureReason, string>>;

const codes = {
  'unknown-key': 'KMS.NotFoundException',
  denied: 'KeyDenied',
  tampered: 'KeyTampered',
  unavailable: 'KMSUnavailable',
} as const satisfies Readonly<Record<KeyFailureReason, string>>;

async function ask<T>({ keys }: Ctx, question: (keys: KeyProvider) => Promise<T>): Promise<T> {
  if (keys === undefined) throw fail('KMSUnavailable', 'No key provider is configured.');
  try {
    return await question(keys);
  } catch (cause) {
    if (cause instanceof KeyFailure) throw fail(codes[cause.reason], { cause });
    throw cause;
  }
}
