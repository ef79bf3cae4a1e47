/** GetObjectAttributes: the chosen facts about an object, its parts in pages. */
import { authorize } from '../../auth/authorize.ts';
import { openKeyUser } from '../../auth/session/key-user.ts';
import { fail, invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { assertMayDecrypt } from '../../domain/content/provider-key.ts';
import { contentSize } from '../../domain/content/segments.ts';
import { checkRead } from '../../domain/objects/conditions.ts';
import { partsFrom } from '../../domain/objects/read-object.ts';
import type { Checksum, ObjectRow } from '../../metadata/tables.ts';
import { listingPageMax } from '../../protocol/schemas/common.ts';
import {
  type GetObjectAttributesResponse,
  getObjectAttributesResponse,
} from '../../protocol/schemas/object.ts';
import { header } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { type HandlerOf, requireTarget, xmlReply } from '../handler.ts';
import { notModified, readConditions } from './conditions.ts';
import { openDescribedKey } from './encryption-headers.ts';
import { partChecksumFields, toChecksumFields, versionHeader } from './object-headers.ts';

const attributes = ['ETag', 'Checksum', 'ObjectParts', 'StorageClass', 'ObjectSize'] as const;
type Attribute = (typeof attributes)[number];

export const GetObjectAttributes: HandlerOf<'GetObjectAttributes'> = async (ctx, request) => {
  const requested = readRequested(request);
  const row = requireTarget(request);
  const { bucket, key, query } = request;
  const action = query.get('versionId') === undefined ? 's3:GetObject' : 's3:GetObjectVersion';
  // The attributes require the permission to read the object itself.
  await authorize(ctx, request, { action, bucket, bucketName: bucket.name, key, target: row });
  await openDescribedKey(ctx, request, row);
  const conditions = readConditions(request);
  if (conditions !== undefined && checkRead(conditions, row, ctx.clock.now()) === 'not-modified')
    return notModified(request, row);
  if (requested.has('Checksum') || requested.has('ObjectParts'))
    await assertMayDecrypt(ctx, row.encryption, openKeyUser(ctx, request));
  const { ChecksumType, ...checksum } = toChecksumFields(withoutPartCount(row.checksum));
  const result: GetObjectAttributesResponse = {
    ...(requested.has('ETag') ? { ETag: row.etag } : {}),
    ...(requested.has('Checksum') && row.checksum !== undefined
      ? { Checksum: { ...checksum, ...(ChecksumType === undefined ? {} : { ChecksumType }) } }
      : {}),
    ...(requested.has('ObjectParts') ? await objectParts(ctx, request, row) : {}),
    ...(requested.has('StorageClass') ? { StorageClass: row.storageClass } : {}),
    ...(requested.has('ObjectSize') ? { ObjectSize: row.size } : {}),
  };
  return xmlReply(getObjectAttributesResponse, 'GetObjectAttributesResponse', result, [
    ['Last-Modified', new Date(row.modified).toUTCString()],
    ...versionHeader(request, row),
  ]);
};

/** The parts are counted in `ObjectParts` here, and in no other reply, so the checksum does not repeat it (public API). */
const withoutPartCount = (checksum: Checksum | undefined): Checksum | undefined =>
  checksum && { ...checksum, value: checksum.value.replace(/-\d+$/, '') };

function readRequested(request: AuthorizedInBucket): ReadonlySet<Attribute> {
  const raw = header(request, 'object-attributes');
  const names = (raw ?? '')
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');
  if (names.length === 0) throw fail('InvalidRequest', 'The object-attributes header is missing or empty.');
  const known = names.map((name) => attributes.find((attribute) => attribute === name));
  if (known.includes(undefined)) {
    throw invalidArgument(
      'object-attributes',
      raw ?? '',
      `Invalid attribute name specified: each is one of ${attributes.join(', ')}`,
    );
  }
  return new Set(known.filter((each) => each !== undefined));
}

/** Parts are listed one by one only where they carry checksums, as the public API does. */
async function objectParts(
  ctx: Context,
  request: AuthorizedInBucket,
  row: ObjectRow,
): Promise<Pick<GetObjectAttributesResponse, 'ObjectParts'>> {
  const { manifest } = row;
  if ('extents' in manifest) return {};
  const PartsCount = 'parts' in manifest ? manifest.parts.length : manifest.partCount;
  if (row.checksum === undefined) return { ObjectParts: { PartsCount, Part: [] } };
  const MaxParts = numberIn(request, 'max-parts', listingPageMax);
  const PartNumberMarker = numberIn(request, 'part-number-marker', 0);
  const Part = [];
  let isTruncated = false;
  for await (const { number, extent, checksum } of partsFrom(ctx, row, PartNumberMarker)) {
    if (Part.length === MaxParts) {
      // An empty page is not truncated, because the next one would be the same.
      isTruncated = MaxParts > 0;
      break;
    }
    Part.push({
      PartNumber: number,
      Size: contentSize(extent, row.encryption),
      ...partChecksumFields(row.checksum.algorithm, checksum),
    });
  }
  const last = Part.at(-1)?.PartNumber ?? 0;
  return {
    ObjectParts: {
      PartsCount,
      PartNumberMarker,
      NextPartNumberMarker: last,
      MaxParts,
      IsTruncated: isTruncated,
      Part,
    },
  };
}

function numberIn(request: AuthorizedInBucket, name: string, fallback: number): number {
  const raw = header(request, name);
  if (raw === undefined) return fallback;
  if (!/^\d{1,9}$/.test(raw)) {
    throw invalidArgument(name, raw, `${name} must be a number`);
  }
  return name === 'max-parts' ? Math.min(Number(raw), listingPageMax) : Number(raw);
}
