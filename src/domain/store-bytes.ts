/** Storing a content under an op: every byte that lands has an owner or a place in the deletion queue (design §5). */
import type { Context } from '../context.ts';
import type { BucketRow } from '../metadata/tables.ts';
import type { Op } from '../ports/metadata-store.ts';
import { type Extent, type Owner, unknownSize } from '../ports/object-bytes.ts';
import { type Claims, type Digested, digesting } from './digests.ts';
import { etagOf, extentKey, placeOf } from './encryption/content-key.ts';
import type { ObjectKey } from './encryption/object-key.ts';
import { encryptedSize, encryptSegments } from './encryption/segments.ts';
import { queueGarbage } from './garbage.ts';
import { isOwned } from './ownership.ts';

type Ctx = Pick<Context, 'metadata' | 'bytes' | 'hasher' | 'cipher' | 'config' | 'telemetry'>;

export interface Content {
  readonly source: AsyncIterable<Uint8Array>;
  /** Undefined when the client did not tell. */
  readonly length: number | undefined;
  readonly claims: Claims;
}

export interface StoredBytes extends Omit<Digested, 'md5'> {
  readonly extent: Extent;
  /** The MD5 of the content, or what stands in for it. */
  readonly etag: string;
}

export interface ByteWrite {
  readonly cluster: string;
  readonly bucket: Pick<BucketRow, 'id' | 'shards'>;
  readonly owner: Owner;
  /** Absent: the content is stored as it comes. */
  readonly objectKey?: ObjectKey | undefined;
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/** The largest content of one PUT or one part (public API limits). */
export const contentMax = 5 * 1024 ** 3;

/**
 * Stores a content and gives it to `own`, which commits a row that owns it, or says that nobody will.
 * Whatever goes wrong, before or in that commit, the bytes end up owned or queued for deletion; where
 * even that cannot be told, the op stays open and the sweep decides when this process is gone.
 */
export async function storeBytes<T>(
  ctx: Ctx,
  content: Content,
  write: ByteWrite,
  own: (stored: StoredBytes, op: Op) => Promise<T>,
): Promise<T> {
  const op = await ctx.metadata.begin({ cluster: write.cluster });
  let extent: Extent = { cluster: write.cluster, id: op.id, size: unknownSize };
  try {
    const digests = digesting(ctx, content.source, { claims: content.claims, sizeMax: contentMax });
    const { objectKey } = write;
    const size =
      content.length !== undefined && objectKey !== undefined
        ? encryptedSize(content.length)
        : content.length;
    extent = await ctx.bytes.write(
      objectKey === undefined
        ? digests.content
        : encryptSegments(digests.content, await extentKey(ctx, objectKey, placeOf(write.owner, op.id))),
      {
        cluster: write.cluster,
        id: op.id,
        owner: write.owner,
        signal: write.signal,
        ...(size === undefined ? {} : { size }),
      },
    );
    const { md5, ...digested } = digests.finish();
    const etag = objectKey === undefined ? md5 : etagOf(ctx, objectKey, md5);
    const result = await own({ ...digested, extent, etag }, op);
    await ctx.metadata.end(op);
    return result;
  } catch (cause) {
    await giveUp(ctx, { op, extent, write });
    throw cause;
  }
}

/** Bars the op, looks whether its bytes found an owner all the same, and queues them if they did not. */
async function giveUp(
  ctx: Ctx,
  { op, extent, write }: { readonly op: Op; readonly extent: Extent; readonly write: ByteWrite },
): Promise<void> {
  try {
    await ctx.metadata.abort(op.id);
    const ownership = { shards: new Map([[write.bucket.id, write.bucket.shards]]), seen: new Set<string>() };
    if (!(await isOwned(ctx, ownership, { extent, owner: write.owner })))
      await queueUnowned(ctx, extent, write.requestId);
    await ctx.metadata.end(op);
  } catch (cause) {
    ctx.telemetry.log('WARN', 'the bytes of a failed write are left to the sweep', {
      request_id: write.requestId,
      op: op.id,
      cause,
    });
  }
}

/** Queues bytes that were stored and that no row will own: nobody reads them, so there is no grace. */
export async function queueUnowned(
  { metadata }: Pick<Ctx, 'metadata'>,
  extent: Extent,
  requestId: string,
): Promise<void> {
  if (extent.size === 0) return;
  await metadata.apply([queueGarbage([extent], { id: extent.id, requestId, due: await metadata.now() })]);
}
