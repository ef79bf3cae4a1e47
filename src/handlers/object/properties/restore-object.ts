/** RestoreObject, and how reads and listings show a restored copy. */

import { openKeyUser } from '../../../auth/session/key-user.ts';
import { fail } from '../../../base/errors.ts';
import type { Context } from '../../../context.ts';
import { rewrapKey } from '../../../domain/content/encryption/object-key.ts';
import { restoredUntil, restoreVersion } from '../../../domain/objects/amend-version.ts';
import type { AuthorizedInBucket } from '../../../gateway/request.ts';
import type { ObjectRow } from '../../../metadata/tables.ts';
import { readXml } from '../../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../../protocol/operations/operations.ts';
import type { HeaderPair } from '../../../protocol/reply/reply.ts';
import { objectEncryption } from '../../../protocol/schemas/bucket.ts';
import { restoreRequest } from '../../../protocol/schemas/object.ts';
import { emptyReply } from '../../common/failure.ts';
import { type HandlerOf, requireTarget } from '../../handler.ts';
import { assertKeyId } from '../headers/encryption-headers.ts';
import { versionHeader } from '../headers/object-headers.ts';

/** A hundred years. */
const daysMax = 36_500;

/** 202 for a first restore, though it is done; 200 for another one, which sets a new end (public API). */
export const RestoreObject: HandlerOf<'RestoreObject'> = async (ctx, request) => {
  const { bucket, key, query, record, requestId } = request;
  const about = { bucket, key, versionId: query.get('versionId'), record, requestId };
  const { wasRestored } = await restoreVersion(ctx, about, parseDays(request));
  return emptyReply(wasRestored ? 200 : 202);
};

function parseDays({ body }: AuthorizedInBucket): number {
  const { Days, Type, SelectParameters, OutputLocation } = readXml(restoreRequest, 'RestoreRequest', body, {
    maxBytes: bodyMaxDefault,
  });
  if (Type !== undefined || SelectParameters !== undefined || OutputLocation !== undefined)
    throw fail('NotImplemented', 'A restore cannot select from the content.');
  if (Days === undefined) throw fail('MalformedXML', 'Days is required');
  if (Days >= 1 && Days <= daysMax) return Days;
  throw fail('InvalidArgument', {
    message: `Days must be from 1 to ${daysMax}`,
    elements: { ArgumentName: 'Days', ArgumentValue: Days },
  });
}

export function restoreHeaders(ctx: Pick<Context, 'clock'>, row: ObjectRow): HeaderPair[] {
  const until = restoredUntil(ctx, row);
  if (until === undefined) return [];
  return [['*-restore', `ongoing-request="false", expiry-date="${new Date(until).toUTCString()}"`]];
}

// UpdateObjectEncryption (public API): another key, or SSE-KMS in place of SSE-S3, without touching the content.

export const UpdateObjectEncryption: HandlerOf<'UpdateObjectEncryption'> = async (ctx, request) => {
  const { bucket, query, record, requestId } = request;
  const row = requireTarget(request);
  const body = readXml(objectEncryption, 'ObjectEncryption', request.body, { maxBytes: bodyMaxDefault });
  const { KMSKeyArn, BucketKeyEnabled } = body['SSE-KMS'];
  const keyId = assertKeyId(KMSKeyArn, 'KMSKeyArn');
  const how = { by: 'provider', keyId, bucketKey: BucketKeyEnabled } as const;
  const user = openKeyUser(ctx, request);
  await rewrapKey(ctx, { bucket, row, versionId: query.get('versionId'), how, user, record, requestId });
  return emptyReply(200, versionHeader(request, row));
};
