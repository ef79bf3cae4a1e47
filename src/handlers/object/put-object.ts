/** PutObject (spec item 7): headers and body to a write, its outcome to a reply. */
import { drawObjectKey } from '../../domain/encryption/object-key.ts';
import { writeObject } from '../../domain/write-object.ts';
import type { HandlerOf } from '../call.ts';
import { emptyReply } from '../xml-reply.ts';
import { accessOf } from './acl.ts';
import { writeConditions } from './conditions.ts';
import { wantedEncryption, writtenEncryptionHeaders } from './encryption-headers.ts';
import { lockOf } from './lock-headers.ts';
import { checksumHeaders, objectHeadersOf, quoted, versionHeader } from './object-headers.ts';
import { storageClassOf } from './storage-class.ts';
import { contentOf } from './write-content.ts';

export const PutObject: HandlerOf<'PutObject'> = async (ctx, call) => {
  const { bucket, key, record, requestId, signal } = call;
  const drawing = drawObjectKey(ctx, call, wantedEncryption(ctx, call));
  const object = {
    bucket,
    key,
    storageClass: storageClassOf(call),
    headers: objectHeadersOf(call),
    lock: lockOf(ctx, call),
    ...(await accessOf(ctx, call)),
    conditions: writeConditions(call),
    record,
    objectKey: drawing && (await drawing),
    requestId,
    signal,
  };
  const { row } = await writeObject(ctx, object, contentOf(call));
  return emptyReply(200, [
    ['ETag', quoted(row.etag)],
    ...checksumHeaders(row.checksum),
    ...writtenEncryptionHeaders(row.encryption),
    ...versionHeader(call, row),
  ]);
};
