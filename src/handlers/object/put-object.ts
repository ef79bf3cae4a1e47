/** PutObject, and the form of a browser that stands for one. */
import { openKeyUser } from '../../auth/session/key-user.ts';
import type { Context } from '../../context.ts';
import { bucketEncryption } from '../../domain/configurations/families.ts';
import type { RequestedEncryption } from '../../domain/content/requested-encryption.ts';
import type { Content } from '../../domain/content/store-bytes.ts';
import { drawObjectKey } from '../../domain/content/wrapped-key.ts';
import { writeObject } from '../../domain/objects/write-object.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import { writeXml } from '../../protocol/formats/codec.ts';
import type { HeaderPair, Reply } from '../../protocol/reply.ts';
import { postResponse } from '../../protocol/schemas/object.ts';
import { splitTarget } from '../../protocol/wire.ts';
import { readClaims, readContent } from '../../request/body.ts';
import type { AuthorizedInBucket } from '../../request/request.ts';
import { ownerOfNew, readAccess, statesAccess } from '../common/acl.ts';
import { emptyReply, type HandlerOf } from '../handler.ts';
import { writeConditions } from './conditions.ts';
import { requestedEncryption, writtenEncryptionHeaders } from './encryption-headers.ts';
import {
  checksumHeaders,
  expirationHeaders,
  hasLifecycle,
  quoted,
  readLock,
  readObjectHeaders,
  readStorageClass,
  writtenVersionHeader,
} from './object-headers.ts';

// PutObject: headers and body to a write, its outcome to a reply.

export const PutObject: HandlerOf<'PutObject'> = async (ctx, request) => {
  const row = await writeContent(ctx, request, readContent(request));
  const headers = writtenHeaders(row);
  if (hasLifecycle(request.bucket)) headers.push(...(await expirationHeaders(ctx, request.bucket, row)));
  return emptyReply(200, headers);
};

/** The write that the headers of a call describe, or the fields of a form. */
async function writeContent(ctx: Context, request: AuthorizedInBucket, content: Content): Promise<ObjectRow> {
  const { bucket, key, record, requestId, signal } = request;
  const requested = requestedEncryption(ctx, request);
  const objectKey = mayEncrypt(bucket, requested)
    ? await drawObjectKey(ctx, request, { requested, user: openKeyUser(ctx, request) })
    : undefined;
  const storageClass = readStorageClass(request);
  const headers = readObjectHeaders(request);
  const lock = readLock(ctx, request);
  const { owner, acl } = statesAccess(request)
    ? await readAccess(ctx, request)
    : { owner: ownerOfNew(request), acl: undefined };
  const authorizing = writeConditions(ctx, request);
  const object = {
    bucket,
    key,
    storageClass,
    headers,
    lock,
    owner,
    acl,
    conditions: authorizing && (await authorizing),
    record,
    objectKey,
    requestId,
    signal,
  };
  const { row } = await writeObject(ctx, object, content);
  return row;
}

function writtenHeaders(row: ObjectRow): HeaderPair[] {
  const headers: HeaderPair[] = [['ETag', quoted(row.etag)]];
  if (row.checksum !== undefined) headers.push(...checksumHeaders(row.checksum));
  if (row.encryption !== undefined) headers.push(...writtenEncryptionHeaders(row.encryption));
  headers.push(...writtenVersionHeader(row));
  return headers;
}

// PostObject (public API "POST Object"): PutObject by a form; the reply is for a browser.

export const PostObject: HandlerOf<'PostObject'> = async (ctx, request) => {
  // The length of a form's file is known at its end only.
  const content = { source: request.payload.content, length: undefined, claims: readClaims(request) };
  const row = await writeContent(ctx, request, content);
  const written = writtenHeaders(row);
  if (hasLifecycle(request.bucket)) written.push(...(await expirationHeaders(ctx, request.bucket, row)));
  return replyTo(request, row, written);
};

function replyTo(request: AuthorizedInBucket, row: ObjectRow, written: readonly HeaderPair[]): Reply {
  const { parameters, bucket, key } = request;
  const etag = quoted(row.etag);
  const redirect = parseRedirect(parameters.get('success_action_redirect') ?? parameters.get('redirect'));
  if (redirect !== undefined) {
    const replyFields = Object.entries({ bucket: bucket.name, key, etag });
    const query = replyFields.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
    redirect.search += `${redirect.search === '' ? '?' : '&'}${query}`;
    return emptyReply(303, [...written, ['Location', redirect.href]]);
  }
  const location = formatLocation(request);
  const headers: HeaderPair[] = [...written, ['Location', location]];
  const status = parameters.get('success_action_status');
  if (status !== '201') return emptyReply(status === '200' ? 200 : 204, headers);
  const response = { Location: location, Bucket: bucket.name, Key: key, ETag: etag };
  return {
    status: 201,
    headers: [['Content-Type', 'application/xml'], ...headers],
    body: writeXml(postResponse, 'PostResponse', response, { namespace: '' }),
  };
}

/** A redirect that is not an HTTP address, such as `javascript:`, is ignored (public API). */
function parseRedirect(input: string | undefined): URL | undefined {
  const url = input === undefined ? null : URL.parse(input);
  return url !== null && (url.protocol === 'http:' || url.protocol === 'https:') ? url : undefined;
}

/** The object's address, with the host and path of the form's own request. */
function formatLocation({ wire, key }: AuthorizedInBucket): string {
  const path = splitTarget(wire.target).path.replace(/\/$/, '');
  const scheme = wire.secure ? 'https' : 'http';
  return `${scheme}://${wire.headers.get('host') ?? ''}${path}/${encodeURIComponent(key)}`;
}

/** Whether the request or its bucket asks for encryption. */
const mayEncrypt = ({ documents }: BucketRow, { by }: RequestedEncryption): boolean =>
  by !== 'default' || bucketEncryption.name in documents;
