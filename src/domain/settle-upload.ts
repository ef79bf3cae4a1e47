/** Finishing or undoing a completion that was cut short, and clearing sessions that are over (design §7.11). */
import { findBucket } from '../metadata/buckets.ts';
import { clearManifest, findLiveHead, versionsOf } from '../metadata/objects.ts';
import type { BucketRow, ObjectRow, UploadResult } from '../metadata/tables.ts';
import {
  findSession,
  partsOf,
  replaceSession,
  type StoredSession,
  unindexed,
  uploadAt,
} from '../metadata/uploads.ts';
import { queueGarbageAll, queueUpload } from './garbage.ts';
import { isOwned } from './ownership.ts';
import { rememberedMs, type Ctx as UploadCtx } from './upload-session.ts';

type Ctx = Pick<UploadCtx, 'metadata'>;

/** Brings a session to rest, whatever state it was left in. Safe to repeat, and in several processes. */
export async function settleUpload(ctx: Ctx, uploadId: string): Promise<void> {
  const found = await findSession(ctx.metadata, uploadId);
  if (found === undefined || found.row.session.state === 'uploading') return;
  const { completing } = found.row.session;
  if (completing !== undefined) await resolveCompleting(ctx, uploadId, completing.op);
  else await clearParts(ctx, found);
}

/**
 * Ends a completion under `op` whose outcome nobody reports: bars the op, then looks whether the object was
 * committed. If it was, the session is completed; if not, it takes parts again; without its bucket it is aborted.
 */
export async function resolveCompleting(ctx: Ctx, uploadId: string, op: string): Promise<void> {
  const found = await findSession(ctx.metadata, uploadId);
  if (found?.row.session.completing?.op !== op) return;
  await ctx.metadata.abort(op);
  const { completing: _, ...session } = found.row.session;
  const bucket = await findBucket(ctx.metadata, session.bucket);
  if (bucket?.row.id !== session.bucketId) {
    const now = await ctx.metadata.now();
    await replaceSession(ctx.metadata, found, {
      session: { ...session, state: 'aborted' },
      expiresAt: now + rememberedMs,
      then: [
        unindexed(uploadId, session),
        queueUpload(uploadId, { requestId: found.row.requestId, due: now }),
      ],
    });
    return;
  }
  const committed = await findByUpload(ctx, bucket.row, { key: session.key, uploadId });
  if (committed !== undefined) await finishCompleting(ctx, found, committed);
  else {
    await clearManifest(ctx.metadata, op);
    await replaceSession(ctx.metadata, found, { session: { ...session, state: 'uploading' } });
  }
}

/** The version that came from this session, wherever it stands among the versions of its key. */
async function findByUpload(
  { metadata }: Ctx,
  bucket: BucketRow,
  { key, uploadId }: { readonly key: string; readonly uploadId: string },
): Promise<ObjectRow | undefined> {
  const live = await findLiveHead(metadata, bucket, key);
  if (live?.row.uploadId === uploadId) return live.row;
  const history = versionsOf(metadata, bucket, key);
  for (let page = await history.next(100); page.length > 0; page = await history.next(100)) {
    const found = page.find(({ row }) => row.uploadId === uploadId);
    if (found !== undefined) return found.row;
  }
  // It may have moved from the history to the head while we looked.
  const again = await findLiveHead(metadata, bucket, key);
  return again?.row.uploadId === uploadId ? again.row : undefined;
}

/** The session is over: remembered for a while, its part rows are cleared in the background. */
export async function finishCompleting(
  ctx: Ctx,
  completing: StoredSession,
  row: ObjectRow,
): Promise<UploadResult> {
  const { uploadId, requestId } = completing.row;
  const { completing: done, ...session } = completing.row.session;
  const result: UploadResult = {
    digest: done?.digest ?? '',
    version: row.version,
    isNull: row.isNull,
    etag: row.etag,
    ...(row.checksum === undefined ? {} : { checksum: row.checksum }),
  };
  const now = await ctx.metadata.now();
  // Refused only when somebody else settled it meanwhile, and they saw the same object.
  await replaceSession(ctx.metadata, completing, {
    session: { ...session, state: 'completed', result },
    expiresAt: now + rememberedMs,
    then: [unindexed(uploadId, session), queueUpload(uploadId, { requestId, due: now })],
  });
  return result;
}

/** Rows that one commit removes, below the commit limit. */
const partsPerCommit = 48;

/** Removes the part rows of a session that is over; bytes that no object took over are queued. */
async function clearParts(ctx: Ctx, { row: { uploadId, session, requestId } }: StoredSession): Promise<void> {
  const bucket = await findBucket(ctx.metadata, session.bucket);
  const shards = bucket?.row.id === session.bucketId ? [[session.bucketId, bucket.row.shards] as const] : [];
  const ownership = { shards: new Map(shards), seen: new Set<string>() };
  const parts = partsOf(ctx.metadata, uploadId);
  for (
    let page = await parts.next(partsPerCommit);
    page.length > 0;
    page = await parts.next(partsPerCommit)
  ) {
    const orphans = [];
    for (const { row } of page) {
      const { stored, part } = row;
      if (stored === undefined) continue;
      // Without the upload in the back-reference, only an object can own it.
      const owner = { bucketId: session.bucketId, key: session.key, part };
      if (!(await isOwned(ctx, ownership, { extent: stored.extent, owner }))) orphans.push(stored.extent);
    }
    const outcome = await ctx.metadata.commit(
      uploadAt(uploadId),
      page.map(({ row, revision }) => ({ remove: { part: row.part }, expect: revision })),
      { then: queueGarbageAll(orphans, { id: uploadId, requestId, due: await ctx.metadata.now() }) },
    );
    // Another process clears the same session: let it.
    if (!outcome.applied) return;
  }
}
