/**
 * Uploads whose parts the byte store itself holds and assembles into one extent (an S3 upstream does). The extent belongs to the session
 * from the beginning: its id ends with the session's id, which distinguishes an abandoned upload from one in progress.
 */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { StoredSession } from '../../metadata/objects/uploads.ts';
import type { BucketRow, UploadSession } from '../../metadata/tables.ts';
import type { Op } from '../../ports/metadata-store.ts';
import {
  type Extent,
  type ForwardedPart,
  type ForwardedUpload,
  type Owner,
  PartsChanged,
  type UploadBytes,
  UploadGone,
  unknownSize,
} from '../../ports/object-bytes.ts';
import { giveUp, queueUnowned, type Ctx as StoreCtx } from '../content/store-bytes.ts';
import { ownedParts } from './part-counts.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes'>;

/** The handle that binds a session to the cluster it began on. */
export const formatHandle = ({ cluster, bucket, key, uploadId }: ForwardedUpload): string =>
  [cluster, bucket, key, uploadId].join('\0');

/** The upload in the store, for a session whose parts the store holds. */
export function parseForwardedUpload({
  extentId,
  backendUploadId,
}: UploadSession): ForwardedUpload | undefined {
  if (extentId === undefined) return undefined;
  const [cluster = '', bucket = '', key = '', uploadId = ''] = backendUploadId.split('\0');
  return { cluster, bucket, key, uploadId };
}

export function requireUploads({ bytes }: Pick<Ctx, 'bytes'>): UploadBytes {
  if (bytes.uploads === undefined)
    throw new Error('the parts of this upload lie in a store that is not configured');
  return bytes.uploads;
}

interface NewForwardedUpload {
  readonly cluster: string;
  readonly bucket: Pick<BucketRow, 'id' | 'shards'>;
  readonly owner: Owner & { readonly uploadId: string };
  readonly requestId: string;
}

/** Opens an upload in the store, and has `own` commit the session that it belongs to. */
export async function beginForwarded<T>(
  ctx: StoreCtx,
  { cluster, bucket, owner, requestId }: NewForwardedUpload,
  own: (forwarded: {
    readonly upload: ForwardedUpload;
    readonly extentId: string;
    readonly op: Op;
  }) => Promise<T>,
): Promise<T> {
  const op = await ctx.metadata.begin({ cluster });
  const extent = { cluster, id: `${op.id}.${owner.uploadId}`, size: unknownSize };
  try {
    const upload = await requireUploads(ctx).begin({ cluster, id: extent.id, owner });
    const result = await own({ upload, extentId: extent.id, op });
    await ctx.metadata.end(op);
    return result;
  } catch (cause) {
    await giveUp(ctx, { op, stored: [{ extent, owner }], bucket, requestId });
    throw cause;
  }
}

/** Lets the store assemble the parts of a session into one extent; undefined when each part is an extent. */
export async function completeForwarded(
  ctx: Ctx,
  { uploadId, session }: Pick<StoredSession['row'], 'uploadId' | 'session'>,
  parts: readonly ForwardedPart[],
): Promise<Extent | undefined> {
  const upload = parseForwardedUpload(session);
  if (upload === undefined || session.extentId === undefined) return undefined;
  await requireUploads(ctx)
    .complete(upload, parts)
    .catch((cause: unknown) => {
      throw toUploadRefusal(cause, uploadId);
    });
  const size = parts.reduce((sum, part) => sum + part.size, 0);
  return { cluster: upload.cluster, id: session.extentId, size };
}

/** The refusal when the store has other parts, or none: the client must start the upload again, despite earlier successful answers. */
export function toUploadRefusal(cause: unknown, uploadId: string): unknown {
  if (cause instanceof UploadGone) return fail('NoSuchUpload', { cause, elements: { UploadId: uploadId } });
  if (cause instanceof PartsChanged) return fail('InvalidPart', { cause });
  return cause;
}

/** Removes the parts and the extent of an ended session from the store, unless a version owns the extent. */
export async function clearForwarded(
  ctx: Ctx,
  { uploadId, session, requestId }: StoredSession['row'],
  bucket: BucketRow | undefined,
): Promise<void> {
  const upload = parseForwardedUpload(session);
  const { extentId, key } = session;
  if (upload === undefined || extentId === undefined) return;
  // Only an upload that was never committed, or whose bucket was deleted, is discarded.
  if (session.state === 'aborted') return requireUploads(ctx).discard(upload);
  if (bucket !== undefined) {
    const owned = await ownedParts(ctx, { bucket, key, uploadId }, new Set([extentId]));
    if (owned.has(extentId)) return;
  }
  await queueUnowned(ctx, { cluster: upload.cluster, id: extentId, size: unknownSize }, requestId);
}
