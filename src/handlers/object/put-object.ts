/** PutObject (spec item 7): headers and body to a write, its outcome to a reply. */

import { keyUserOf } from '../../auth/key-user.ts';
import type { Context } from '../../context.ts';
import { drawObjectKey } from '../../domain/encryption/object-key.ts';
import type { Content } from '../../domain/store-bytes.ts';
import { writeObject } from '../../domain/write-object.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import type { BucketCall, HandlerOf, HeaderPair } from '../call.ts';
import { emptyReply } from '../xml-reply.ts';
import { accessOf } from './acl.ts';
import { writeConditions } from './conditions.ts';
import { wantedEncryption, writtenEncryptionHeaders } from './encryption-headers.ts';
import { expirationHeaders, hasLifecycle } from './expiration.ts';
import { lockOf } from './lock-headers.ts';
import { checksumHeaders, objectHeadersOf, quoted, writtenVersionHeader } from './object-headers.ts';
import { storageClassOf } from './storage-class.ts';
import { contentOf } from './write-content.ts';

export const PutObject: HandlerOf<'PutObject'> = async (ctx, call) => {
  const row = await writeContent(ctx, call, contentOf(call));
  const headers = writtenHeaders(row);
  if (hasLifecycle(call.bucket)) headers.push(...(await expirationHeaders(ctx, call.bucket, row)));
  return emptyReply(200, headers);
};

/** The write that the headers of a call describe, or the fields of a form. */
export async function writeContent(ctx: Context, call: BucketCall, content: Content): Promise<ObjectRow> {
  const { bucket, key, ahead, record, requestId, signal } = call;
  const drawing = drawObjectKey(ctx, call, {
    wanted: wantedEncryption(ctx, call),
    user: keyUserOf(ctx, call),
  });
  const objectKey = drawing && (await drawing);
  const storageClass = storageClassOf(call);
  const headers = objectHeadersOf(call);
  const lock = lockOf(ctx, call);
  const asked = accessOf(ctx, call);
  const { owner, acl } = asked instanceof Promise ? await asked : asked;
  const object = {
    bucket,
    key,
    ahead,
    storageClass,
    headers,
    lock,
    owner,
    acl,
    conditions: writeConditions(call),
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
