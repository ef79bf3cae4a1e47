/** Asks the quotas before a body is read, and while one of unknown length arrives (spec, "Quota enforcement"). */
import { Refusal } from '../../base/errors.ts';
import { findVersion } from '../../metadata/objects/objects.ts';
import { findSessionPart } from '../../metadata/objects/uploads.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import type { Content } from '../content/store-bytes.ts';
import { type Amount, type Freed, freedBy, nothing, subtract } from './amounts.ts';
import { assertSize, hasQuota, type Reservation, type ShareCtx } from './reservation.ts';

interface Admitted {
  readonly bucket: BucketRow;
  /** The key of a whole object; absent for a part, which is no object and may be larger than an object may be. */
  readonly key?: string;
  /** The number of a part that is replaced, and its upload. */
  readonly part?: { readonly uploadId: string; readonly part: number };
  /** Parts that leave the counters with the write. */
  readonly freed?: Freed;
  /** A replicated null version: it replaces the one of the key also where versioning is enabled. */
  readonly isNull?: boolean;
}

/** Room for a body of unknown length is reserved in steps of this size, and byte by byte where there is less. */
const stepBytes = 1024 ** 2;

/**
 * Reserves room for a content, or refuses it.
 * @returns the content; where its length is unknown, it fails as soon as it exceeds the room
 * @throws QuotaExceeded
 */
export async function admit(
  ctx: ShareCtx,
  admitted: Admitted,
  { content, reservation }: { readonly content: Content; readonly reservation: Reservation },
): Promise<Content> {
  const { bucket } = admitted;
  if (!hasQuota(bucket)) return content;
  const { length } = content;
  if (length !== undefined) {
    await reserveSize(ctx, admitted, { size: length, reservation });
    return content;
  }
  await reserveSize(ctx, admitted, { size: 0, reservation });
  return {
    ...content,
    source: meter(content.source, (size) => reserveUpTo(ctx, admitted, { size, reservation })),
  };
}

/** Reserves room for an object or a part of this size. */
export async function reserveSize(
  ctx: ShareCtx,
  admitted: Admitted,
  { size, reservation }: { readonly size: number; readonly reservation: Reservation },
): Promise<void> {
  const { bucket, key, freed } = admitted;
  if (key !== undefined) assertSize(bucket, size);
  const whole = { bytes: size, objects: key === undefined ? 0 : 1 };
  try {
    await reservation.cover(bucket, whole, freed);
  } catch (cause) {
    if (!isExceeded(cause)) throw cause;
    // What the write replaces is subtracted; nothing is read for it while there is room.
    if (admitted.part !== undefined)
      return reservation.cover(bucket, whole, await replacedPart(ctx, admitted.part));
    const replaced = await replacedBy(ctx, admitted);
    if (replaced === nothing) throw cause;
    await reservation.cover(bucket, subtract(whole, replaced), freed);
  }
}

const isExceeded = (cause: unknown): boolean => cause instanceof Refusal && cause.code === 'QuotaExceeded';

async function replacedPart(
  { metadata }: ShareCtx,
  { uploadId, part }: NonNullable<Admitted['part']>,
): Promise<Freed> {
  const stored = (await findSessionPart(metadata, uploadId, part))?.row.stored;
  return freedBy(stored === undefined ? [] : [stored]);
}

/** A write replaces the null version of its key, unless versioning is enabled. */
async function replacedBy(
  { metadata }: ShareCtx,
  { bucket, key, isNull = false }: Admitted,
): Promise<Amount> {
  if (key === undefined || (bucket.versioning === 'Enabled' && !isNull)) return nothing;
  const found = (await findVersion(metadata, bucket, key, 'null'))?.row;
  return found === undefined || found.marker ? nothing : { bytes: found.size, objects: 1 };
}

async function reserveUpTo(
  ctx: ShareCtx,
  admitted: Admitted,
  { size, reservation }: { readonly size: number; readonly reservation: Reservation },
): Promise<number> {
  const rounded = Math.ceil(size / stepBytes) * stepBytes;
  try {
    await reserveSize(ctx, admitted, { size: rounded, reservation });
    return rounded;
  } catch (cause) {
    if (!isExceeded(cause)) throw cause;
    await reserveSize(ctx, admitted, { size, reservation });
    return size;
  }
}

/** @param reserve called before bytes pass that exceed what it returned last */
async function* meter(
  source: AsyncIterable<Uint8Array>,
  reserve: (size: number) => Promise<number>,
): AsyncGenerator<Uint8Array> {
  let size = 0;
  let reserved = 0;
  for await (const bytes of source) {
    size += bytes.length;
    if (size > reserved) reserved = await reserve(size);
    yield bytes;
  }
}
