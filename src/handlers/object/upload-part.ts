/** UploadPart and UploadPartCopy. */
import { fail } from '../../base/errors.ts';
import { formatVersionId } from '../../domain/common/ids.ts';
import { type Content, contentMax } from '../../domain/content/store-bytes.ts';
import { readObject, type Slice } from '../../domain/objects/read-object.ts';
import { partNumberMax } from '../../domain/uploads/part-list.ts';
import { writePart } from '../../domain/uploads/upload-part.ts';
import { openUploading } from '../../domain/uploads/upload-session.ts';
import type { UploadPart as StoredPart, UploadSession } from '../../metadata/tables.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import { copyPartResult } from '../../protocol/schemas/object.ts';
import { defined, header, readUploadName } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { emptyReply, type HandlerOf, xmlReply } from '../handler.ts';
import { openSourceKey, openUploadKey, readContent } from './content-key.ts';
import { openCopySource } from './copy-source.ts';
import { encryptionHeaders } from './encryption-headers.ts';
import { quoted, refuseUnbuilt } from './object-headers.ts';
import { partChecksumFields } from './write-headers.ts';

export const UploadPart: HandlerOf<'UploadPart'> = async (ctx, request) => {
  const { record, requestId, signal } = request;
  const name = readUploadName(request);
  const part = readPartNumber(request);
  refuseUnbuilt(request);
  const found = await openUploading(ctx, name);
  const { session } = found.row;
  const content = readContent(request, session.checksumAlgorithm);
  refuseOtherAlgorithm(session, content);
  const objectKey = await openUploadKey(ctx, request, session);
  const stored = await writePart(ctx, found, { name, part, objectKey, record, requestId, signal }, content);
  const headers: HeaderPair[] = [['ETag', quoted(stored.etag)], ...encryptionHeaders(session.encryption)];
  if (stored.checksum !== undefined)
    headers.push([`*-checksum-${stored.checksum.algorithm.toLowerCase()}`, stored.checksum.value]);
  return emptyReply(200, headers);
};

/** A session that names an algorithm takes no other (public API). */
function refuseOtherAlgorithm({ checksumAlgorithm }: UploadSession, { claims }: Content): void {
  const actual = claims.checksum?.algorithm;
  if (checksumAlgorithm === undefined || actual === undefined || actual === checksumAlgorithm) return;
  throw fail(
    'InvalidRequest',
    `Checksum Type mismatch occurred, expected checksum Type: ${checksumAlgorithm.toLowerCase()}, actual checksum Type: ${actual.toLowerCase()}`,
  );
}

export const UploadPartCopy: HandlerOf<'UploadPartCopy'> = async (ctx, request) => {
  const { record, requestId, signal } = request;
  refuseUnbuilt(request);
  const name = readUploadName(request);
  const part = readPartNumber(request);
  const found = await openUploading(ctx, name);
  const { bucket, row } = await openCopySource(ctx, request);
  const slice = copyRange(header(request, 'copy-source-range'), row.size);
  const length = slice.end - slice.start + 1;
  if (length > contentMax)
    throw fail('EntityTooLarge', { elements: { ProposedSize: length, MaxSizeAllowed: contentMax } });
  const { session } = found.row;
  const objectKey = await openUploadKey(ctx, request, session);
  const sourceKey = await openSourceKey(ctx, request, { bucket, row });
  const algorithm = session.checksumAlgorithm;
  const stored = await writePart(
    ctx,
    found,
    { name, part, objectKey, record, requestId, signal },
    {
      source: readObject(ctx, row, slice, { objectKey: sourceKey, signal }),
      length,
      claims: defined({ checksum: algorithm && { algorithm, value: () => undefined } }),
    },
  );
  const headers: HeaderPair[] = [...encryptionHeaders(session.encryption)];
  if (bucket.versioning !== '') headers.push(['*-copy-source-version-id', formatVersionId(row)]);
  return xmlReply(copyPartResult, 'CopyPartResult', partResult(stored), headers);
};

const partResult = (stored: StoredPart) => ({
  LastModified: isoTime(stored.modified),
  ETag: quoted(stored.etag),
  ...partChecksumFields(stored.checksum?.algorithm, stored.checksum?.value),
});

/** `bytes=lo-hi` with lo <= hi < size, parsed strictly. */
function copyRange(raw: string | undefined, size: number): Slice {
  if (raw === undefined) return { start: 0, end: size - 1 };
  const [, low = '', high = ''] = /^bytes=(\d{1,15})-(\d{1,15})$/.exec(raw) ?? [];
  if (low !== '' && Number(low) <= Number(high) && Number(high) < size)
    return { start: Number(low), end: Number(high) };
  throw fail('InvalidArgument', {
    message: `The copy-source-range value must be of the form bytes=first-last where first <= last < ${size}, the size of the source`,
    elements: { ArgumentName: 'copy-source-range', ArgumentValue: raw },
  });
}

/** @throws InvalidArgument outside 1…10000 */
function readPartNumber({ query }: AuthorizedInBucket): number {
  const raw = query.get('partNumber') ?? '';
  const number = /^\d{1,5}$/.test(raw) ? Number(raw) : 0;
  if (number >= 1 && number <= partNumberMax) return number;
  throw fail('InvalidArgument', {
    message: `Part number must be an integer between 1 and ${partNumberMax}, inclusive`,
    elements: { ArgumentName: 'partNumber', ArgumentValue: raw },
  });
}
