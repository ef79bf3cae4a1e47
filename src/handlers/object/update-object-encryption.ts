/** UpdateObjectEncryption (public API): another key, or SSE-KMS in place of SSE-S3, without touching the content. */
import { openKeyUser } from '../../auth/session/key-user.ts';
import { rewrapKey } from '../../domain/objects/rewrap-key.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations/operations.ts';
import { objectEncryption } from '../../protocol/schemas/bucket.ts';
import { emptyReply } from '../common/xml-reply.ts';
import { type HandlerOf, requireTarget } from '../handler.ts';
import { assertKeyId } from './encryption-headers.ts';
import { versionHeader } from './object-headers.ts';

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
