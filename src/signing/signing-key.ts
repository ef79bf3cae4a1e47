/** The key that a version-4 signature is made with. */
import { toHex } from '../base/text/hex.ts';
import type { Hasher } from '../ports/cryptography.ts';
import type { Dialect } from '../protocol/dialect.ts';

const utf8 = new TextEncoder();

/** @param scope `date/region/service/terminator` */
export function deriveSigningKey(
  hasher: Pick<Hasher, 'hmacSha256'>,
  secret: string,
  { dialect, scope }: { readonly dialect: Pick<Dialect, 'secretPrefix'>; readonly scope: string },
): Uint8Array {
  let key: Uint8Array = utf8.encode(dialect.secretPrefix + secret);
  for (const part of scope.split('/')) key = hasher.hmacSha256(key, part);
  return key;
}

/** The one way in which signatures encode a part of a path or query: everything but unreserved characters. */
export const encode = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`);

// The secrets that are derived from the secret of a bucket's signing key (docs/adr/0032-what-a-bucket-secret-proves.md).
//
// shared secret   = hex(HMAC-SHA256(key = secret of the bucket, "sluice-shared-secret"))
// combined secret = hex(HMAC-SHA256(key = secret of the access key, shared secret))

type Hmac = Pick<Hasher, 'hmacSha256'>;

const encoder = new TextEncoder();
const derive = (hasher: Hmac, key: string, message: string): string =>
  toHex(hasher.hmacSha256(encoder.encode(key), message));

/** What callers need to know of the bucket in order to sign as themselves. It is not enough to sign with. */
export const deriveSharedSecret = (hasher: Hmac, bucketSecret: string): string =>
  derive(hasher, bucketSecret, 'sluice-shared-secret');

export const deriveCombinedSecret = (hasher: Hmac, ownSecret: string, sharedSecret: string): string =>
  derive(hasher, ownSecret, sharedSecret);
