/**
 * The secrets that may have signed a request about a bucket: those of the bucket's own signing key where it has one, else the secret of the
 * access key (spec, "Authentication", 6). The bucket is read when the caller's access key is known, and the row is used by the later stages.
 */
import type { FindSecrets } from '../../auth/context.ts';
import { secretsOfBucket } from '../../auth/signature/bucket-secrets.ts';
import type { Context } from '../../context.ts';
import type { Reached } from '../../domain/access/access-points.ts';
import { signingKeyIdentity, signingSecret } from '../../domain/buckets/signing-key.ts';
import { Refusal } from '../../errors/refusal.ts';
import { seenBucket } from '../../metadata/buckets/seen-buckets.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { splitAddress } from '../../protocol/request/address.ts';
import type { Located } from '../request.ts';
import { findBucket } from './find-bucket.ts';

export interface BucketKey {
  /** The bucket, if it was read from the store and not from a cache; the refusal, where there is none. */
  readonly reached: Reached | Refusal | undefined;
  /** The identity of the key that the secret is from. */
  readonly signedWith: string | undefined;
  /** @throws KeyExpired, KeyDenied, KeyTampered, KMSUnavailable: there is no fallback */
  readonly findSecrets: FindSecrets;
}

/** Undefined for requests that are about no bucket. */
export function openBucketKey(
  ctx: Context,
  { area, isAction, control, isSite, local, virtual }: Located,
): BucketKey | undefined {
  if (area !== undefined || isAction || isSite || control !== undefined) return undefined;
  const { bucket: addressedName } = splitAddress(local, virtual);
  if (addressedName === '') return undefined;
  return new ReadKey(ctx, { addressedName, virtual });
}

class ReadKey implements BucketKey {
  reached: Reached | Refusal | undefined;
  signedWith: string | undefined;
  readonly #ctx: Context;
  readonly #named: { readonly addressedName: string; readonly virtual: string | undefined };

  constructor(ctx: Context, named: { readonly addressedName: string; readonly virtual: string | undefined }) {
    this.#ctx = ctx;
    this.#named = named;
  }

  readonly findSecrets: FindSecrets = async (credential) => {
    const bucket = await this.#bucket();
    if (bucket?.signingKey === undefined) return [{ secret: credential.secretKey }];
    const key = signingKeyIdentity(bucket.signingKey);
    this.signedWith = key;
    const secret = await signingSecret(this.#ctx, bucket, bucket.signingKey);
    return secretsOfBucket(this.#ctx.hasher, credential, { bucket, key, secret });
  };

  /** Undefined where there is none; a later stage says so, to callers whose signature is right. */
  async #bucket(): Promise<BucketRow | undefined> {
    const ctx = this.#ctx;
    const seen = ctx.metadata.isDistant ? seenBucket(ctx, this.#named.addressedName) : undefined;
    if (seen !== undefined && ctx.clock.elapsed() - seen.at < ctx.config.SVC_CONFIG_CACHE_TTL)
      return seen.bucket;
    try {
      const reached = await findBucket(ctx, this.#named);
      this.reached = reached;
      return reached.bucket;
    } catch (cause) {
      if (!(cause instanceof Refusal) || !notFound.has(cause.code)) throw cause;
      this.reached = cause;
      return undefined;
    }
  }
}

const notFound: ReadonlySet<string> = new Set(['NoSuchBucket', 'NoSuchAccessPoint']);
