/** The key that a version-4 signature is made with. */
import type { Hasher } from '../ports/crypto/hasher.ts';
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
