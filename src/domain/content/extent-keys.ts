/** Keys derived from an object key: one for each extent of the content, and one for the ETag that replaces the MD5. */
import { toHex } from '../../base/text/hex.ts';
import type { Context } from '../../context.ts';
import type { Encryption } from '../../metadata/objects/properties.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { CipherKey } from '../../ports/cryptography.ts';
import type { Owner } from '../../ports/object-bytes.ts';

type Ctx = Pick<Context, 'hasher' | 'cipher'>;

/** The object, op and part that an extent belongs to; its key is derived from them. */
interface ExtentPlace {
  readonly bucketId: string;
  readonly key: string;
  /** The op under which the extent was written: used once, so it identifies the version too. */
  readonly id: string;
  /** 0 outside of multipart uploads. */
  readonly part: number;
}

export const extentPlace = ({ bucketId, key, part = 0 }: Owner, id: string): ExtentPlace => ({
  bucketId,
  key,
  id,
  part,
});

/**
 * The key of one extent. The derivation includes the place of the extent, so its bytes decrypt nowhere else. A retried
 * write has another op, so no two contents ever share a key, and thereby a nonce.
 */
export function extentKey(
  { hasher, cipher }: Ctx,
  objectKey: Pick<ObjectKey, 'bytes'>,
  { bucketId, key, id, part }: ExtentPlace,
): Promise<CipherKey> {
  // No field contains a NUL. The key may contain any other character, so it comes last.
  const place = ['extent', bucketId, id, part, key].join('\0');
  return cipher.ready(hasher.hmacSha256(objectKey.bytes, place));
}

const etagBytes = 16;

/**
 * The MD5 itself only under the service's own key (public API "ETag"). Otherwise a value of the same length that reveals
 * nothing about the content without the object key.
 */
export function deriveEtag(
  { hasher }: Pick<Ctx, 'hasher'>,
  { bytes, encryption }: ObjectKey,
  md5: string,
): string {
  if (encryption.by === 'service') return md5;
  return toHex(hasher.hmacSha256(bytes, `etag\0${md5}`).subarray(0, etagBytes));
}

// The keys that contents are encrypted under.

/** A key that the client sends with each request; it is never stored. */
export interface CustomerKey {
  readonly bytes: Uint8Array;
  /** Base64 of its MD5. */
  readonly md5: string;
}

/** An object key, and how the row stores it. */
export interface ObjectKey {
  readonly bytes: Uint8Array;
  readonly encryption: Encryption;
}

/** The object that a wrapped key is bound to; it cannot be unwrapped for another one. */
export interface KeyPlace {
  readonly bucket: Pick<BucketRow, 'id' | 'name' | 'owner'>;
  readonly key: string;
}
