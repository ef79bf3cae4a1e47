/** PutObject: headers and body to a write, its outcome to a reply. */

import { openKeyUser } from '../../auth/session/key-user.ts';
import type { Context } from '../../context.ts';
import { drawObjectKey } from '../../domain/content/encryption/object-key.ts';
import type { Content } from '../../domain/content/store-bytes.ts';
import { writeObject } from '../../domain/objects/write-object.ts';
import type { AuthorizedInBucket } from '../../gateway/request.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import type { HeaderPair } from '../../protocol/reply/reply.ts';
import { emptyReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { writeConditions } from './headers/conditions.ts';
import { wantedEncryption, writtenEncryptionHeaders } from './headers/encryption-headers.ts';
import { expirationHeaders, hasLifecycle } from './headers/expiration.ts';
import { readLock } from './headers/lock-headers.ts';
import {
  checksumHeaders,
  quoted,
  readObjectHeaders,
  writtenVersionHeader,
} from './headers/object-headers.ts';
import { readStorageClass } from './headers/storage-class.ts';
import { readAccess } from './properties/acl.ts';
import { readContent } from './write-content.ts';

export const PutObject: HandlerOf<'PutObject'> = async (ctx, request) => {
  const row = await writeContent(ctx, request, readContent(request));
  const headers = writtenHeaders(row);
  if (hasLifecycle(request.bucket)) headers.push(...(await expirationHeaders(ctx, request.bucket, row)));
  return emptyReply(200, headers);
};

/** The write that the headers of a call describe, or the fields of a form. */
export async function writeContent(
  ctx: Context,
  request: AuthorizedInBucket,
  content: Content,
): Promise<ObjectRow> {
  const { bucket, key, record, requestId, signal } = request;
  const objectKey = await drawObjectKey(ctx, request, {
    wanted: wantedEncryption(ctx, request),
    user: openKeyUser(ctx, request),
  });
  const storageClass = readStorageClass(request);
  const headers = readObjectHeaders(request);
  const lock = readLock(ctx, request);
  const { owner, acl } = await readAccess(ctx, request);
  const object = {
    bucket,
    key,
    storageClass,
    headers,
    lock,
    owner,
    acl,
    conditions: writeConditions(request),
    record,
    objectKey,
    requestId,
    signal,
  };
  const { row } = await writeObject(ctx, object, content);
  return row;
}

export const writtenHeaders = (row: ObjectRow): HeaderPair[] => [
  ['ETag', quoted(row.etag)],
  ...checksumHeaders(row.checksum),
  ...writtenEncryptionHeaders(row.encryption),
  ...writtenVersionHeader(row),
];
