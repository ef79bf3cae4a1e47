/** CompleteMultipartUpload. */
import { openKeyUser } from '../../auth/session/key-user.ts';
import { fail } from '../../base/errors.ts';
import { checksumAlgorithms } from '../../domain/content/digests.ts';
import { lookUpVersion } from '../../domain/objects/read-object.ts';
import { completeUpload } from '../../domain/uploads/complete-upload.ts';
import { type ListedPart, type ObjectClaims, partNumberMax } from '../../domain/uploads/part-list.ts';
import { abortUpload } from '../../domain/uploads/upload-session.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import {
  type CompletedPart,
  completeMultipartUpload,
  completeMultipartUploadLimits,
  completeMultipartUploadResult,
} from '../../protocol/schemas/multipart.ts';
import { splitTarget } from '../../protocol/wire.ts';
import { claimedChecksum } from '../../request/claims.ts';
import { defined, header, readUploadName } from '../../request/parameters.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { emptyReply, type HandlerOf, xmlReply } from '../handler.ts';
import { writeConditions } from './conditions.ts';
import { encryptionHeaders, readCustomerKey } from './encryption-headers.ts';
import { assertMayHave } from './implied-actions.ts';
import { expirationHeaders, hasLifecycle, quoted, writtenVersionHeader } from './object-headers.ts';
import { toChecksumFields } from './write-headers.ts';

export const CompleteMultipartUpload: HandlerOf<'CompleteMultipartUpload'> = async (ctx, request) => {
  const { bucket, key, record, requestId, signal } = request;
  const result = await completeUpload(ctx, {
    name: readUploadName(request),
    parts: parseParts(request),
    claims: readObjectClaims(request),
    conditions: writeConditions(request),
    user: openKeyUser(ctx, request),
    customerKey: readCustomerKey(ctx, request),
    assertMayReplicate: async (document, effects) =>
      assertMayHave(ctx, request, { ...effects, version: document.version, document }),
    record,
    requestId,
    signal,
  });
  const headers: HeaderPair[] = [...encryptionHeaders(result.encryption), ...writtenVersionHeader(result)];
  if (hasLifecycle(bucket)) {
    const versionId = result.isNull ? 'null' : result.version;
    const row = await lookUpVersion(ctx, bucket, { key, versionId });
    if (row !== undefined) headers.push(...(await expirationHeaders(ctx, bucket, row)));
  }
  return xmlReply(
    completeMultipartUploadResult,
    'CompleteMultipartUploadResult',
    {
      Location: formatLocation(request),
      Bucket: bucket.name,
      Key: key,
      ETag: quoted(result.etag),
      ...toChecksumFields(result.checksum),
    },
    headers,
  );
};

/** The object's address, with the host and path that the client used. */
const formatLocation = ({ wire }: AuthorizedInBucket): string =>
  `${wire.secure ? 'https' : 'http'}://${wire.headers.get('host') ?? ''}${splitTarget(wire.target).path}`;

function parseParts({ body }: AuthorizedInBucket): ListedPart[] {
  if (body.length === 0)
    throw fail('MalformedXML', 'The body is empty: it must list the parts of the upload.');
  const { Part } = readXml(
    completeMultipartUpload,
    'CompleteMultipartUpload',
    body,
    completeMultipartUploadLimits,
  );
  return Part.map((part) => {
    if (part.PartNumber < 1 || part.PartNumber > partNumberMax) {
      throw fail('InvalidPart', { elements: { PartNumber: part.PartNumber, ETag: part.ETag } });
    }
    return {
      number: part.PartNumber,
      etag: part.ETag.replace(/^"(.*)"$/, '$1').toLowerCase(),
      checksums: toChecksums(part),
    };
  });
}

const toChecksums = (part: CompletedPart): ListedPart['checksums'] =>
  Object.fromEntries(
    checksumAlgorithms.flatMap((algorithm) => {
      const value = part[`Checksum${algorithm}`];
      return value === undefined ? [] : [[algorithm, value] as const];
    }),
  );

function readObjectClaims(request: AuthorizedInBucket): ObjectClaims {
  const rawSize = header(request, 'mp-object-size');
  if (rawSize !== undefined && !/^-?\d{1,15}$/.test(rawSize)) {
    throw fail('InvalidArgument', {
      message: 'mp-object-size must be a number of bytes',
      elements: { ArgumentName: 'mp-object-size', ArgumentValue: rawSize },
    });
  }
  const rawType = header(request, 'checksum-type')?.toUpperCase();
  if (rawType !== undefined && rawType !== 'FULL_OBJECT' && rawType !== 'COMPOSITE')
    throw fail('InvalidRequest', `Value for the checksum-type header is invalid: "${rawType}".`);
  return defined({
    size: rawSize === undefined ? undefined : Number(rawSize),
    checksum: claimedChecksum(request),
    checksumType: rawType,
  });
}

// AbortMultipartUpload: idempotent; the parts go to the deletion queue.

export const AbortMultipartUpload: HandlerOf<'AbortMultipartUpload'> = async (ctx, request) => {
  await abortUpload(ctx, readUploadName(request), request);
  return emptyReply(204);
};
