/** The 304 of a conditional read, with the headers on validity and freshness that a 200 would have (RFC 9110 §15.4.5). */

import type { AuthorizedInBucket } from '../../../gateway/request.ts';
import type { ObjectRow } from '../../../metadata/tables.ts';
import type { Reply } from '../../../protocol/reply/reply.ts';
import { emptyReply } from '../../common/xml-reply.ts';
import { describeObject } from './object-headers.ts';

const kept = new Set([
  'ETag',
  'Last-Modified',
  'Cache-Control',
  'Expires',
  '*-version-id',
  'Content-Security-Policy',
]);

export const notModified = (request: AuthorizedInBucket, row: ObjectRow): Reply =>
  emptyReply(
    304,
    describeObject(request, row).filter(([name]) => kept.has(name)),
  );
