/** CompleteMultipartUpload: `uploading → completing → completed`, exactly once under retries and kills. */

import { fail } from '../../base/errors.ts';
import { clearManifest, findLiveHead, manifestRows } from '../../metadata/objects/objects.ts';
import type { ReplicaDocument } from '../../metadata/objects/properties.ts';
import {
  findSession,
  replaceSession,
  type StoredSession,
  unindexed,
} from '../../metadata/objects/uploads.ts';
import {
  type Manifest,
  type ManifestPart,
  manifestSegmentParts,
  type UploadResult,
  type UploadSession,
} from '../../metadata/tables.ts';
import type { Op } from '../../ports/metadata-store.ts';
import { type Extent, unknownSize } from '../../ports/object-bytes.ts';
import { parseCluster } from '../clusters/placement.ts';
import { queueUpload } from '../common/garbage.ts';
import type { Recorder } from '../common/recorder.ts';
import type { CustomerKey } from '../content/content-key.ts';
import { assertUploadKey } from '../content/object-key.ts';
import { assertMayDecrypt, type KeyUser } from '../content/provided-key.ts';
import { contentSize } from '../content/segments.ts';
import { queueUnowned } from '../content/store-bytes.ts';
import {
  assertDescribed,
  type CommittedReplica,
  commitReplica,
  type ReplicaEffects,
} from '../objects/commit-replica.ts';
import { type Conditions, checkWrite } from '../objects/conditions.ts';
import { commitObject, type ObjectCommit } from '../objects/write-object.ts';
import { reserveReplica } from '../objects/write-replica.ts';
import { reserveSize } from '../quotas/admit.ts';
import type { Freed } from '../quotas/amounts.ts';
import { assertNotExceeded, hasQuota, type Reservation, withReservation } from '../quotas/reservation.ts';
import { completeForwarded } from './forwarded-upload.ts';
import { partChanges } from './part-counts.ts';
import { type CheckedParts, checkParts, type ListedPart, type ObjectClaims } from './part-list.ts';
import { finishCompleting, resolveCompleting, toResult } from './settle-upload.ts';
import { type Ctx, noSuchUpload, openUpload, type UploadName } from './upload-session.ts';

export interface Completion {
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

export const completeUpload = (ctx: Ctx, completion: Completion): Promise<UploadResult> =>
  withReservation(ctx, (reservation) => completeReserved(ctx, completion, reservation));

async function completeReserved(
  ctx: Ctx,
  completion: Completion,
  reservation: Reservation,
): Promise<UploadResult> {
  const { name, parts, conditions, requestId } = completion;
  const found = await openUpload(ctx, name);
  const { session } = found.row;
  assertUploadKey(session.encryption, completion.customerKey);
  const digest = computeDigest(ctx, parts);
  const stored = storedResult(found, digest);
  if (stored !== undefined) return stored;

  await assertMayDecrypt(ctx, session.encryption, completion.user);
  if (conditions !== undefined)
    checkWrite(conditions, (await findLiveHead(ctx.metadata, name.bucket, name.key))?.row);
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
    const whole = await completeForwarded(ctx, found.row, checked.forwarded);
    const manifest = await writeManifest(ctx, checked.parts, { op, session, whole });
    const { row, won, counts } = await commitContent(ctx, completion, {
      session,
      checked,
      manifest,
      op,
      reservation,
    });
    if (!won && 'manifestId' in manifest) await clearManifest(ctx.metadata, manifest.manifestId);
    if (!won && whole !== undefined) await queueUnowned(ctx, { ...whole, size: unknownSize }, requestId);
    const result = toResult(completing, row);
    await finishCompleting(ctx, completing, { result, counts: won ? [] : counts });
    await ctx.metadata.end(op);
    return result;
  } catch (cause) {
    // The outcome is unknown: the rows show it, and the sweeper asks again if this process cannot.
    await resolveCompleting(ctx, name.uploadId, op.id)
      .then(() => dropUncommitted(ctx, op, completion.name))
      .then(() => ctx.metadata.end(op))
      .catch((fault: unknown) => {
        ctx.telemetry.log('WARN', 'a failed completion is left to the sweep', {
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
  ctx: Ctx,
  completion: Completion,
  { session, checked, manifest, op, reservation }: CompletedContent,
) {
  const { uploadId } = completion.name;
  const { encryption, replica } = session;
  const { freed, size, etag, checksum } = checked;
  const content = {
    manifest,
    size,
    etag,
    uploadId,
    ...(checksum === undefined ? {} : { checksum }),
    ...(encryption === undefined ? {} : { encryption }),
  };
  const counts = partChanges({ bucketId: session.bucketId, uploadId }, { freed });
  // The proof that the object was committed.
  const then = [...unindexed(uploadId, session), ...counts];
  const commit = { op, content, then, reservation, freed };
  const { row, won } =
    replica === undefined
      ? await commitObject(ctx, toNewObject(completion, session), commit)
      : await completeReplica(ctx, { session, replica, completion }, commit);
  return { row, won, counts };
}

/** Commits a replicated version, whose parts must make the content that its document describes. */
function completeReplica(
  ctx: Ctx,
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
    ...(encryption === undefined ? {} : { encryption }),
    ...(uploadId === undefined ? {} : { uploadId }),
    ...(content.etag === document.etag ? {} : { etagUnverified: true as const }),
  };
  const { acl, owner } = session;
  const assertMay = (effects: ReplicaEffects) => assertMayReplicate(document, effects);
  const replica = { bucket, key, document, owner, acl, assertMay, record, requestId };
  return commitReplica(ctx, replica, { op, then, content: owned, reservation, freed });
}

const toNewObject = (
  { name, conditions, record, requestId, signal }: Completion,
  session: StoredSession['row']['session'],
) => ({
  bucket: name.bucket,
  key: name.key,
  storageClass: session.storageClass,
  headers: session.headers,
  acl: session.acl,
  lock: session.lock,
  owner: session.owner,
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
async function resultOfOther(ctx: Ctx, name: UploadName, digest: string): Promise<UploadResult> {
  const stored = storedResult(await openUpload(ctx, name), digest);
  // The session takes parts again: a part was uploaded in between, or the other completion was undone.
  if (stored === undefined) throw underWay(name.uploadId);
  return stored;
}

/** Stops the session from taking parts; of concurrent completions one succeeds. Undefined when another one did. */
async function moveToCompleting(
  ctx: Ctx,
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
  ctx: Ctx,
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
async function dropUncommitted(ctx: Ctx, op: Op, { uploadId }: UploadName): Promise<void> {
  const found = await findSession(ctx.metadata, uploadId);
  if (found !== undefined && found.row.session.state !== 'completed')
    await clearManifest(ctx.metadata, op.id);
}

const computeDigest = (ctx: Ctx, parts: readonly ListedPart[]): string =>
  ctx.hasher.sha256Hex(parts.map(({ number, etag }) => `${number}:${etag}`).join('\n'));
