/** The checks of every upload before its body is read: the key, the length, the declared checksums. */

import type { ChecksumAlgorithm } from '../../domain/content/digests.ts';
import { type Content, contentMax } from '../../domain/content/store-bytes.ts';
import { fail } from '../../errors/refusal.ts';
import type { Authorized } from '../../gateway/request.ts';
import { readClaims } from '../common/claims.ts';

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
