/** Stores a part. The commit requires that the session still takes parts. */
import { fail } from '../../base/errors.ts';
import { findSessionPart, type StoredSession, uploadAt } from '../../metadata/objects/uploads.ts';
import type { UploadPart } from '../../metadata/tables.ts';
import type { Op } from '../../ports/metadata-store.ts';
import { assertNotEmptied } from '../clusters/cluster-states.ts';
import { parseCluster } from '../clusters/placement.ts';
import { refreshBucket } from '../common/buckets.ts';
import { queueGarbage } from '../common/garbage.ts';
import { type Recorder, recorded } from '../common/recorder.ts';
import type { ObjectKey } from '../content/content-key.ts';
import { type ByteWrite, type Content, storeBytes } from '../content/store-bytes.ts';
import { admit } from '../quotas/admit.ts';
import { freedBy } from '../quotas/amounts.ts';
import { hasQuota, type Reservation, withPartReservation } from '../quotas/reservation.ts';
import { parseForwardedUpload, requireUploads, toUploadRefusal } from './forwarded-upload.ts';
import { countPart, partChanges } from './part-counts.ts';
import { type Ctx, openUploading, type UploadName } from './upload-session.ts';

/** Concurrent uploads of one part number before the client gets `SlowDown`. */
const attemptsMax = 16;

export interface PartWrite {
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
  ctx: Ctx,
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
  ctx: Ctx,
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
      await assertNotEmptied(ctx, parseCluster(session));
      const uploaded: UploadPart = {
        extent: stored.extent,
        // The ETag of a replica follows from the MD5 of its parts, as at its source.
        etag: session.replica === undefined ? stored.etag : stored.md5,
        modified: ctx.clock.now(),
        ...(stored.checksum === undefined ? {} : { checksum: stored.checksum }),
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

async function commitPart(
  ctx: Ctx,
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
