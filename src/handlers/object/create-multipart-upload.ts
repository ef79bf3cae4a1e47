/** CreateMultipartUpload: opens a session bound to its cluster. */
import { openKeyUser } from '../../auth/session/key-user.ts';
import { fail } from '../../base/errors.ts';
import type { ChecksumAlgorithm } from '../../domain/content/digests.ts';
import { drawObjectKey } from '../../domain/content/object-key.ts';
import { defaultChecksumType } from '../../domain/uploads/part-list.ts';
import { createUpload } from '../../domain/uploads/upload-session.ts';
import type { Checksum } from '../../metadata/tables.ts';
import type { HeaderPair } from '../../protocol/reply.ts';
import { initiateMultipartUploadResult } from '../../protocol/schemas/multipart.ts';
import { parseAlgorithm } from '../../request/claims.ts';
import { defined, header } from '../../request/parameters.ts';
import type { Authorized } from '../../request/request.ts';
import { readAccess } from '../common/acl.ts';
import { type HandlerOf, xmlReply } from '../handler.ts';
import { requestedEncryption, writtenEncryptionHeaders } from './encryption-headers.ts';
import { abortHeaders, hasLifecycle, readObjectHeaders } from './object-headers.ts';
import { readLock, readStorageClass } from './write-headers.ts';

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
    { Bucket: bucket.name, Key: key, UploadId: uploadId },
    headers,
  );
};

/** CRCs can cover the whole object, hashes only be composed; CRC64NVME always covers the whole (public API). */
function readChecksumType(
  request: Authorized,
  algorithm: ChecksumAlgorithm | undefined,
): Checksum['type'] | undefined {
  const raw = header(request, 'checksum-type')?.toUpperCase();
  if (raw === undefined) return algorithm && defaultChecksumType(algorithm);
  if (raw !== 'FULL_OBJECT' && raw !== 'COMPOSITE') {
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
  const isHash = !algorithm.startsWith('CRC');
  if ((isHash && raw === 'FULL_OBJECT') || (algorithm === 'CRC64NVME' && raw === 'COMPOSITE')) {
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
  const given = names.flatMap((name) => {
    const value = own.get(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  return given.length === 0 ? undefined : Object.fromEntries(given);
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
