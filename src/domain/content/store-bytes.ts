/** Stores a content under an op. Every stored byte ends up with an owner or in the deletion queue. */
import { Refusal } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Op } from '../../ports/metadata-store.ts';
import {
  type ClaimedDigests,
  type Extent,
  type FoundExtent,
  type Owner,
  unknownSize,
  type WriteOptions,
} from '../../ports/object-bytes.ts';
import { assertNotEmptied } from '../clusters/cluster-states.ts';
import { queueGarbage } from '../common/garbage.ts';
import { isOwned, ownershipIn } from '../common/ownership.ts';
import { type Claimed, type Digested, delegateHash, digesting, toMismatch } from './digests.ts';
import { deriveEtag, extentKey, extentPlace, type ObjectKey } from './extent-keys.ts';
import { encryptedSize, encryptSegments } from './segments.ts';

export type StoreCtx = Pick<
  Context,
  'metadata' | 'bytes' | 'clusterStates' | 'hasher' | 'cipher' | 'config' | 'telemetry'
>;

export interface Content extends Claimed {
  readonly source: AsyncIterable<Uint8Array>;
}

export interface StoredBytes extends Digested {
  readonly extent: Extent;
  /** The MD5 of the content, or the value that replaces it. */
  readonly etag: string;
}

export interface ByteWrite {
  readonly cluster: string;
  readonly bucket: Pick<BucketRow, 'id' | 'owner' | 'shards'>;
  readonly owner: Owner;
  readonly storageClass: string;
  /** Absent: the content is stored unencrypted. */
  readonly objectKey?: ObjectKey | undefined;
  /** Stores into an extent that already has an owner; the op then has no stored bytes to recover. */
  readonly into?: ((source: AsyncIterable<Uint8Array>, options: WriteOptions) => Promise<Extent>) | undefined;
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/** The largest content of one PUT or one part (public API limits). */
export const contentMax = 5 * 1024 ** 3;

/**
 * Stores a content and passes it to `own`, which commits a row that owns it, or reports that no row will own it.
 * After a failure, before or in that commit, the bytes end up owned or queued for deletion. Where even that is unknown,
 * the op stays open, and the sweeper decides after this process has ended.
 * @throws ServiceUnavailable when the cluster of the bytes was found empty after it was chosen
 */
export async function storeBytes<T>(
  ctx: StoreCtx,
  content: Content,
  write: ByteWrite,
  own: (stored: StoredBytes, op: Op) => Promise<T>,
): Promise<T> {
  const op = await ctx.metadata.begin({ cluster: write.cluster });
  let extent: Extent = { cluster: write.cluster, id: op.id, size: unknownSize };
  let claimed: ClaimedDigests | undefined;
  let isCommitting = false;
  try {
    if (ctx.bytes.verifies !== undefined)
      claimed = await delegateHash(ctx, content, {
        cluster: write.cluster,
        isEncrypted: write.objectKey !== undefined,
      });
    const { claims } = content;
    const digests = digesting(ctx, content.source, {
      claims,
      sizeMax: contentMax,
      length: content.length,
      isMd5Known: claimed !== undefined,
    });
    const { objectKey, into } = write;
    const size =
      content.length !== undefined && objectKey !== undefined
        ? encryptedSize(content.length)
        : content.length;
    const stored =
      objectKey === undefined
        ? digests.content
        : encryptSegments(digests.content, await extentKey(ctx, objectKey, extentPlace(write.owner, op.id)));
    const options: WriteOptions = {
      account: write.bucket.owner,
      cluster: write.cluster,
      id: op.id,
      owner: toOwner(write, size),
      storageClass: write.storageClass,
      signal: write.signal,
      claimed,
      confirm: objectKey === undefined ? digests.confirm : undefined,
      ...(size === undefined ? {} : { size }),
    };
    extent = await (into === undefined ? ctx.bytes.write(stored, options) : into(stored, options));
    const digested = digests.digested();
    const etag = objectKey === undefined ? digested.md5 : deriveEtag(ctx, objectKey, digested.md5);
    await assertNotEmptied(ctx, write.cluster);
    isCommitting = true;
    const result = await own({ ...digested, extent, etag }, op);
    await ctx.metadata.end(op);
    return result;
  } catch (cause) {
    const { bucket, owner, into, requestId } = write;
    const stored = into === undefined ? [{ extent, owner }] : [];
    await giveUp(ctx, { op, stored, bucket, requestId, failedCommit: isCommitting ? cause : undefined });
    throw toMismatch(cause, claimed);
  }
}

/** The owner record that is stored beside the bytes, from the facts that are known before they are stored. */
const toOwner = ({ owner, storageClass, objectKey }: ByteWrite, size: number | undefined): Owner => ({
  ...owner,
  ...(size === undefined ? {} : { size }),
  ...(storageClass === 'STANDARD' ? {} : { storageClass }),
  ...(objectKey && { encrypted: true }),
});

export interface FailedWrite extends Pick<ByteWrite, 'bucket' | 'requestId'> {
  readonly op: Op;
  /** Extents that may be stored under the op. */
  readonly stored: readonly FoundExtent[];
  /** What the commit failed by; undefined where none was sent. */
  readonly failedCommit?: unknown;
}

/** Whether a row may have named the bytes for a while. A refusal is decided before the commit, or after one that did not apply. */
const mayHaveApplied = (failedCommit: unknown): boolean =>
  failedCommit !== undefined && !(failedCommit instanceof Refusal);

/** Aborts the op, checks whether its bytes have an owner nevertheless, and queues them for deletion if not. */
export async function giveUp(
  ctx: Pick<StoreCtx, 'metadata' | 'telemetry' | 'config'>,
  { op, stored, bucket, requestId, failedCommit }: FailedWrite,
): Promise<void> {
  // A version that was committed, and removed since, may still be read.
  const graceMs = mayHaveApplied(failedCommit) ? ctx.config.SVC_GC_GRACE : 0;
  try {
    await ctx.metadata.abort(op.id);
    for (const found of stored) {
      if (!(await isOwned(ctx, ownershipIn(bucket), found)))
        await queueUnowned(ctx, found.extent, { requestId, graceMs });
    }
    await ctx.metadata.end(op);
  } catch (cause) {
    ctx.telemetry.log('WARN', 'the bytes of a failed write are left to the sweep', {
      request_id: requestId,
      op: op.id,
      cause,
    });
  }
}

/** Queues stored bytes that no row owns. @param graceMs for requests that may read them; absent: no row has ever named them */
export async function queueUnowned(
  { metadata }: Pick<StoreCtx, 'metadata'>,
  extent: Extent,
  { requestId, graceMs = 0 }: { readonly requestId: string; readonly graceMs?: number },
): Promise<void> {
  if (extent.size === 0) return;
  const due = (await metadata.now()) + graceMs;
  await metadata.apply([queueGarbage([extent], { id: extent.id, requestId, due })]);
}
