/** The secrets that sign a request about a bucket with a signing key, and what a signature with each proves. */
import type { BucketRow } from '../../metadata/tables.ts';
import type { Credential } from '../../ports/crypto/credentials.ts';
import type { Hasher } from '../../ports/crypto/hasher.ts';
import { deriveCombinedSecret, deriveSharedSecret } from '../../signing/bucket-secrets.ts';
import { asKeyHolder } from '../authorization/proven-identity.ts';
import type { SigningSecret } from '../context.ts';

/**
 * The combined secret proves the caller, because only it and the gateway can compute it. The secret of the bucket does not prove the caller, so it is
 * accepted for access keys of the account that owns the bucket only.
 */
export function secretsOfBucket(
  hasher: Hasher,
  { owner, secretKey }: Credential,
  {
    bucket,
    key,
    secret,
  }: {
    readonly bucket: Pick<BucketRow, 'id' | 'name' | 'owner' | 'signingKey'>;
    readonly key: string;
    readonly secret: string;
  },
): readonly SigningSecret[] {
  const signedFor = { bucketId: bucket.id, bucketName: bucket.name, key };
  const combined: SigningSecret = {
    secret: deriveCombinedSecret(hasher, secretKey, deriveSharedSecret(hasher, secret)),
    prove: (identity) => identity && { ...identity, signedFor },
  };
  const knownTo = bucket.signingKey?.knownTo ?? bucket.owner;
  if (owner !== bucket.owner || owner !== knownTo) return [combined];
  return [
    { secret, isOfBucket: true, prove: (identity) => identity && asKeyHolder(identity, signedFor) },
    combined,
  ];
}
