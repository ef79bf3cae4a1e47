/**
 * Multipart uploads: CreateMultipartUpload opens a session bound to its cluster, UploadPart and UploadPartCopy add to
 * it, and CompleteMultipartUpload or AbortMultipartUpload end it.
 */
import { openKeyUser } from '../../auth/session/key-user.ts';
import { fail, invalidArgument } from '../../base/errors.ts';
import { type ChecksumAlgorithm, checksumFacts } from '../../domain/content/digests.ts';
import type { Content } from '../../domain/content/store-bytes.ts';
import { drawObjectKey } from '../../domain/content/wrapped-key.ts';
import { lookUpVersion, type Slice } from '../../domain/objects/read-object.ts';
import { completeUpload } from '../../domain/uploads/complete-upload.ts';
import { type ListedPart, type ObjectClaims, partNumberMax } from '../../domain/uploads/part-list.ts';
import { abortUpload, createUpload, openUploading, writePart } from '../../domain/uploads/upload-session.ts';
import type { Checksum, UploadPart as StoredPart, UploadSession } from '../../metadata/tables.ts';
import { readXml, xmlKey } from '../../protocol/formats/codec.ts';
import { isoTime } from '../../protocol/formats/iso-time.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import { checksumNames, checksumTypes } from '../../protocol/schemas/common.ts';
import {
  type CompletedPart,
  completeMultipartUpload,
  completeMultipartUploadLimits,
  completeMultipartUploadResult,
  initiateMultipartUploadResult,
} from '../../protocol/schemas/multipart.ts';
import { copyPartResult } from '../../protocol/schemas/object.ts';
import { splitTarget } from '../../protocol/wire.ts';
import { claimedChecksum, parseAlgorithm, readContent } from '../../request/body.ts';
import { defined, header, isOneOf, readUploadName } from '../../request/parameters.ts';
import { type Authorized, type AuthorizedInBucket, establish } from '../../request/request.ts';
import { readAccess } from '../common/acl.ts';
import { emptyReply, type HandlerOf, xmlReply } from '../handler.ts';
import { readMatchedTime, readPartNumber, writeConditions } from './conditions.ts';
import { assertCopySize, openCopySource, readCopied, sourceHeaders } from './copy-source.ts';
import {
  encryptionHeaders,
  openSourceKey,
  openUploadKey,
  readCustomerKey,
  requestedEncryption,
  writtenEncryptionHeaders,
} from './encryption-headers.ts';
import { assertMayHave } from './implied-actions.ts';
import {
  abortHeaders,
  expirationHeaders,
  hasLifecycle,
  partChecksumFields,
  quoted,
  readLock,
  readObjectHeaders,
  readStorageClass,
  refuseUnbuilt,
  toChecksumFields,
  writtenVersionHeader,
} from './object-headers.ts';

export const CreateMultipartUpload: HandlerOf<'CreateMultipartUpload'> = async (ctx, request) => {
  const { bucket, key, record, requestId, identity } = request;
  const checksumAlgorithm = parseAlgorithm(header(request, 'checksum-algorithm'), 'checksum-algorithm');
  const checksumType = readChecksumType(request, checksumAlgorithm);
  const objectKey = await drawObjectKey(ctx, request, {
    requested: requestedEncryption(ctx, request),
    user: openKeyUser(ctx, request),
  });
  const { uploadId, session } = await createUpload(ctx, {
    bucket,
    key,
    record,
    requestId,
    storageClass: readStorageClass(request),
    headers: readObjectHeaders(request),
    ...(await readAccess(ctx, request)),
    initiator: identity?.owner ?? bucket.owner,
    ...defined({
      checksumAlgorithm,
      checksumType,
      lock: readLock(ctx, request),
      encryption: objectKey?.encryption,
      begunAs: begunAs(request),
    }),
  });
  const headers: HeaderPair[] = [...writtenEncryptionHeaders(objectKey?.encryption)];
  if (checksumAlgorithm !== undefined) headers.push(['*-checksum-algorithm', checksumAlgorithm]);
  if (checksumType !== undefined) headers.push(['*-checksum-type', checksumType]);
  if (hasLifecycle(bucket)) headers.push(...(await abortHeaders(ctx, bucket, session)));
  return xmlReply(
    initiateMultipartUploadResult,
    'InitiateMultipartUploadResult',
    { Bucket: bucket.name, ...xmlKey(key), UploadId: uploadId },
    headers,
  );
};

/** The type of the checksum of the whole object: each algorithm allows one or both (`checksumFacts`). */
function readChecksumType(
  request: Authorized,
  algorithm: ChecksumAlgorithm | undefined,
): Checksum['type'] | undefined {
  const raw = header(request, 'checksum-type')?.toUpperCase();
  if (raw === undefined) return algorithm && checksumFacts[algorithm].fallback;
  if (!isOneOf(checksumTypes, raw)) {
    throw fail(
      'InvalidRequest',
      `Value for the checksum-type header is invalid: "${raw}" is neither COMPOSITE nor FULL_OBJECT.`,
    );
  }
  if (algorithm === undefined)
    throw fail(
      'InvalidRequest',
      'The checksum-type header can only be used with the checksum-algorithm header.',
    );
  const types: readonly Checksum['type'][] = checksumFacts[algorithm].types;
  if (!types.includes(raw)) {
    throw fail(
      'InvalidRequest',
      `The ${raw} checksum type cannot be used with the ${algorithm} checksum algorithm.`,
    );
  }
  return raw;
}

// Headers of CreateMultipartUpload that say how an object is stored, and that parts do not repeat. A policy with conditions on them
// has them for the parts and the completion as well, because all of these are the action PutObject (public API).

const names = [
  'acl',
  'server-side-encryption',
  'server-side-encryption-aws-kms-key-id',
  'server-side-encryption-customer-algorithm',
  'storage-class',
] as const;

/** Undefined where the request names none. */
function begunAs({ own }: Pick<Authorized, 'own'>): Readonly<Record<string, string>> | undefined {
  const input = names.flatMap((name) => {
    const value = own.get(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return input.length === 0 ? undefined : Object.fromEntries(input);
}

/** The request's headers with those of the upload's beginning, which replace its own. */
export function asBegun<C extends Pick<Authorized, 'own'>>(
  request: C,
  begun: Readonly<Record<string, string>> = {},
): C {
  const own = new Map(request.own);
  for (const name of names) own.delete(name);
  for (const [name, value] of Object.entries(begun)) own.set(name, value);
  return { ...request, own };
}

// UploadPart and UploadPartCopy.

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
  const source = await openCopySource(ctx, request);
  const { bucket, row } = source;
  const slice = copyRange(header(request, 'copy-source-range'), row.size);
  const length = slice.end - slice.start + 1;
  assertCopySize(length);
  const { session } = found.row;
  const objectKey = await openUploadKey(ctx, request, session);
  const sourceKey = await openSourceKey(ctx, request, source);
  const algorithm = session.checksumAlgorithm;
  const stored = await writePart(
    ctx,
    found,
    { name, part, objectKey, record, requestId, signal },
    {
      source: readCopied(ctx, request, { row, slice, objectKey: sourceKey, account: bucket.owner }),
      length,
      claims: defined({ checksum: algorithm && { algorithm, value: () => undefined } }),
    },
  );
  return xmlReply(copyPartResult, 'CopyPartResult', partResult(stored), [
    ...encryptionHeaders(session.encryption),
    ...sourceHeaders(request, source),
  ]);
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
  if (low !== '' && Number(low) <= Number(high) && Number(low) >= size)
    throw fail('InvalidRequest', 'The specified copy range is invalid for the source object size');
  throw invalidArgument(
    'copy-source-range',
    raw,
    `The copy-source-range value must be of the form bytes=first-last where first <= last < ${size}, the size of the source`,
  );
}

// CompleteMultipartUpload.

export const CompleteMultipartUpload: HandlerOf<'CompleteMultipartUpload'> = async (ctx, request) => {
  const { bucket, key, record, requestId, signal } = request;
  const result = await completeUpload(ctx, {
    name: readUploadName(request),
    parts: parseParts(request),
    claims: readObjectClaims(request),
    conditions: await writeConditions(ctx, request),
    user: openKeyUser(ctx, request),
    customerKey: readCustomerKey(ctx, request),
    assertMayReplicate: async (document, effects) =>
      assertMayHave(ctx, request, { ...effects, version: document.version, document }),
    record,
    requestId,
    signal,
  });
  establish(request, { composedSize: result.size });
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
      ...xmlKey(key),
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
    checksumNames.flatMap((algorithm) => {
      const value = part[`Checksum${algorithm}`];
      return value === undefined ? [] : [[algorithm, value] as const];
    }),
  );

function readObjectClaims(request: AuthorizedInBucket): ObjectClaims {
  const rawSize = header(request, 'mp-object-size');
  if (rawSize !== undefined && !/^-?\d{1,15}$/.test(rawSize)) {
    throw invalidArgument('mp-object-size', rawSize, 'mp-object-size must be a number of bytes');
  }
  const rawType = header(request, 'checksum-type')?.toUpperCase();
  if (rawType !== undefined && !isOneOf(checksumTypes, rawType))
    throw fail('InvalidRequest', `Value for the checksum-type header is invalid: "${rawType}".`);
  return defined({
    size: rawSize === undefined ? undefined : Number(rawSize),
    checksum: claimedChecksum(request),
    checksumType: rawType,
  });
}

// AbortMultipartUpload: idempotent; the parts go to the deletion queue.

export const AbortMultipartUpload: HandlerOf<'AbortMultipartUpload'> = async (ctx, request) => {
  const { record, requestId } = request;
  const ifInitiatedAt = readMatchedTime(request, 'if-match-initiated-time');
  await abortUpload(ctx, readUploadName(request), { record, requestId, ...defined({ ifInitiatedAt }) });
  return emptyReply(204);
};
