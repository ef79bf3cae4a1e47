/** PostObject (public API "POST Object"): PutObject by a form; the reply is for a browser. */

import type { AuthorizedInBucket } from '../../gateway/request.ts';
import type { ObjectRow } from '../../metadata/tables.ts';
import { writeXml } from '../../protocol/formats/codec.ts';
import type { HeaderPair, Reply } from '../../protocol/reply/reply.ts';
import { splitTarget } from '../../protocol/request/wire.ts';
import { postResponse } from '../../protocol/schemas/object/post-object.ts';
import { readClaims } from '../common/claims.ts';
import { emptyReply } from '../common/xml-reply.ts';
import type { HandlerOf } from '../handler.ts';
import { expirationHeaders, hasLifecycle } from './headers/expiration.ts';
import { quoted } from './headers/object-headers.ts';
import { writeContent, writtenHeaders } from './put-object.ts';

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
function parseRedirect(given: string | undefined): URL | undefined {
  const url = given === undefined ? null : URL.parse(given);
  return url !== null && (url.protocol === 'http:' || url.protocol === 'https:') ? url : undefined;
}

/** The object's address, with the host and path of the form's own request. */
function formatLocation({ wire, key }: AuthorizedInBucket): string {
  const path = splitTarget(wire.target).path.replace(/\/$/, '');
  const scheme = wire.secure ? 'https' : 'http';
  return `${scheme}://${wire.headers.get('host') ?? ''}${path}/${encodeURIComponent(key)}`;
}
