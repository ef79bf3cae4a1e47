/**
 * The signing key of a bucket: 32 bytes that the key provider has wrapped. Their lower-case hex is the secret with
 * which every request about the bucket is signed, in place of the secret of the caller's access key (spec,
 * "Authentication", 6).
 */

import { fail, Refusal } from '../../base/errors.ts';
import { fromBase64, toBase64 } from '../../base/text/base64.ts';
import { toHex } from '../../base/text/hex.ts';
import type { Context } from '../../context.ts';
import type { BucketRow, SigningKey } from '../../metadata/tables.ts';
import { arnName, type KeyContext } from '../../ports/key-provider.ts';
import { changeBucket, changeRow, openBucket, signingKeyIdentity } from '../common/buckets.ts';
import type { Recorder } from '../common/recorder.ts';
import { ask, askToUnwrap, TimedFlights } from '../content/named-keys.ts';
import { keyIdOrDefault, withKeyId } from '../content/requested-encryption.ts';

type Ctx = Pick<Context, 'caches' | 'metadata' | 'clock' | 'random' | 'config' | 'keys' | 'telemetry'>;

const secretsMax = 4_096;
/** After a failure the provider is not asked again for this time, so that refused requests do not burden it. */
const failedMs = 1_000;

/** By the identity of the key, so a rotated key is never confused with the former one. */
class Secrets extends TimedFlights<string> {
  constructor() {
    super({ name: 'bucket-signing-keys', entriesMax: secretsMax });
  }
}

/** Binds the wrapped key to its bucket: another bucket's row cannot use it. */
export const signingContext = ({ id, name }: Pick<BucketRow, 'id' | 'name'>): KeyContext => ({
  [arnName]: `arn:aws:s3:::${name}`,
  bucket: id,
  use: 'signing-key',
});

const isExpired = ({ clock, config }: Pick<Ctx, 'clock' | 'config'>, { createdAt }: SigningKey): boolean =>
  clock.now() - createdAt >= config.SVC_KEY_MAX_AGE;

/** @throws KeyExpired, KeyDenied, KeyTampered, KMSUnavailable */
export async function signingSecret(
  ctx: Ctx,
  bucket: Pick<BucketRow, 'id' | 'name' | 'owner'>,
  key: SigningKey,
): Promise<string> {
  const { caches, clock, config, telemetry } = ctx;
  if (isExpired(ctx, key)) {
    telemetry.count('svc_kms_decrypt_total', { outcome: 'expired' });
    throw fail('KeyExpired');
  }
  const name = `${bucket.id} ${key.keyId} ${signingKeyIdentity(key)}`;
  const times = { clock, cacheMs: config.SVC_DEK_CACHE_TTL, failureCacheMs: failedMs };
  return caches.of(Secrets).find(name, times, () =>
    askToUnwrap(ctx, (keys) =>
      keys.unwrap({ keyId: key.keyId, wrapped: fromBase64(key.wrapped) }, signingContext(bucket), {
        account: bucket.owner,
      }),
    )
      // A key that is gone at the provider refuses the caller, as one that may not be used.
      .catch((cause: unknown) => Promise.reject(asDenied(cause)))
      .then(toHex),
  );
}

const asDenied = (cause: unknown): unknown =>
  cause instanceof Refusal && cause.code === 'KMS.NotFoundException' ? fail('KeyDenied', { cause }) : cause;

interface MintedKey {
  readonly key: SigningKey;
  /** Shown once, and stored nowhere. */
  readonly secret: string;
}

/**
 * Draws a new key. Until it is stored, the former one holds.
 * @param keyId undefined for SVC_KMS_DEFAULT_KEY_ID, then the name of the bucket
 * @throws OperationAborted when another rotation was faster: its secret is the one that holds
 */
export async function rotateSigningKey(
  ctx: Ctx,
  name: string,
  { keyId, record }: { readonly keyId: string | undefined; readonly record?: Recorder | undefined },
): Promise<MintedKey> {
  const bucket = await openBucket(ctx, name);
  const asked = keyIdOrDefault(ctx, bucket.name, keyId);
  const drawn = await ask(ctx, (keys) =>
    keys.generate(asked, signingContext(bucket), { account: bucket.owner }),
  ).catch((cause: unknown) => {
    throw withKeyId(ctx, cause, { bucket: bucket.name, keyId, parameter: 'key_id', toOperator: true });
  });
  const key = { keyId: drawn.keyId, wrapped: toBase64(drawn.wrapped), createdAt: ctx.clock.now() };
  await changeRow(ctx, bucket, {
    record,
    plan: (row) => {
      if (signingKeyIdentity(row.signingKey) !== signingKeyIdentity(bucket.signingKey))
        throw fail('OperationAborted', 'Another rotation or deletion of this signing key was faster.');
      return { row: { ...row, signingKey: key } };
    },
  });
  return { key, secret: toHex(drawn.key) };
}

/** The bucket is signed for with the secrets of access keys again. */
export async function deleteSigningKey(ctx: Ctx, name: string, record: Recorder | undefined): Promise<void> {
  await changeBucket(ctx, await openBucket(ctx, name), {
    record,
    change: ({ signingKey: _, ...others }) => others,
  });
}

interface SigningKeyStatus extends SigningKey {
  readonly ageMs: number;
  readonly isExpired: boolean;
}

/** @throws NoSuchSigningKey */
export async function signingKeyStatus(ctx: Ctx, name: string): Promise<SigningKeyStatus> {
  const { signingKey } = await openBucket(ctx, name);
  if (signingKey === undefined) throw fail('NoSuchSigningKey', { elements: { BucketName: name } });
  return {
    ...signingKey,
    ageMs: Math.max(0, ctx.clock.now() - signingKey.createdAt),
    isExpired: isExpired(ctx, signingKey),
  };
}

// Counts the signing keys of buckets by age.

export interface SigningKeyRules {
  /** SVC_KEY_MAX_AGE. */
  readonly maxAgeMs: number;
  readonly now: number;
}

/** A key that expires within this time is to be rotated. */
const noticeMs = 14 * 24 * 60 * 60 * 1000;

/** The signing keys of buckets, by what SVC_KEY_MAX_AGE says of them. */
export interface SigningKeyAges {
  readonly valid: number;
  readonly expiring: number;
  readonly expired: number;
  readonly oldestSeconds: number;
}

export class SigningKeySample {
  readonly #rules: SigningKeyRules;
  readonly #counts = { valid: 0, expiring: 0, expired: 0 };
  #oldestMs = 0;

  constructor(rules: SigningKeyRules) {
    this.#rules = rules;
  }

  add(key: SigningKey | undefined): void {
    if (key === undefined) return;
    const { maxAgeMs, now } = this.#rules;
    const ageMs = now - key.createdAt;
    this.#oldestMs = Math.max(this.#oldestMs, ageMs);
    this.#counts[ageMs >= maxAgeMs ? 'expired' : ageMs >= maxAgeMs - noticeMs ? 'expiring' : 'valid'] += 1;
  }

  ages(): SigningKeyAges {
    return { ...this.#counts, oldestSeconds: Math.round(this.#oldestMs / 1000) };
  }
}
