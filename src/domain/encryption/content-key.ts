/** The keys that come from an object key: one for each extent of the content, and what stands in for the MD5. */
import type { Context } from '../../context.ts';
import type { CipherKey } from '../../ports/cipher.ts';
import { toHex } from '../digests.ts';

type Ctx = Pick<Context, 'hasher' | 'cipher'>;

/** Where an extent belongs. */
export interface ExtentPlace {
  readonly bucketId: string;
  readonly key: string;
  /** The op that the extent was written under: never used twice, so it stands for the version too. */
  readonly id: string;
  /** 0 outside of multipart uploads. */
  readonly part: number;
}

/**
 * The key of one extent. All that its bytes are bound to is in here, so that they decrypt nowhere else; and because a
 * write that is tried again has another op, no two contents ever share a key, and with it a nonce.
 */
export function extentKey(
  { hasher, cipher }: Ctx,
  objectKey: Uint8Array,
  { bucketId, key, id, part }: ExtentPlace,
): CipherKey | Promise<CipherKey> {
  // None of these holds a NUL; a key is the one that may hold anything else, so it comes last.
  const place = ['extent', bucketId, id, part, key].join('\0');
  return cipher.ready(hasher.hmacSha256(objectKey, place));
}

const etagBytes = 16;

/** As long as an MD5 and telling nothing about the content to anybody without the object key (public API "ETag"). */
export const hiddenEtag = ({ hasher }: Ctx, objectKey: Uint8Array, md5: string): string =>
  toHex(hasher.hmacSha256(objectKey, `etag\0${md5}`).subarray(0, etagBytes));
