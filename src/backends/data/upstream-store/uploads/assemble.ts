/** Completes an upload so that the request can be repeated, whatever its first outcome was. */

import { toHex } from '../../../../base/text/hex.ts';
import type { Hasher } from '../../../../ports/crypto/hasher.ts';
import { PartsChanged, UploadGone } from '../../../../ports/storage/object-bytes.ts';
import type { Connection } from '../client/connection.ts';
import { retrying } from '../client/retry.ts';
import { isGone, UpstreamError } from '../client/upstream-error.ts';
import { completeUpload, headObject, type UploadedPart, type UpstreamUpload } from './uploads.ts';

const refusedParts: ReadonlySet<string> = new Set(['InvalidPart', 'InvalidPartOrder', 'EntityTooSmall']);

/**
 * @throws PartsChanged where the upstream has other parts, UploadGone where it has neither the upload nor what these
 *   parts make
 */
export async function assemble(
  connection: Connection,
  upload: UpstreamUpload,
  { parts, size }: { readonly parts: readonly UploadedPart[]; readonly size: number },
): Promise<void> {
  await retrying(connection, {}, async () => {
    try {
      await completeUpload(connection, upload, parts);
    } catch (cause) {
      if (cause instanceof UpstreamError && refusedParts.has(cause.code))
        throw new PartsChanged(`the upstream answered ${cause.code}`, { cause });
      if (!isGone(cause, 'NoSuchUpload')) throw cause;
      // An earlier request for the same may have been done without its answer coming through.
      const stored = await headObject(connection, upload.key);
      if (stored?.size === size && stored.etag === compositeEtag(connection.hasher, parts)) return;
      throw new UploadGone(`the upstream has no upload ${upload.uploadId}`, { cause });
    }
  });
}

/** The composite ETag, where the ETags of parts are their MD5; undefined where they are not. */
function compositeEtag(hasher: Hasher, parts: readonly UploadedPart[]): string | undefined {
  const md5 = hasher.create('md5');
  for (const { etag } of parts) {
    if (!/^[0-9a-f]{32}$/.test(etag)) return undefined;
    md5.update(Uint8Array.from({ length: 16 }, (_, i) => Number.parseInt(etag.slice(2 * i, 2 * i + 2), 16)));
  }
  return `${toHex(md5.digest())}-${parts.length}`;
}
