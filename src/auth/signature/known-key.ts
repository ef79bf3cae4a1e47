/** Finds the access key that a request names: for its signature, and again after its body was read slowly. */

import { memoizeEach } from '../../base/memoize.ts';
import { fail } from '../../errors/refusal.ts';
import type { Credential, Credentials } from '../../ports/crypto/credentials.ts';
import type { Identity, Renew } from '../identity.ts';

/** The identity without the secret, because the identity travels with the request and may be logged. */
export const identityOf: (credential: Credential) => Identity = memoizeEach(
  ({ secretKey: _, ...identity }: Credential) => identity,
);

export interface KnownKey {
  readonly credential: Credential;
  readonly renew: Renew;
}

/** @param token the session token of the request @throws InvalidAccessKeyId */
export async function findKnownKey(
  credentials: Credentials,
  accessKey: string,
  token: string | undefined,
): Promise<KnownKey> {
  const find = async (): Promise<Credential> => {
    const found = await credentials.find(accessKey, token);
    if (found === undefined) throw fail('InvalidAccessKeyId', { elements: { AWSAccessKeyId: accessKey } });
    return found;
  };
  const credential = await find();
  const renew = async (): Promise<Identity> => {
    const now = await find();
    // The key was deleted and created again with another secret, so the signature was made with the old key.
    if (now.secretKey !== credential.secretKey)
      throw fail('InvalidAccessKeyId', { elements: { AWSAccessKeyId: accessKey } });
    return identityOf(now);
  };
  return { credential, renew };
}
