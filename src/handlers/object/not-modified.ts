/** The 304 of a conditional read: what a 200 would have said about validity and freshness (RFC 9110 §15.4.5). */
import type { ObjectRow } from '../../metadata/tables.ts';
import type { Reply } from '../../protocol/reply.ts';
import type { BucketCall } from '../call.ts';
import { emptyReply } from '../xml-reply.ts';
import { describeObject } from './object-headers.ts';

const kept = new Set(['ETag', 'Last-Modified', 'Cache-Control', 'Expires', '*-version-id']);

export const notModified = (call: BucketCall, row: ObjectRow): Reply =>
  emptyReply(
    304,
    describeObject(call, row).filter(([name]) => kept.has(name)),
  );
