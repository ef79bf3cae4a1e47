/**
 * The secrets that are derived from the secret of a bucket's signing key (docs/adr/0032-what-a-bucket-secret-proves.md).
 *
 *     shared secret   = hex(HMAC-SHA256(key = secret of the bucket, "sluice-shared-secret"))
 *     combined secret = hex(HMAC-SHA256(key = secret of the access key, shared secret))
 *
 * Keys are the UTF-8 bytes of the texts, as clients have them.
 */
import { toHex } from '../base/text/hex.ts';
import type { Hasher } from '../ports/crypto/hasher.ts';

type Hmac = Pick<Hasher, 'hmacSha256'>;

const utf8 = new TextEncoder();
const derive = (hasher: Hmac, key: string, message: string): string =>
  toHex(hasher.hmacSha256(utf8.encode(key), message));

/** What callers need to know of the bucket in order to sign as themselves. It is not enough to sign with. */
export const deriveSharedSecret = (hasher: Hmac, bucketSecret: string): string =>
  derive(hasher, bucketSecret, 'sluice-shared-secret');

export const deriveCombinedSecret = (hasher: Hmac, ownSecret: string, sharedSecret: string): string =>
  derive(hasher, ownSecret, sharedSecret);
