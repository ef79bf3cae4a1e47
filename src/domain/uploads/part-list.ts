/** Checks the part list of a completion against the stored parts: order, ETags, sizes, checksums (public API "CompleteMultipartUpload"). */

import { fail } from '../../base/errors.ts';
import { fromBase64, toBase64 } from '../../base/text/base64.ts';
import { fromHex } from '../../base/text/hex.ts';
import { everyPart, type StoredSession } from '../../metadata/objects/uploads.ts';
import type { Checksum, ManifestPart, UploadPart, UploadSession } from '../../metadata/tables.ts';
import { compositeEtag } from '../../ports/cryptography.ts';
import type { ForwardedPart } from '../../ports/object-bytes.ts';
import {
  type ChecksumAlgorithm,
  checksumFacts,
  combineCrcs,
  compositeChecksum,
  isCrc,
} from '../content/digests.ts';
import { contentSize } from '../content/segments.ts';
import { type Freed, freedBy } from '../quotas/amounts.ts';
import type { UploadCtx } from './upload-session.ts';

/** Public API limits. */
export const partNumberMax = 10_000;
const partSizeMin = 5 * 1024 * 1024;

export interface ListedPart {
  readonly number: number;
  /** Hex, without quotes. */
  readonly etag: string;
  readonly checksums: Readonly<Partial<Record<ChecksumAlgorithm, string>>>;
}

/** The size and checksum that the client declares for the whole object. */
export interface ObjectClaims {
  readonly size?: number;
  readonly checksum?: { readonly algorithm: ChecksumAlgorithm; readonly value: string };
  readonly checksumType?: Checksum['type'];
}

export interface CheckedParts {
  readonly parts: readonly ManifestPart[];
  /** The parts with the store's receipts, when the store holds the parts; else empty. */
  readonly forwarded: readonly ForwardedPart[];
  readonly size: number;
  readonly etag: string;
  readonly checksum: Checksum | undefined;
  /** What the counters lose with all parts of the upload, also those that are not listed. */
  readonly freed: Freed;
}

interface Chosen {
  readonly number: number;
  /** The size of its content, in bytes. */
  readonly size: number;
  readonly stored: UploadPart;
}

export async function checkParts(
  ctx: Pick<UploadCtx, 'metadata' | 'hasher'>,
  { row }: StoredSession,
  { parts: listed, claims }: { readonly parts: readonly ListedPart[]; readonly claims: ObjectClaims },
): Promise<CheckedParts> {
  assertChecksums(row.session, listed);
  const stored = new Map<number, UploadPart>();
  for await (const part of everyPart(ctx.metadata, row.uploadId)) stored.set(part.row.part, part.stored);
  const { encryption } = row.session;
  const chosen = listed.map((part, i) => {
    const found = choose(part, listed[i - 1], stored);
    return { number: part.number, stored: found, size: contentSize(found.extent, encryption) };
  });
  assertSizes(chosen);
  const size = chosen.reduce((sum, part) => sum + part.size, 0);
  if (claims.size !== undefined && claims.size !== size) {
    throw fail(
      'InvalidRequest',
      `The object is said to have ${claims.size} bytes, but its parts have ${size} together.`,
    );
  }
  return {
    parts: chosen.map(({ number, stored: part }) => ({
      number,
      extent: part.extent,
      ...(part.checksum && { checksum: part.checksum.value }),
    })),
    forwarded: chosen.flatMap(({ number, stored: { receipt, extent } }) =>
      receipt === undefined ? [] : [{ part: number, size: extent.size, receipt }],
    ),
    size,
    etag: compositeEtag(
      ctx.hasher,
      chosen.map(({ stored }) => fromHex(stored.etag)),
    ),
    checksum: objectChecksum(ctx, row.session, { chosen, claims }),
    freed: freedBy(stored.values()),
  };
}

function choose(
  part: ListedPart,
  previous: ListedPart | undefined,
  stored: ReadonlyMap<number, UploadPart>,
): UploadPart {
  if (previous !== undefined && previous.number >= part.number) throw fail('InvalidPartOrder');
  const found = stored.get(part.number);
  const elements = { PartNumber: part.number, ETag: part.etag };
  if (found === undefined || found.etag !== part.etag) throw fail('InvalidPart', { elements });
  for (const [algorithm, value] of Object.entries(part.checksums)) {
    if (found.checksum?.algorithm !== algorithm || found.checksum.value !== value) {
      throw fail('InvalidPart', {
        message: `The ${algorithm} of part ${part.number} is not the one it was uploaded with.`,
        elements,
      });
    }
  }
  return found;
}

/** The list of an upload that was begun with a composite checksum has that of every part (public API). */
function assertChecksums(session: UploadSession, parts: readonly ListedPart[]): void {
  const { checksumAlgorithm: algorithm, checksumType, replica } = session;
  if (algorithm === undefined || replica !== undefined) return;
  if ((checksumType ?? checksumFacts[algorithm].fallback) !== 'COMPOSITE') return;
  const missing = parts.find(({ checksums }) => checksums[algorithm] === undefined);
  if (missing === undefined) return;
  throw fail(
    'InvalidRequest',
    `The upload was created using a ${algorithm.toLowerCase()} checksum. The complete request must include the checksum for each part. It was missing for part ${missing.number} in the request.`,
  );
}

/** Every part but the last has at least 5 MiB. */
function assertSizes(chosen: readonly Chosen[]): void {
  for (const { number, size, stored } of chosen.slice(0, -1)) {
    if (size >= partSizeMin) continue;
    throw fail('EntityTooSmall', {
      elements: {
        ProposedSize: size,
        MinSizeAllowed: partSizeMin,
        PartNumber: number,
        ETag: stored.etag,
      },
    });
  }
}

/** The object's checksum, when every part carries one of the same algorithm. */
function objectChecksum(
  { hasher }: Pick<UploadCtx, 'hasher'>,
  session: UploadSession,
  { chosen, claims }: { readonly chosen: readonly Chosen[]; readonly claims: ObjectClaims },
): Checksum | undefined {
  const algorithm = session.checksumAlgorithm ?? chosen[0]?.stored.checksum?.algorithm;
  if (algorithm === undefined || chosen.some(({ stored }) => stored.checksum?.algorithm !== algorithm)) {
    if (claims.checksum === undefined) return undefined;
    throw fail(
      'InvalidRequest',
      'The parts carry no checksums that the one of the object could follow from.',
    );
  }
  const { hash, fallback } = checksumFacts[algorithm];
  const type = session.checksumType ?? fallback;
  if (claims.checksumType !== undefined && claims.checksumType !== type) {
    throw fail(
      'InvalidRequest',
      `The upload was created with checksum type ${type}, not ${claims.checksumType}.`,
    );
  }
  const parts = chosen.map(({ stored, size }) => ({
    digest: fromBase64(stored.checksum?.value ?? ''),
    size,
  }));
  // A replica says of what type its checksum is.
  if (type === 'FULL_OBJECT' && !isCrc(hash))
    throw fail('BadDigest', `A ${algorithm} of the whole object does not follow from those of its parts.`);
  const value =
    type === 'FULL_OBJECT'
      ? toBase64(combineCrcs(hash, parts))
      : compositeChecksum(
          hasher,
          hash,
          parts.map((part) => part.digest),
        );
  if (claims.checksum !== undefined && claims.checksum.algorithm !== algorithm) {
    throw fail(
      'InvalidRequest',
      `The parts were uploaded with ${algorithm}, but the checksum given is a ${claims.checksum.algorithm}.`,
    );
  }
  const claimed = claims.checksum?.value;
  if (claimed !== undefined && claimed !== value && claimed !== value.replace(/-\d+$/, '')) {
    throw fail('BadDigest', `The ${algorithm} you specified did not match the calculated checksum.`);
  }
  return { algorithm, type, value };
}
