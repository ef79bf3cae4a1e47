/** Receives versions of other sites: stores the content of a version, creates delete markers, changes states. */

import { fail } from '../../base/errors.ts';
import { toBase64 } from '../../base/text/base64.ts';
import { fromHex } from '../../base/text/hex.ts';
import { findHead, findVersion } from '../../metadata/objects/objects.ts';
import type { ReplicaDocument } from '../../metadata/objects/properties.ts';
import { wasRemoved } from '../../metadata/objects/removed-versions.ts';
import { placeWrite } from '../clusters/placement.ts';
import type { Claims } from '../content/digests.ts';
import type { ObjectKey } from '../content/extent-keys.ts';
import { type Content, queueUnowned, storeBytes } from '../content/store-bytes.ts';
import { reserveSize } from '../quotas/admit.ts';
import type { Freed } from '../quotas/amounts.ts';
import { hasQuota, type Reservation, withReservation } from '../quotas/reservation.ts';
import {
  assertReceivable,
  assertSameContent,
  type CommittedReplica,
  commitReplica,
  effectsOfNew,
  hasDigestEtag,
  type Replica,
} from './commit-replica.ts';
import { findById } from './find-replica.ts';
import { effectiveStamp } from './stamp.ts';
import type { WriteCtx } from './write-object.ts';

interface ReplicaWrite extends Replica {
  /** Absent: the content is stored unencrypted. */
  readonly objectKey?: ObjectKey | undefined;
  readonly signal: AbortSignal;
}

/**
 * Stores a version with its content. The content of a version that exists is not stored again.
 * @throws BadDigest, InvalidRequest where the content is not the one that the document describes
 */
export const writeReplica = (
  ctx: WriteCtx,
  write: ReplicaWrite,
  content: Pick<Content, 'source' | 'length'>,
): Promise<CommittedReplica> =>
  withReservation(ctx, (reservation) => writeReserved(ctx, write, { ...content, reservation }));

async function writeReserved(
  ctx: WriteCtx,
  write: ReplicaWrite,
  { source, length, reservation }: Pick<Content, 'source' | 'length'> & { readonly reservation: Reservation },
): Promise<CommittedReplica> {
  const { bucket, key, document, objectKey, requestId, signal } = write;
  const { version, isNull, size, storageClass } = document;
  assertReceivable(ctx, bucket, document);
  if (length !== undefined && length !== size) throw wrongSize(document, length);
  const head = await findHead(ctx.metadata, bucket, key);
  const existing = (await findById(ctx, { bucket, head }, version))?.row;
  if (existing !== undefined) {
    assertSameContent(existing, document);
    if (effectiveStamp(existing) === document.stamp) return { outcome: 'present', row: existing, won: false };
    // The signature of the document is verified at the end of the body.
    for await (const _ of source);
    return commitReplica(ctx, write, {});
  }
  // The commit asks again, for what the replica does by then.
  await write.assertMay({ effects: await effectsOfNew(ctx, write) });
  await reserveReplica(ctx, write, reservation);
  const cluster = await placeWrite(ctx, { bucket, storageClass }, requestId);
  const owner = { bucketId: bucket.id, key, ...(isNull ? {} : { version }) };
  const content = { source, length: size, claims: toClaims(document) };
  const at = { cluster, bucket, owner, storageClass, objectKey, requestId, signal };
  return await storeBytes(ctx, content, at, async (stored, op) => {
    if (stored.size !== size) throw wrongSize(document, stored.size);
    const manifest = { extents: size === 0 ? [] : [stored.extent] };
    const owned = {
      manifest,
      ...(objectKey && { encryption: objectKey.encryption }),
      ...(isMd5(document) ? {} : { etagUnverified: true as const }),
    };
    const committed = await commitReplica(ctx, write, { op, content: owned, reservation });
    if (!committed.won) await queueUnowned(ctx, stored.extent, { requestId });
    return committed;
  });
}

/**
 * Reserves room for a replicated version before its content arrives. A version that the site has, or has removed, needs none.
 * @throws QuotaExceeded
 */
export async function reserveReplica(
  ctx: WriteCtx,
  { bucket, key, document, freed }: Pick<Replica, 'bucket' | 'key' | 'document'> & { readonly freed?: Freed },
  reservation: Reservation,
): Promise<void> {
  if (!hasQuota(bucket)) return;
  const { size, version, isNull } = document;
  if (await wasRemoved(ctx.metadata, { bucketId: bucket.id, key, version })) return;
  const head = await findHead(ctx.metadata, bucket, key);
  if ((await findById(ctx, { bucket, head }, version)) !== undefined) return;
  // A newer null version stays.
  const present = isNull ? await findVersion(ctx.metadata, bucket, key, 'null') : undefined;
  if (present !== undefined && present.row.version > version) return;
  await reserveSize(
    ctx,
    { bucket, key, isNull, ...(freed === undefined ? {} : { freed }) },
    { size, reservation },
  );
}

const wrongSize = ({ size }: ReplicaDocument, actual: number) =>
  fail('InvalidRequest', `The document describes a content of ${size} bytes, and ${actual} were sent.`);

const isMd5 = (document: ReplicaDocument): boolean => !document.etag.includes('-') && hasDigestEtag(document);

/** The digests of the content that the document tells. @throws InvalidRequest for a checksum of parts, which the content has none of */
function toClaims(document: ReplicaDocument): Claims {
  const { etag, checksum } = document;
  if (checksum?.type === 'COMPOSITE')
    throw fail(
      'InvalidRequest',
      'A checksum of type COMPOSITE is that of parts: send the version in its parts, by ?uploads&replica.',
    );
  return {
    ...(isMd5(document) ? { md5: toBase64(fromHex(etag)) } : {}),
    ...(checksum === undefined
      ? {}
      : { checksum: { algorithm: checksum.algorithm, value: () => checksum.value } }),
  };
}

/** Creates a delete marker, or changes the tags, ACL and lock of an existing version. @throws NoSuchVersion */
export const writeReplicaState = (ctx: WriteCtx, replica: Replica): Promise<CommittedReplica> =>
  commitReplica(ctx, replica, replica.document.marker ? { content: { manifest: { extents: [] } } } : {});
