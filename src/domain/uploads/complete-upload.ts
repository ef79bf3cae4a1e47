/**
 * CompleteMultipartUpload: `uploading → completing → completed`, exactly once under retries and kills; and what
 * finishes or undoes one that was cut short.
 */
import { fail } from '../../base/errors.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import { clearManifest, manifestRows } from '../../metadata/objects/objects.ts';
import type { ReplicaDocument } from '../../metadata/objects/properties.ts';
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
import type { UploadStep } from '../../metadata/records/queues.ts';
import {
  type BucketRow,
  checkColumns,
  type Manifest,
  type ManifestPart,
  manifestSegmentParts,
  type ObjectRow,
  type UploadResult,
  type UploadSession,
} from '../../metadata/tables.ts';
import type { Op, SideChange } from '../../ports/metadata-store.ts';
import { type Extent, unknownSize } from '../../ports/object-bytes.ts';
import { parseCluster } from '../clusters/placement.ts';
import { queueGarbageAll, queueUpload } from '../common/garbage.ts';
import type { Recorder } from '../common/recorder.ts';
import { findAmongVersions } from '../common/version-search.ts';
import type { CustomerKey } from '../content/extent-keys.ts';
import { assertMayDecrypt, type KeyUser } from '../content/provider-key.ts';
import { contentSize } from '../content/segments.ts';
import { queueUnowned } from '../content/store-bytes.ts';
import { assertUploadKey } from '../content/wrapped-key.ts';
import {
  assertDescribed,
  type CommittedReplica,
  commitReplica,
  type ReplicaEffects,
} from '../objects/commit-replica.ts';
import type { Conditions } from '../objects/conditions.ts';
import { checkEarly, commitObject, type ObjectCommit } from '../objects/write-object.ts';
import { reserveReplica } from '../objects/write-replica.ts';
import { reserveSize } from '../quotas/admit.ts';
import type { Freed } from '../quotas/amounts.ts';
import { assertNotExceeded, hasQuota, type Reservation, withReservation } from '../quotas/reservation.ts';
import { freeParts, ownedParts, partChanges } from './part-counts.ts';
import { type CheckedParts, checkParts, type ListedPart, type ObjectClaims } from './part-list.ts';
import {
  type ClearCtx,
  clearForwarded,
  completeForwarded,
  noSuchUpload,
  openUpload,
  rememberedMs,
  type UploadCtx,
  type UploadName,
} from './upload-session.ts';

interface Completion {
  readonly name: UploadName;
  readonly parts: readonly ListedPart[];
  readonly claims: ObjectClaims;
  readonly conditions: Conditions | undefined;
  readonly user: KeyUser;
  /** Optional, as with the public API: the parts are not read. */
  readonly customerKey?: CustomerKey | undefined;
  /** For the upload of a replica. @throws AccessDenied unless the caller may have these effects */
  readonly assertMayReplicate: (document: ReplicaDocument, effects: ReplicaEffects) => Promise<void>;
  readonly record?: Recorder | undefined;
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/** With more parts than this the manifest is stored in separate rows. The limit is lower when other fields fill the object's row. */
function inlinePartsMax({ acl, encryption }: UploadSession): number {
  if (encryption?.by === 'provider') return 4;
  return acl === undefined ? 32 : 16;
}

/** The size is absent where an earlier request had completed the upload. */
export interface CompletedUpload extends UploadResult {
  readonly size?: number;
}

export const completeUpload = (ctx: UploadCtx, completion: Completion): Promise<CompletedUpload> =>
  withReservation(ctx, (reservation) => completeReserved(ctx, completion, reservation));

async function completeReserved(
  ctx: UploadCtx,
  completion: Completion,
  reservation: Reservation,
): Promise<CompletedUpload> {
  const { name, parts, requestId } = completion;
  const found = await openUpload(ctx, name);
  const { session } = found.row;
  assertUploadKey(session.encryption, completion.customerKey);
  const digest = computeDigest(ctx, parts);
  const stored = storedResult(found, digest);
  if (stored !== undefined) return stored;

  await assertMayDecrypt(ctx, session.encryption, completion.user);
  const conditions = completion.conditions && (await checkEarly(ctx, name, completion.conditions));
  const { size, freed } = await checkParts(ctx, found, completion);
  if (session.replica !== undefined)
    await reserveReplica(ctx, { ...name, document: session.replica, freed }, reservation);
  else if (hasQuota(name.bucket)) await reserveSize(ctx, { ...name, freed }, { size, reservation });
  const op = await ctx.metadata.begin({ cluster: parseCluster(session) });
  try {
    const completing = await moveToCompleting(ctx, found, { op, requestId, digest });
    if (completing === undefined) {
      await ctx.metadata.end(op);
      return await resultOfOther(ctx, name, digest);
    }
    // Check again, now that no part can change: a part that was replaced since the first check is garbage by now.
    const checked = await checkParts(ctx, found, completion);
    await assertNotExceeded(ctx, name.bucket);
    const forwarded = { parts: checked.forwarded, account: name.bucket.owner, digest };
    const whole = await completeForwarded(ctx, found.row, forwarded);
    const manifest = await writeManifest(ctx, checked.parts, { op, session, whole });
    const { row, won, counts } = await commitContent(
      ctx,
      { ...completion, conditions },
      {
        session,
        checked,
        manifest,
        op,
        reservation,
      },
    );
    if (!won && 'manifestId' in manifest) await clearManifest(ctx.metadata, manifest.manifestId);
    if (!won && whole !== undefined) await queueUnowned(ctx, { ...whole, size: unknownSize }, { requestId });
    const result = toResult(completing, row);
    await finishCompleting(ctx, completing, { result, counts: won ? [] : counts });
    await ctx.metadata.end(op);
    return { ...result, size: row.size };
  } catch (cause) {
    // The outcome is unknown: the rows show it, and gc settles it if this process cannot.
    await resolveCompleting(ctx, name.uploadId, op.id)
      .then(() => dropUncommitted(ctx, op, completion.name))
      .then(() => ctx.metadata.end(op))
      .catch((fault: unknown) => {
        ctx.telemetry.log('WARN', 'a failed completion is left to gc', {
          request_id: requestId,
          cause: fault,
        });
      });
    throw cause;
  }
}

/** What the commit of a completed upload is made of. */
interface CompletedContent {
  readonly session: UploadSession;
  readonly checked: CheckedParts;
  readonly manifest: Manifest;
  readonly op: Op;
  readonly reservation: Reservation;
}

/** Commits the object. The same commit takes the upload out of the list, and frees its parts, which count as the object from then on. */
async function commitContent(
  ctx: UploadCtx,
  completion: Completion,
  { session, checked, manifest, op, reservation }: CompletedContent,
) {
  const { uploadId } = completion.name;
  const { encryption, ...described } = takenFrom(session);
  const { replica } = session;
  const { freed, size, etag, checksum } = checked;
  const content = {
    manifest,
    size,
    etag,
    uploadId,
    ...(checksum && { checksum }),
    ...(encryption && { encryption }),
  };
  const counts = partChanges({ bucketId: session.bucketId, uploadId }, { freed });
  // The proof that the object was committed.
  const then = [...unindexed(uploadId, session), ...counts];
  const commit = { op, content, then, reservation, freed };
  const { row, won } =
    replica === undefined
      ? await commitObject(ctx, toNewObject(completion, described), commit)
      : await completeReplica(ctx, { session, replica, completion }, commit);
  return { row, won, counts };
}

/** Commits a replicated version, whose parts must make the content that its document describes. */
function completeReplica(
  ctx: UploadCtx,
  {
    session,
    replica: document,
    completion: { name, record, requestId, assertMayReplicate },
  }: {
    readonly session: UploadSession;
    readonly replica: ReplicaDocument;
    readonly completion: Completion;
  },
  {
    op,
    content,
    then,
    reservation,
    freed,
  }: Pick<Required<ObjectCommit>, 'op' | 'content' | 'then'> & {
    readonly reservation: Reservation;
    readonly freed: Freed;
  },
): Promise<CommittedReplica> {
  assertDescribed(document, content);
  const { bucket, key } = name;
  const { manifest, encryption, uploadId } = content;
  const owned = {
    manifest,
    ...(encryption && { encryption }),
    ...(uploadId === undefined ? {} : { uploadId }),
    ...(content.etag === document.etag ? {} : { etagUnverified: true as const }),
  };
  const { acl, owner } = session;
  const assertMay = (effects: ReplicaEffects) => assertMayReplicate(document, effects);
  const replica = { bucket, key, document, owner, acl, assertMay, record, requestId };
  return commitReplica(ctx, replica, { op, then, content: owned, reservation, freed });
}

/** What CreateMultipartUpload said of the object. */
const takenFrom = ({ storageClass, headers, acl, lock, owner, encryption }: UploadSession) =>
  checkColumns('session', { storageClass, headers, acl, lock, owner, encryption });

const toNewObject = (
  { name, conditions, record, requestId, signal }: Completion,
  described: Omit<ReturnType<typeof takenFrom>, 'encryption'>,
) => ({
  bucket: name.bucket,
  key: name.key,
  ...described,
  record,
  conditions,
  requestId,
  signal,
});

/**
 * The result of a completion of the same parts, if it is over; undefined for a session that takes parts.
 * @throws NoSuchUpload for a session in any other state
 */
function storedResult(
  { row: { uploadId, session } }: StoredSession,
  digest: string,
): UploadResult | undefined {
  if (session.state === 'uploading') return undefined;
  if (session.state === 'completed' && session.result?.digest === digest) return session.result;
  if (session.state === 'completing' && session.completing?.digest === digest) throw underWay(uploadId);
  throw noSuchUpload(uploadId);
}

/** The error code is the specification's. The other completion continues if the client gives up. */
const underWay = (uploadId: string) =>
  fail('NoSuchUpload', {
    message:
      'Another CompleteMultipartUpload request of the same parts is at work on this upload. Send the request again: once that one is over, the answer is its result.',
    elements: { UploadId: uploadId },
  });

/** The result of the completion that was faster, if it has ended. */
async function resultOfOther(ctx: UploadCtx, name: UploadName, digest: string): Promise<UploadResult> {
  const stored = storedResult(await openUpload(ctx, name), digest);
  // The session takes parts again: a part was uploaded in between, or the other completion was undone.
  if (stored === undefined) throw underWay(name.uploadId);
  return stored;
}

/** Stops the session from taking parts; of concurrent completions one succeeds. Undefined when another one did. */
async function moveToCompleting(
  ctx: UploadCtx,
  found: StoredSession,
  { op, requestId, digest }: { readonly op: Op; readonly requestId: string; readonly digest: string },
): Promise<StoredSession | undefined> {
  const now = await ctx.metadata.now();
  const session = { ...found.row.session, state: 'completing' as const, completing: { op: op.id, digest } };
  const outcome = await replaceSession(ctx.metadata, found, {
    session,
    then: [
      queueUpload(found.row.uploadId, { to: 'settle', requestId, due: now + ctx.config.SVC_INTENT_TTL }),
    ],
  });
  if (!outcome.applied) return undefined;
  return { row: { ...found.row, session }, revision: outcome.revision };
}

/** Rows that one `apply` writes: each is a few KiB. */
const rowsPerApply = 4;

async function writeManifest(
  ctx: UploadCtx,
  listed: readonly ManifestPart[],
  {
    op,
    session,
    whole,
  }: { readonly op: Op; readonly session: UploadSession; readonly whole: Extent | undefined },
): Promise<Manifest> {
  const parts = whole === undefined ? listed : withOffsets(listed);
  const together = whole === undefined ? {} : { whole };
  if (parts.length <= inlinePartsMax(session)) return { parts, ...together };
  const rows = manifestRows(op.id, parts);
  for (let first = 0; first < rows.length; first += rowsPerApply) {
    await ctx.metadata.apply(rows.slice(first, first + rowsPerApply));
  }
  const offsets: number[] = [];
  let offset = 0;
  for (const [i, part] of parts.entries()) {
    if (i % manifestSegmentParts === 0) offsets.push(offset);
    offset += contentSize(part.extent, session.encryption);
  }
  return { manifestId: op.id, partCount: parts.length, offsets, ...together };
}

function withOffsets(parts: readonly ManifestPart[]): readonly ManifestPart[] {
  let offset = 0;
  return parts.map((part) => {
    const placed = { ...part, offset };
    offset += part.extent.size;
    return placed;
  });
}

/**
 * Removes the rows of a manifest that no object refers to. Another process may have settled the session while they were written;
 * only a completed session needs them.
 */
async function dropUncommitted(ctx: UploadCtx, op: Op, { uploadId }: UploadName): Promise<void> {
  const found = await findSession(ctx.metadata, uploadId);
  if (found !== undefined && found.row.session.state !== 'completed')
    await clearManifest(ctx.metadata, op.id);
}

const computeDigest = (ctx: UploadCtx, parts: readonly ListedPart[]): string =>
  ctx.hasher.sha256Hex(parts.map(({ number, etag }) => `${number}:${etag}`).join('\n'));

// Finishes or undoes an interrupted completion, and clears ended sessions.

/**
 * Completes, reopens or clears a session, depending on its state. Idempotent, also across processes.
 * @param step `settle` clears nothing: the commit that ended the session has queued its clearing for the time from which the bytes may go
 */
export async function settleUpload(ctx: ClearCtx, uploadId: string, step?: UploadStep): Promise<void> {
  const found = await findSession(ctx.metadata, uploadId);
  if (found === undefined || found.row.session.state === 'uploading') return;
  const { completing } = found.row.session;
  if (completing !== undefined) await resolveCompleting(ctx, uploadId, completing.op);
  else if (step !== 'settle') {
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
async function resolveCompleting(ctx: ClearCtx, uploadId: string, op: string): Promise<void> {
  const found = await findSession(ctx.metadata, uploadId);
  if (found?.row.session.completing?.op !== op) return;
  await ctx.metadata.abort(op);
  const { completing, ...session } = found.row.session;
  const { triedDigest = completing.digest } = session;
  // The store may have assembled the parts.
  const isSame = triedDigest === completing.digest;
  const tried = session.extentId === undefined ? {} : { triedDigest: isSame ? triedDigest : '' };
  const bucket = await findBucket(ctx.metadata, session.bucket);
  if (bucket?.row.id !== session.bucketId) {
    // The parts name all bytes that the manifest does.
    await clearManifest(ctx.metadata, op);
    // The object may have been committed and removed before its bucket was, and requests may still read it.
    const due = (await ctx.metadata.now()) + ctx.config.SVC_GC_GRACE;
    await replaceSession(ctx.metadata, found, {
      session: { ...session, state: 'aborted' },
      then: [
        ...unindexed(uploadId, session),
        queueUpload(uploadId, { to: 'clear', requestId: found.row.requestId, due }),
      ],
    });
    return;
  }
  const committed = await findAmongVersions(ctx, bucket.row, session.key, (row) => row.uploadId === uploadId);
  if (committed !== undefined || !(await isIndexed(ctx.metadata, uploadId, session)))
    await finishCompleting(ctx, found, { result: committed && toResult(found, committed), counts: [] });
  else {
    await clearManifest(ctx.metadata, op);
    await replaceSession(ctx.metadata, found, { session: { ...session, ...tried, state: 'uploading' } });
  }
}

/** The answer to a retry of a completion. */
const toResult = (
  { row: { session } }: StoredSession,
  row: Pick<ObjectRow, 'version' | 'isNull' | 'etag' | 'checksum' | 'encryption'>,
): UploadResult => ({
  digest: session.completing?.digest ?? '',
  version: row.version,
  isNull: row.isNull,
  etag: row.etag,
  ...(row.checksum === undefined ? {} : { checksum: row.checksum }),
  ...(row.encryption && { encryption: row.encryption }),
});

/**
 * Ends the session: it is remembered for a while, and its part rows are cleared in the background.
 * @param result undefined when the object is gone already: then there is no answer to repeat
 * @param counts frees its parts, where no commit of an object has done so
 */
async function finishCompleting(
  ctx: ClearCtx,
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
  // Refused, because gc settled the session first.
  if (!outcome.applied && result !== undefined) await addResult(ctx, uploadId, result);
}

/**
 * The gc worker that settled the session may have found the object overwritten, and so stored no result. The request that committed
 * the object is about to answer with the result: store it, so that a retry gets the same answer.
 */
async function addResult(ctx: ClearCtx, uploadId: string, result: UploadResult): Promise<void> {
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
async function clearParts(ctx: ClearCtx, { row }: StoredSession): Promise<void> {
  const { uploadId, session, requestId } = row;
  const bucket = await findSessionBucket(ctx, session);
  // The object of a completed upload may have been removed a moment ago, and requests may still read it.
  const graceMs = session.state === 'completed' ? ctx.config.SVC_GC_GRACE : 0;
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
    const due = (await ctx.metadata.now()) + graceMs;
    const outcome = await ctx.metadata.commit(
      uploadAt(uploadId),
      page.map(({ row, revision }) => ({ remove: { part: row.part }, expect: revision })),
      { then: queueGarbageAll(orphans, { id: uploadId, requestId, due }) },
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
  ctx: ClearCtx,
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
async function findSessionBucket(
  { metadata }: ClearCtx,
  session: UploadSession,
): Promise<BucketRow | undefined> {
  const found = await findBucket(metadata, session.bucket);
  return found?.row.id === session.bucketId ? found.row : undefined;
}

async function forget(ctx: ClearCtx, uploadId: string): Promise<void> {
  const found = await findSession(ctx.metadata, uploadId);
  if (found === undefined) return;
  const expiresAt = (await ctx.metadata.now()) + rememberedMs;
  await replaceSession(ctx.metadata, found, { session: found.row.session, expiresAt });
}
