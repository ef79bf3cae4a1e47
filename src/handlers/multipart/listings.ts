/** ListMultipartUploads and ListParts. */

import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { isUploadId } from '../../domain/common/ids.ts';
import { contentSize } from '../../domain/content/segments.ts';
import { type Grouping, type Listed, readPage, startBehind } from '../../domain/listings/listing.ts';
import { openUploading } from '../../domain/uploads/upload-session.ts';
import { prefixRange } from '../../metadata/objects/objects.ts';
import { scanParts, uploadsIn } from '../../metadata/objects/uploads.ts';
import type { UploadIndexRow, uploadIndex } from '../../metadata/tables.ts';
import type { Cursor } from '../../ports/metadata-store.ts';
import type { Infer } from '../../protocol/formats/codec.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import type { checksumAlgorithm, checksumType } from '../../protocol/schemas/common.ts';
import {
  type ListPartsResult,
  listMultipartUploadsResult,
  listPartsResult,
} from '../../protocol/schemas/multipart.ts';
import { defined, isUrlEncoded, positionIn, readCount, readUploadName } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { chooseEncoder, readGrouping, toCommonPrefixes } from '../common/listing.ts';
import { type Names, namedOwner, ownerNames } from '../common/owners.ts';
import { xmlReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { abortHeaders, hasLifecycle, quoted } from '../object/object-headers.ts';
import { partChecksumFields } from '../object/write-headers.ts';

// ListMultipartUploads: the open sessions by key, then by age.

export const ListMultipartUploads: HandlerOf<'ListMultipartUploads'> = async (ctx, request) => {
  const { query, bucket } = request;
  const grouping = readGrouping(request, 'max-uploads');
  const encode = chooseEncoder(request);
  const KeyMarker = positionIn(query, 'key-marker');
  // The upload-id marker is ignored without a key marker (public API).
  const UploadIdMarker = KeyMarker === '' ? '' : readUploadIdMarker(request);
  const page = await readPage(openUploads(ctx, request, { grouping, KeyMarker, UploadIdMarker }), grouping);
  const last = page.isTruncated ? page.entries.at(-1) : undefined;
  const uploads = page.entries.flatMap((entry) => ('row' in entry ? [entry.row] : []));
  const accounts = uploads.flatMap(({ initiator, owner }) => [initiator, owner]);
  const names = await ownerNames(ctx, bucket, accounts);
  return xmlReply(listMultipartUploadsResult, 'ListMultipartUploadsResult', {
    Bucket: bucket.name,
    KeyMarker: encode(KeyMarker),
    UploadIdMarker,
    ...(last === undefined
      ? {}
      : 'row' in last
        ? { NextKeyMarker: encode(last.row.key), NextUploadIdMarker: last.row.uploadId }
        : { NextKeyMarker: encode(last.commonPrefix) }),
    Prefix: encode(grouping.prefix),
    ...(grouping.delimiter === '' ? {} : { Delimiter: encode(grouping.delimiter) }),
    ...(isUrlEncoded(query) ? { EncodingType: 'url' as const } : {}),
    MaxUploads: grouping.limit,
    IsTruncated: page.isTruncated,
    Upload: uploads.map((row) => describe(row, { encode, names })),
    CommonPrefixes: toCommonPrefixes(page.entries, encode),
  });
};

function readUploadIdMarker({ query }: AuthorizedInBucket): string {
  const raw = query.get('upload-id-marker') ?? '';
  if (raw === '' || isUploadId(raw)) return raw;
  throw fail('InvalidArgument', {
    message: 'Invalid uploadId marker',
    elements: { ArgumentName: 'upload-id-marker', ArgumentValue: raw },
  });
}

interface Marker {
  readonly grouping: Grouping;
  readonly KeyMarker: string;
  readonly UploadIdMarker: string;
}

function openUploads(
  { metadata }: Context,
  { bucket }: AuthorizedInBucket,
  at: Marker,
): Listed<UploadIndexRow> {
  const cursor = metadata.scan(uploadsIn(bucket.id), prefixRange('key', at.grouping.prefix));
  if (at.KeyMarker !== '') begin(cursor, at);
  return {
    next: async (count) => (await cursor.next(count)).map(({ row }) => row),
    leap: (key) => cursor.seek({ key }),
    keyOf: (row) => row.key,
  };
}

function begin(cursor: Cursor<typeof uploadIndex>, { grouping, KeyMarker, UploadIdMarker }: Marker): void {
  const start = UploadIdMarker === '' ? startBehind(KeyMarker, grouping) : undefined;
  if (start === undefined) cursor.seek({ key: KeyMarker, uploadId: UploadIdMarker }, { past: true });
  else if ('from' in start) cursor.seek({ key: start.from });
  else cursor.seek({ key: start.after }, { past: true });
}

interface Shown {
  readonly encode: (text: string) => string;
  readonly names: Names;
}

const describe = (row: UploadIndexRow, { encode, names }: Shown) => ({
  Key: encode(row.key),
  UploadId: row.uploadId,
  Initiator: namedOwner(names, row.initiator),
  Owner: namedOwner(names, row.owner),
  StorageClass: row.storageClass,
  Initiated: isoTime(row.initiated),
  ...(row.checksumAlgorithm === undefined
    ? {}
    : { ChecksumAlgorithm: row.checksumAlgorithm as Infer<typeof checksumAlgorithm> }),
  ...(row.checksumType === undefined ? {} : { ChecksumType: row.checksumType as Infer<typeof checksumType> }),
});

// ListParts.

const partsMax = 1000;

export const ListParts: HandlerOf<'ListParts'> = async (ctx, request) => {
  const name = readUploadName(request);
  const { session } = (await openUploading(ctx, name)).row;
  const MaxParts = readCount(request.query, 'max-parts', { fallback: partsMax, max: partsMax });
  const PartNumberMarker = readCount(request.query, 'part-number-marker', { fallback: 0, max: 2 ** 31 - 1 });
  const found =
    MaxParts === 0 ? [] : await scanParts(ctx.metadata, name.uploadId, PartNumberMarker).next(MaxParts + 1);
  const page = found.slice(0, MaxParts);
  const last = page.at(-1)?.row.part;
  const names = await ownerNames(ctx, request.bucket, [session.initiator, session.owner]);
  const result: ListPartsResult = {
    Bucket: request.bucket.name,
    Key: request.key,
    UploadId: name.uploadId,
    Initiator: namedOwner(names, session.initiator),
    Owner: namedOwner(names, session.owner),
    StorageClass: session.storageClass,
    ...defined({ ChecksumAlgorithm: session.checksumAlgorithm, ChecksumType: session.checksumType }),
    PartNumberMarker,
    ...defined({ NextPartNumberMarker: last }),
    MaxParts,
    IsTruncated: found.length > page.length,
    Part: page.flatMap(({ row: { part, stored } }) =>
      stored === undefined
        ? []
        : [
            {
              PartNumber: part,
              LastModified: isoTime(stored.modified),
              ETag: quoted(stored.etag),
              Size: contentSize(stored.extent, session.encryption),
              ...partChecksumFields(stored.checksum?.algorithm, stored.checksum?.value),
            },
          ],
    ),
  };
  const headers = hasLifecycle(request.bucket) ? await abortHeaders(ctx, request.bucket, session) : [];
  return xmlReply(listPartsResult, 'ListPartsResult', result, headers);
};
