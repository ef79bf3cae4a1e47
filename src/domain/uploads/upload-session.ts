/** Sessions of multipart uploads: opened, found, aborted; and the parts that they take. */
import { fail, Refusal } from '../../base/errors.ts';
import { MultiKeyMutex } from '../../base/mutex.ts';
import type { Context } from '../../context.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import {
  findSession,
  findSessionPart,
  indexed,
  replaceSession,
  type StoredSession,
  uploadAt,
  uploadsIn,
} from '../../metadata/objects/uploads.ts';
import { soundPages } from '../../metadata/sound-rows.ts';
import type {
  BucketRow,
  CountedPart,
  ObjectHeaders,
  UploadPart,
  UploadSession,
} from '../../metadata/tables.ts';
import type { MetadataDamaged, Op } from '../../ports/metadata-store.ts';
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
import { parseCluster, placeWrite } from '../clusters/placement.ts';
import { refreshBucket } from '../common/buckets.ts';
import { unlessDamaged } from '../common/damaged-buckets.ts';
import { queueGarbage, queueUpload } from '../common/garbage.ts';
import { drawVersion, isUploadId } from '../common/ids.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import type { ObjectKey } from '../content/extent-keys.ts';
import { contentSize } from '../content/segments.ts';
import {
  type ByteWrite,
  type Content,
  giveUp,
  queueUnowned,
  type StoreCtx,
  storeBytes,
} from '../content/store-bytes.ts';
import { checkSecond } from '../objects/conditions.ts';
import { admit } from '../quotas/admit.ts';
import { freedBy } from '../quotas/amounts.ts';
import { hasQuota, type Reservation, withPartReservation } from '../quotas/reservation.ts';
import { freeParts, lockedBy, ownedParts, partChanges } from './part-counts.ts';

export type UploadCtx = Pick<
  Context,
  | 'caches'
  | 'metadata'
  | 'bytes'
  | 'clusterStates'
  | 'hasher'
  | 'cipher'
  | 'config'
  | 'telemetry'
  | 'clock'
  | 'random'
>;

/** How long the row of an ended session is kept, so that a retry gets the same answer. */
export const rememberedMs = 7 * 24 * 60 * 60 * 1000;

interface NewUpload
  extends Pick<
    UploadSession,
    | 'key'
    | 'storageClass'
    | 'acl'
    | 'lock'
    | 'encryption'
    | 'owner'
    | 'initiator'
    | 'checksumAlgorithm'
    | 'checksumType'
    | 'begunAs'
    | 'replica'
  > {
  readonly bucket: BucketRow;
  readonly headers: ObjectHeaders;
  readonly record?: Recorder | undefined;
  readonly requestId: string;
}

export async function createUpload(
  ctx: UploadCtx,
  requested: NewUpload,
): Promise<{ uploadId: string; session: UploadSession }> {
  const { bucket, requestId } = requested;
  if (bucket.closedAt !== 0)
    throw fail('OperationAborted', 'The bucket is being deleted by another request. Please try again.');
  const uploadId = drawVersion(ctx);
  const cluster = await placeWrite(ctx, requested, uploadId);
  const { key, storageClass } = requested;
  if (ctx.bytes.uploads === undefined) {
    const backendUploadId = formatHandle({ cluster, bucket: bucket.name, key, uploadId });
    return insertSession(ctx, requested, { uploadId, backendUploadId });
  }
  const encrypted = requested.encryption === undefined ? {} : { encrypted: true as const };
  const owner = { bucketId: bucket.id, key, uploadId, storageClass, ...encrypted };
  return beginForwarded(ctx, { cluster, bucket, owner, requestId }, ({ upload, extentId, op }) =>
    insertSession(ctx, requested, { uploadId, backendUploadId: formatHandle(upload), extentId, op }),
  );
}

interface NewSession extends Pick<UploadSession, 'backendUploadId' | 'extentId'> {
  readonly uploadId: string;
  readonly op?: Op;
}

async function insertSession(
  ctx: UploadCtx,
  { bucket, record, requestId, ...described }: NewUpload,
  { uploadId, op, ...forwarded }: NewSession,
): Promise<{ uploadId: string; session: UploadSession }> {
  const session: UploadSession = {
    ...described,
    ...forwarded,
    bucketId: bucket.id,
    bucket: bucket.name,
    state: 'uploading',
    initiated: ctx.clock.now(),
  };
  const outcome = await ctx.metadata.commit(
    uploadAt(uploadId),
    [{ put: { uploadId, part: 0, session, requestId }, expect: 'absent' }],
    {
      ...(op === undefined ? {} : { op }),
      then: [...indexed(uploadId, session), ...(await recorded(record))],
    },
  );
  if (!outcome.applied) {
    if (outcome.because === 'abandoned')
      throw fail('ServiceUnavailable', 'The request took too long and was given up. Please retry.');
    throw new Error(`upload id ${uploadId} was drawn twice`);
  }
  record?.applied();
  // Check the bucket again: a DeleteBucket that did not see this upload closed the bucket before it listed the uploads.
  const now = await findBucket(ctx.metadata, bucket.name);
  if (now?.row.id === bucket.id && now.row.closedAt === 0) return { uploadId, session };
  await abortSession(
    ctx,
    { row: { uploadId, part: 0, session, requestId }, revision: outcome.revision },
    { requestId },
  );
  if (now?.row.id === bucket.id) throw fail('OperationAborted');
  throw fail('NoSuchBucket', { elements: { BucketName: bucket.name } });
}

export interface UploadName {
  readonly bucket: BucketRow;
  readonly key: string;
  readonly uploadId: string;
}

/** The session with this id, in any state. @throws NoSuchUpload for an unknown id, or one of another key */
export async function openUpload(
  ctx: Pick<UploadCtx, 'metadata'>,
  { bucket, key, uploadId }: UploadName,
): Promise<StoredSession> {
  const found = isUploadId(uploadId) ? await findSession(ctx.metadata, uploadId) : undefined;
  if (found === undefined || found.row.session.bucketId !== bucket.id || found.row.session.key !== key)
    throw noSuchUpload(uploadId);
  return found;
}

/** The session, which must still take parts. */
export async function openUploading(
  ctx: Pick<UploadCtx, 'metadata'>,
  name: UploadName,
): Promise<StoredSession> {
  const found = await openUpload(ctx, name);
  if (found.row.session.state !== 'uploading') throw noSuchUpload(name.uploadId);
  return found;
}

export const noSuchUpload = (uploadId: string) => fail('NoSuchUpload', { elements: { UploadId: uploadId } });

/** Aborts: idempotent, also for a session that was aborted before. The parts go to the deletion queue. */
export async function abortUpload(
  ctx: UploadCtx,
  name: UploadName,
  { ifInitiatedAt, ...asked }: AbortRequest,
): Promise<void> {
  try {
    const found = await openUpload(ctx, name);
    const { state, initiated } = found.row.session;
    if (state === 'uploading') checkSecond('If-Match-Initiated-Time', initiated, ifInitiatedAt);
    await abortSession(ctx, found, asked);
  } catch (cause) {
    // With the condition, an upload that does not exist is answered like one that was aborted (public API).
    if (ifInitiatedAt === undefined || !(cause instanceof Refusal) || cause.code !== 'NoSuchUpload')
      throw cause;
  }
}

interface AbortRequest {
  /** The second in which the upload must have begun. */
  readonly ifInitiatedAt?: number;
  readonly record?: Recorder | undefined;
  readonly requestId: string;
}

export async function abortSession(
  ctx: Pick<UploadCtx, 'metadata'>,
  found: StoredSession,
  { record, requestId }: AbortRequest,
): Promise<void> {
  const { uploadId, session } = found.row;
  if (session.state === 'aborted') return freeParts(ctx.metadata, found);
  if (session.state !== 'uploading') throw noSuchUpload(uploadId);
  const now = await ctx.metadata.now();
  const outcome = await replaceSession(ctx.metadata, found, {
    session: { ...session, state: 'aborted' },
    then: [queueUpload(uploadId, { to: 'clear', requestId, due: now }), ...(await recorded(record))],
  });
  if (outcome.applied) {
    record?.applied();
    // Its parts can be counted now, because none is added any more. The list of open uploads has it until they are freed.
    const row = { ...found.row, session: { ...session, state: 'aborted' as const } };
    return freeParts(ctx.metadata, { row, revision: outcome.revision });
  }
  // Another request changed the session: if it was aborted, the result is the wanted one; anything else comes too late.
  const latest = await findSession(ctx.metadata, uploadId);
  if (latest?.row.session.state !== 'aborted') throw noSuchUpload(uploadId);
}

/**
 * Aborts the open uploads of a bucket that was deleted. A running completion is fenced, and settled later.
 * @param max a bucket may have millions: gc aborts the others
 * @returns how many were aborted; with `max` of them, others may be left
 * @throws MetadataDamaged at the end, where rows of some uploads cannot be read; the other uploads are aborted
 */
export async function abortUploadsIn(
  ctx: Pick<UploadCtx, 'metadata'>,
  bucketId: string,
  { requestId, max = 1_000 }: { readonly requestId: string; readonly max?: number },
): Promise<number> {
  let aborted = 0;
  const damaged: MetadataDamaged[] = [];
  const open = soundPages(ctx.metadata.scan(uploadsIn(bucketId)), 100, (each) => damaged.push(each));
  for await (const page of open) {
    for (const { row } of page) {
      if (aborted >= max) return aborted;
      const outcome = await unlessDamaged(() => abortOpen(ctx, row.uploadId, requestId));
      if (outcome instanceof Error) damaged.push(outcome);
      else if (outcome) aborted += 1;
    }
  }
  const [first] = damaged;
  if (first !== undefined) throw first;
  return aborted;
}

/** Whether it was open, and is aborted now. One that is being completed becomes an object, or gc settles it. */
export async function abortOpen(
  ctx: Pick<UploadCtx, 'metadata'>,
  uploadId: string,
  requestId: string,
): Promise<boolean> {
  const found = await findSession(ctx.metadata, uploadId);
  const state = found?.row.session.state;
  // The parts of an aborted upload that is still in the list are to be freed.
  if (found === undefined || (state !== 'uploading' && state !== 'aborted')) return false;
  return abortSession(ctx, found, { requestId }).then(
    () => true,
    (cause: unknown) => {
      if (cause instanceof Refusal) return false;
      throw cause;
    },
  );
}

// Parts. The commit of one requires that the session still takes parts.

/** Concurrent uploads of one part number before the client gets `SlowDown`. */
const attemptsMax = 16;

interface PartWrite {
  readonly name: UploadName;
  readonly part: number;
  readonly record?: Recorder | undefined;
  /** The object key of the session; absent when the upload is not encrypted. */
  readonly objectKey?: ObjectKey | undefined;
  readonly requestId: string;
  readonly signal: AbortSignal;
}

/**
 * Stores a part under its session; the same number again replaces it.
 * @param found the session as the caller read it; it is read again when the part is committed
 */
export const writePart = (
  ctx: UploadCtx,
  found: StoredSession,
  write: PartWrite,
  content: Content,
): Promise<UploadPart> => {
  const { bucket } = write.name;
  const { part, name } = write;
  return withPartReservation(ctx, async (reservation) => {
    const admitted = { bucket, part: { uploadId: name.uploadId, part } };
    const metered = hasQuota(bucket) ? await admit(ctx, admitted, { content, reservation }) : content;
    return writeAdmitted(ctx, found, { ...write, reservation }, metered);
  });
};

interface AdmittedPart extends PartWrite {
  readonly reservation: Reservation;
}

async function writeAdmitted(
  ctx: UploadCtx,
  found: StoredSession,
  write: AdmittedPart,
  content: Content,
): Promise<UploadPart> {
  const { session, uploadId } = found.row;
  const { part, objectKey, requestId, signal } = write;
  const { bucketId, key, storageClass } = session;
  const { version, isNull = false } = session.replica ?? {};
  const owner = { bucketId, key, ...(version === undefined || isNull ? {} : { version }), uploadId, part };
  const forwarded = parseForwardedUpload(session);
  let receipt: string | undefined;
  const into: ByteWrite['into'] =
    forwarded &&
    (async (source, { id, ...options }) => {
      const stored = await requireUploads(ctx).writePart(source, { ...options, upload: forwarded, part });
      receipt = stored.receipt;
      return { cluster: forwarded.cluster, id, size: stored.size };
    });
  const storing = storeBytes(
    ctx,
    content,
    {
      into,
      cluster: parseCluster(session),
      bucket: write.name.bucket,
      owner,
      storageClass,
      objectKey,
      requestId,
      signal,
    },
    async (stored, op) => {
      const uploaded: UploadPart = {
        extent: stored.extent,
        // The ETag of a replica follows from the MD5 of its parts, as at its source.
        etag: session.replica === undefined ? stored.etag : stored.md5,
        modified: ctx.clock.now(),
        ...(stored.checksum && { checksum: stored.checksum }),
        ...(receipt === undefined ? {} : { receipt }),
      };
      await commitPart(ctx, write, { uploaded, op });
      return uploaded;
    },
  );
  return forwarded === undefined
    ? storing
    : storing.catch((cause: unknown) => {
        throw toUploadRefusal(cause, uploadId);
      });
}

/** By upload and part. */
class PartsInTurn extends MultiKeyMutex {}

const commitPart = (
  ctx: UploadCtx,
  write: AdmittedPart,
  stored: { readonly uploaded: UploadPart; readonly op: Op },
): Promise<void> =>
  ctx.caches
    .of(PartsInTurn)
    .run([`${write.name.uploadId} ${write.part}`], () => commitInTurn(ctx, write, stored));

async function commitInTurn(
  ctx: UploadCtx,
  { name, part, record, requestId, reservation }: AdmittedPart,
  { uploaded, op }: { readonly uploaded: UploadPart; readonly op: Op },
): Promise<void> {
  const { uploadId } = name;
  // As it is now: the body may have arrived for long.
  const bucket = hasQuota(name.bucket) ? await refreshBucket(ctx, name.bucket) : name.bucket;
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const session = await openUploading(ctx, name);
    const former = await findSessionPart(ctx.metadata, uploadId, part);
    // A store that holds the parts has replaced it.
    const garbage = former?.row.stored?.receipt === undefined ? former?.row.stored?.extent : undefined;
    const due = (await ctx.metadata.now()) + ctx.config.SVC_GC_GRACE;
    const replaced = garbage === undefined ? [] : [queueGarbage([garbage], { id: op.id, requestId, due })];
    const counted = countPart(bucket, session.row.session, uploaded);
    const freed = freedBy(former?.row.stored === undefined ? [] : [former.row.stored]);
    const growth = { bytes: counted.bytes, objects: 0 };
    await reservation.cover(bucket, growth, freed);
    const counts = partChanges({ bucketId: bucket.id, uploadId }, { added: counted, freed });
    const stored = { ...uploaded, counted };
    const outcome = await ctx.metadata
      .commit(
        uploadAt(uploadId),
        [
          // The session row does not change while parts arrive: any move, to completing or aborted, refuses this.
          { check: { part: 0 }, expect: session.revision },
          { put: { uploadId, part, stored, requestId }, expect: former?.revision ?? 'absent' },
        ],
        { op, then: [...replaced, ...counts, ...(await recorded(record))] },
      )
      .catch((cause: unknown) => {
        reservation.doubt();
        throw cause;
      });
    if (outcome.applied) {
      reservation.applied(growth, freed);
      return record?.applied();
    }
    if (outcome.because === 'abandoned')
      throw fail('ServiceUnavailable', 'The upload took too long and was given up. Please retry.');
  }
  throw fail('SlowDown', 'Too many concurrent uploads of this part.');
}

// Uploads whose parts the byte store itself holds and assembles into one extent (an S3 upstream does). The extent belongs to the session
// from the beginning: its id ends with the session's id, which distinguishes an abandoned upload from one in progress.

type ForwardedCtx = Pick<UploadCtx, 'metadata' | 'bytes' | 'config'>;

/** What clears sessions. gc refuses to discard what lies on a cluster that did not answer. */
export type ClearCtx = Pick<UploadCtx, 'metadata' | 'clock' | 'config'> & {
  readonly bytes: { readonly uploads?: Pick<UploadBytes, 'discard'> | undefined };
};

/** The handle that binds a session to the cluster it began on. */
const formatHandle = ({ cluster, bucket, key, uploadId }: ForwardedUpload): string =>
  [cluster, bucket, key, uploadId].join('\0');

/** The upload in the store, for a session whose parts the store holds. */
function parseForwardedUpload({ extentId, backendUploadId }: UploadSession): ForwardedUpload | undefined {
  if (extentId === undefined) return undefined;
  const [cluster = '', bucket = '', key = '', uploadId = ''] = backendUploadId.split('\0');
  return { cluster, bucket, key, uploadId };
}

function requireUploads<T>({
  bytes: { uploads },
}: {
  readonly bytes: { readonly uploads?: T | undefined };
}): T {
  if (uploads === undefined)
    throw new Error('the parts of this upload lie in a store that is not configured');
  return uploads;
}

interface NewForwardedUpload {
  readonly cluster: string;
  readonly bucket: Pick<BucketRow, 'id' | 'owner' | 'shards'>;
  readonly owner: Owner & { readonly uploadId: string };
  readonly requestId: string;
}

/** Opens an upload in the store, and has `own` commit the session that it belongs to. */
async function beginForwarded<T>(
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
    const upload = await requireUploads(ctx).begin({ account: bucket.owner, cluster, id: extent.id, owner });
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
  ctx: ForwardedCtx,
  { uploadId, session }: Pick<StoredSession['row'], 'uploadId' | 'session'>,
  {
    parts,
    account,
    digest,
  }: { readonly parts: readonly ForwardedPart[]; readonly account: string; readonly digest: string },
): Promise<Extent | undefined> {
  const upload = parseForwardedUpload(session);
  if (upload === undefined || session.extentId === undefined) return undefined;
  const isOnlyList = (session.triedDigest ?? digest) === digest;
  await requireUploads(ctx)
    .complete(upload, parts, { account, isOnlyList })
    .catch((cause: unknown) => {
      throw toUploadRefusal(cause, uploadId);
    });
  const size = parts.reduce((sum, part) => sum + part.size, 0);
  return { cluster: upload.cluster, id: session.extentId, size };
}

/** The refusal when the store has other parts, or none: the client must start the upload again, despite earlier successful answers. */
function toUploadRefusal(cause: unknown, uploadId: string): unknown {
  if (cause instanceof UploadGone) return fail('NoSuchUpload', { cause, elements: { UploadId: uploadId } });
  if (cause instanceof PartsChanged) return fail('InvalidPart', { cause });
  return cause;
}

/** Removes the parts and the extent of an ended session from the store, unless a version owns the extent. */
export async function clearForwarded(
  ctx: Omit<ClearCtx, 'clock'>,
  { uploadId, session, requestId }: StoredSession['row'],
  bucket: BucketRow | undefined,
): Promise<void> {
  const upload = parseForwardedUpload(session);
  const { extentId, key } = session;
  if (upload === undefined || extentId === undefined) return;
  // Only an upload that was never committed, or whose bucket was deleted, is discarded.
  if (session.state === 'aborted') return requireUploads(ctx).discard(upload, { account: bucket?.owner });
  if (bucket !== undefined) {
    const owned = await ownedParts(ctx, { bucket, key, uploadId }, new Set([extentId]));
    if (owned.has(extentId)) return;
  }
  const extent = { cluster: upload.cluster, id: extentId, size: unknownSize };
  // The object may have been removed a moment ago, and requests may still read it.
  await queueUnowned(ctx, extent, { requestId, graceMs: ctx.config.SVC_GC_GRACE });
}

const countPart = (
  bucket: Pick<BucketRow, 'accountQuota' | 'userQuota'>,
  { encryption }: Pick<UploadSession, 'encryption'>,
  { extent }: Pick<UploadPart, 'extent'>,
): CountedPart => ({ bytes: contentSize(extent, encryption), ...lockedBy(bucket) });
