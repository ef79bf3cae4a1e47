/** Finishes or undoes an interrupted completion, and clears ended sessions. */
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { clearManifest } from '../../metadata/objects/objects.ts';
import {
  everyPart,
  findSession,
  isIndexed,
  replaceSession,
  type StoredSession,
  scanParts,
  unindexed,
  uploadAt,
} from '../../metadata/objects/uploads.ts';
import type { BucketRow, ObjectRow, UploadResult, UploadSession } from '../../metadata/tables.ts';
import type { SideChange } from '../../ports/metadata-store.ts';
import { queueGarbageAll, queueUpload } from '../common/garbage.ts';
import { findAmongVersions } from '../common/listed-versions.ts';
import { clearForwarded } from './forwarded-upload.ts';
import { freeParts, ownedParts } from './part-counts.ts';
import { rememberedMs, type Ctx as UploadCtx } from './upload-session.ts';

type Ctx = Pick<UploadCtx, 'metadata' | 'bytes' | 'clock'>;

/** Completes, reopens or clears a session, depending on its state. Idempotent, also across processes. */
export async function settleUpload(ctx: Ctx, uploadId: string): Promise<void> {
  const found = await findSession(ctx.metadata, uploadId);
  if (found === undefined || found.row.session.state === 'uploading') return;
  const { completing } = found.row.session;
  if (completing !== undefined) await resolveCompleting(ctx, uploadId, completing.op);
  else {
    await freeParts(ctx.metadata, found);
    await clearParts(ctx, found);
  }
}

/**
 * Ends a completion under `op` whose outcome is unknown: closes the op, then checks whether the object was committed. If it was, the
 * session is completed; if not, it takes parts again; if its bucket is gone, it is aborted.
 *
 * The object itself is no proof: it may have been overwritten since, and its bytes, which the parts name too, may be queued for
 * deletion. The commit of the object removes the session from the index, and that lasts.
 */
export async function resolveCompleting(ctx: Ctx, uploadId: string, op: string): Promise<void> {
  const found = await findSession(ctx.metadata, uploadId);
  if (found?.row.session.completing?.op !== op) return;
  await ctx.metadata.abort(op);
  const { completing: _, ...session } = found.row.session;
  const bucket = await findBucket(ctx.metadata, session.bucket);
  if (bucket?.row.id !== session.bucketId) {
    // The parts name all bytes that the manifest does.
    await clearManifest(ctx.metadata, op);
    const now = await ctx.metadata.now();
    await replaceSession(ctx.metadata, found, {
      session: { ...session, state: 'aborted' },
      then: [
        ...unindexed(uploadId, session),
        queueUpload(uploadId, { to: 'clear', requestId: found.row.requestId, due: now }),
      ],
    });
    return;
  }
  const committed = await findAmongVersions(ctx, bucket.row, session.key, (row) => row.uploadId === uploadId);
  if (committed !== undefined || !(await isIndexed(ctx.metadata, uploadId, session)))
    await finishCompleting(ctx, found, { result: committed && toResult(found, committed), counts: [] });
  else {
    await clearManifest(ctx.metadata, op);
    await replaceSession(ctx.metadata, found, { session: { ...session, state: 'uploading' } });
  }
}

/** The answer to a retry of a completion. */
export const toResult = (
  { row: { session } }: StoredSession,
  row: Pick<ObjectRow, 'version' | 'isNull' | 'etag' | 'checksum' | 'encryption'>,
): UploadResult => ({
  digest: session.completing?.digest ?? '',
  version: row.version,
  isNull: row.isNull,
  etag: row.etag,
  ...(row.checksum === undefined ? {} : { checksum: row.checksum }),
  ...(row.encryption === undefined ? {} : { encryption: row.encryption }),
});

/**
 * Ends the session: it is remembered for a while, and its part rows are cleared in the background.
 * @param result undefined when the object is gone already: then there is no answer to repeat
 * @param counts frees its parts, where no commit of an object has done so
 */
export async function finishCompleting(
  ctx: Ctx,
  found: StoredSession,
  { result, counts }: { readonly result: UploadResult | undefined; readonly counts: readonly SideChange[] },
): Promise<void> {
  const { uploadId, requestId } = found.row;
  const { completing: _, ...session } = found.row.session;
  const now = await ctx.metadata.now();
  const outcome = await replaceSession(ctx.metadata, found, {
    session: { ...session, state: 'completed', ...(result === undefined ? {} : { result }) },
    then: [
      ...unindexed(uploadId, session),
      ...counts,
      queueUpload(uploadId, { to: 'clear', requestId, due: now }),
    ],
  });
  // Refused, because gc or the sweeper settled the session first.
  if (!outcome.applied && result !== undefined) await addResult(ctx, uploadId, result);
}

/**
 * The gc worker that settled the session may have found the object overwritten, and so stored no result. The request that committed
 * the object is about to answer with the result: store it, so that a retry gets the same answer.
 */
async function addResult(ctx: Ctx, uploadId: string, result: UploadResult): Promise<void> {
  const found = await findSession(ctx.metadata, uploadId);
  if (found?.row.session.state !== 'completed' || found.row.session.result !== undefined) return;
  const now = await ctx.metadata.now();
  await replaceSession(ctx.metadata, found, {
    session: { ...found.row.session, result },
    // The clearing makes the session expire; this write has postponed that.
    then: [queueUpload(uploadId, { to: 'clear', requestId: found.row.requestId, due: now })],
  });
}

/** Rows that one commit removes, below the commit limit. */
const partsPerCommit = 48;
/** Attempts against other processes that clear the same session. */
const refusalsMax = 16;

/**
 * Removes the part rows of an ended session, and queues the bytes that no object owns. Only then the session gets an expiry,
 * because without its row the parts could not be found.
 */
async function clearParts(ctx: Ctx, { row }: StoredSession): Promise<void> {
  const { uploadId, session, requestId } = row;
  const bucket = await findSessionBucket(ctx, session);
  if (session.extentId !== undefined) await clearForwarded(ctx, row, bucket);
  const owned = await findOwned(ctx, row, bucket);
  let cleared = 0;
  for (let refusals = 0; refusals < refusalsMax; ) {
    const page = await scanParts(ctx.metadata, uploadId, cleared).next(partsPerCommit);
    if (page.length === 0) return forget(ctx, uploadId);
    const orphans = page.flatMap(({ row: { stored } }) =>
      stored === undefined || stored.receipt !== undefined || owned.has(stored.extent.id)
        ? []
        : [stored.extent],
    );
    const outcome = await ctx.metadata.commit(
      uploadAt(uploadId),
      page.map(({ row, revision }) => ({ remove: { part: row.part }, expect: revision })),
      { then: queueGarbageAll(orphans, { id: uploadId, requestId, due: await ctx.metadata.now() }) },
    );
    // Another process clears the same session, but may not live to end it.
    if (outcome.applied) cleared = page.at(-1)?.row.part ?? cleared;
    else refusals += 1;
    // A session has up to 10,000 parts: yield to the event loop, so that requests need not wait for all of them.
    await ctx.clock.sleep(0);
  }
  throw new Error(`the parts of upload ${uploadId} are being cleared by others`);
}

/** The extents of a session's parts that an object took over. */
async function findOwned(
  ctx: Ctx,
  { uploadId, session }: StoredSession['row'],
  bucket: BucketRow | undefined,
): Promise<ReadonlySet<string>> {
  const extentIds = new Set<string>();
  // Only an upload that was never committed, or whose bucket was deleted, is discarded.
  if (session.state !== 'completed' || session.extentId !== undefined || bucket === undefined)
    return extentIds;
  for await (const { stored } of everyPart(ctx.metadata, uploadId)) extentIds.add(stored.extent.id);
  return ownedParts(ctx, { bucket, key: session.key, uploadId }, extentIds);
}

/** Undefined when the bucket was deleted, also if a new bucket has the same name. */
async function findSessionBucket({ metadata }: Ctx, session: UploadSession): Promise<BucketRow | undefined> {
  const found = await findBucket(metadata, session.bucket);
  return found?.row.id === session.bucketId ? found.row : undefined;
}

async function forget(ctx: Ctx, uploadId: string): Promise<void> {
  const found = await findSession(ctx.metadata, uploadId);
  if (found === undefined) return;
  const expiresAt = (await ctx.metadata.now()) + rememberedMs;
  await replaceSession(ctx.metadata, found, { session: found.row.session, expiresAt });
}
