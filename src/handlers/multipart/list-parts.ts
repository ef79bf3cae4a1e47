/** ListParts. */

import { contentSize } from '../../domain/content/encryption/segments.ts';
import { openUploading } from '../../domain/uploads/upload-session.ts';
import { scanParts } from '../../metadata/objects/uploads.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import { type ListPartsResult, listPartsResult } from '../../protocol/schemas/object/multipart.ts';
import { namedOwner, ownerNames } from '../common/owners.ts';
import { defined, readCount } from '../common/parameters.ts';
import { xmlReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { partChecksumFields } from '../object/headers/checksum-fields.ts';
import { abortHeaders, hasLifecycle } from '../object/headers/expiration.ts';
import { quoted } from '../object/headers/object-headers.ts';
import { readUploadName } from './upload-name.ts';

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
