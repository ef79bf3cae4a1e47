/** The object keys that operations need: of what they read, and of the upload that they add a part to. */
import { openKeyUser } from '../../auth/session/key-user.ts';
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { ObjectKey } from '../../domain/content/content-key.ts';
import type { ChecksumAlgorithm } from '../../domain/content/digests.ts';
import { assertCustomerKey, assertUploadKey, openObjectKey } from '../../domain/content/object-key.ts';
import { type Content, contentMax } from '../../domain/content/store-bytes.ts';
import type { BucketRow, ObjectRow, UploadSession } from '../../metadata/tables.ts';
import { readClaims } from '../../request/claims.ts';
import type { Authorized, AuthorizedInBucket } from '../../request/request.ts';
import {
  mentionsEncryption,
  readCustomerKey,
  refuseChoosing,
  refuseOtherEncryption,
} from './encryption-headers.ts';

/** Whether there is anything for `openDescribedKey` to check. */
export const needsDescribedKey = (request: Authorized, { encryption }: ObjectRow): boolean =>
  encryption !== undefined || mentionsEncryption(request);

/**
 * Checks the encryption headers of a read. A customer key is verified immediately, so that a caller without it learns nothing about
 * the object (public API "HeadObject").
 */
export async function openDescribedKey(
  ctx: Context,
  request: AuthorizedInBucket,
  row: ObjectRow,
): Promise<ObjectKey | undefined> {
  const { encryption } = row;
  refuseChoosing(request);
  const customerKey = readCustomerKey(ctx, request);
  assertCustomerKey(encryption, customerKey);
  if (encryption?.by !== 'customer') return undefined;
  return openObjectKey(
    ctx,
    { bucket: request.bucket, key: row.key },
    { encryption, customerKey, user: openKeyUser(ctx, request) },
  );
}

/** The key of a content that is read. A call to the key provider happens here and not before. */
export const openContentKey = async (
  ctx: Context,
  request: AuthorizedInBucket,
  { encryption, key }: ObjectRow,
): Promise<ObjectKey | undefined> =>
  encryption &&
  openObjectKey(ctx, { bucket: request.bucket, key }, { encryption, user: openKeyUser(ctx, request) });

/** The key to the source of a copy. */
export async function openSourceKey(
  ctx: Context,
  request: AuthorizedInBucket,
  { bucket, row }: { readonly bucket: BucketRow; readonly row: ObjectRow },
): Promise<ObjectKey | undefined> {
  const { encryption } = row;
  const customerKey = readCustomerKey(ctx, request, 'copy-source-');
  assertCustomerKey(encryption, customerKey);
  return (
    encryption &&
    openObjectKey(ctx, { bucket, key: row.key }, { encryption, customerKey, user: openKeyUser(ctx, request) })
  );
}

/** The key of an upload, which encrypts every part; a customer sends its key with each. */
export async function openUploadKey(
  ctx: Context,
  request: AuthorizedInBucket,
  { encryption, key, begunAs }: UploadSession,
): Promise<ObjectKey | undefined> {
  refuseOtherEncryption(request, encryption, begunAs);
  const customerKey = readCustomerKey(ctx, request);
  if (encryption?.by === 'customer' && customerKey === undefined)
    throw fail(
      'InvalidRequest',
      'The multipart upload initiate requested encryption. Subsequent part requests must include the appropriate encryption parameters.',
    );
  assertUploadKey(encryption, customerKey);
  return (
    encryption &&
    openObjectKey(
      ctx,
      { bucket: request.bucket, key },
      { encryption, customerKey, user: openKeyUser(ctx, request) },
    )
  );
}

// The checks of every upload before its body is read: the key, the length, the declared checksums.

/**
 * The content of an upload.
 * @throws MissingContentLength, EntityTooLarge, or what the claims' own syntax is refused with
 */
export function readContent(request: Authorized, fallback?: ChecksumAlgorithm): Content {
  const { length } = request.payload;
  const isChunked = request.wire.headers.get('transfer-encoding') !== undefined;
  if (length === undefined && !isChunked) throw fail('MissingContentLength');
  if (length !== undefined && length > contentMax) {
    throw fail('EntityTooLarge', { elements: { ProposedSize: length, MaxSizeAllowed: contentMax } });
  }
  const { content: source, sha256 } = request.payload;
  return { source, length, sha256, claims: readClaims(request, { fallback }) };
}
