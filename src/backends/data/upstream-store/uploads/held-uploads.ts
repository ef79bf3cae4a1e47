/** Multipart uploads of clients as multipart uploads of the upstream: each part is forwarded, and the result is one object. */
import { fail } from '../../../../errors/refusal.ts';
import { type HeldUpload, type UploadBytes, UploadGone } from '../../../../ports/storage/object-bytes.ts';
import type { Cause } from '../../../../ports/trace.ts';
import type { Connection } from '../client/connection.ts';
import { isGone } from '../client/upstream-error.ts';
import { ownerHeaders, toKey } from '../names.ts';
import { put } from '../put.ts';
import { assemble } from './assemble.ts';
import { abortUpload, beginUpload, removeObject } from './uploads.ts';

export const heldUploads = (connectionTo: (cluster: string, cause?: Cause) => Connection): UploadBytes => ({
  async begin({ cluster, id, owner, cause }) {
    const connection = connectionTo(cluster, cause);
    const key = toKey(connection.prefix, id);
    const { uploadId } = await beginUpload(connection, { key, headers: ownerHeaders(owner) });
    return { cluster, bucket: connection.bucket, key, uploadId };
  },

  async writePart(source, { upload, part, size, confirm, claimed, signal, cause }) {
    // Upstreams want to know, and a part is too much to hold.
    if (size === undefined) throw fail('MissingContentLength');
    const query = buildQuery(upload, part);
    try {
      const receipt = await put(connectionTo(upload.cluster, cause), {
        key: upload.key,
        query,
        source,
        size,
        confirm,
        claimed,
        signal,
      });
      return { part, size, receipt };
    } catch (cause) {
      if (isGone(cause, 'NoSuchUpload'))
        throw new UploadGone(`no upload ${upload.uploadId} upstream`, { cause });
      throw cause;
    }
  },

  complete(upload, parts, cause) {
    const size = parts.reduce((sum, part) => sum + part.size, 0);
    const listed = parts.map(({ part, receipt }) => ({ part, etag: receipt }));
    return assemble(connectionTo(upload.cluster, cause), upload, { parts: listed, size });
  },

  async discard(upload, cause) {
    const connection = connectionTo(upload.cluster, cause);
    // First, so that no completion on its way makes an object of it afterwards.
    await abortUpload(connection, upload);
    await removeObject(connection, upload.key);
  },
});

const buildQuery = ({ uploadId }: HeldUpload, part: number) =>
  [
    ['partNumber', String(part)],
    ['uploadId', uploadId],
  ] as const;
