/** Removing extents: an object each, and uploads under the name of one whose size is unknown. */
import { type Extent, unknownSize } from '../../../ports/storage/object-bytes.ts';
import type { Connection } from './client/connection.ts';
import { listUploads } from './find.ts';
import { toKey } from './names.ts';
import { abortUpload, removeObject } from './uploads/uploads.ts';

/** Single deletions, because not every S3 service deletes several objects in one request. */
const parallelMax = 16;

export async function removeExtents(connection: Connection, extents: readonly Extent[]): Promise<void> {
  for (let from = 0; from < extents.length; from += parallelMax) {
    const removals = extents.slice(from, from + parallelMax).map((each) => removeExtent(connection, each));
    for (const { status, ...outcome } of await Promise.allSettled(removals))
      if (status === 'rejected') throw (outcome as PromiseRejectedResult).reason;
  }
}

async function removeExtent(connection: Connection, { id, size, foreign }: Extent): Promise<void> {
  // The gateway did not store it, and others may read it.
  if (foreign !== undefined) return;
  const key = toKey(connection.prefix, id);
  if (size === unknownSize) {
    // First, so that no completion on its way makes an object of it afterwards.
    for await (const upload of listUploads(connection, key))
      if (upload.key === key) await abortUpload(connection, upload);
  }
  await removeObject(connection, key);
}
