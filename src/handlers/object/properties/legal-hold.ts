/** GetObjectLegalHold and PutObjectLegalHold. */
import { putLegalHold } from '../../../domain/objects/lock/change-lock.ts';
import { assertLockable } from '../../../domain/objects/lock/object-lock.ts';
import { fail } from '../../../errors/refusal.ts';
import { readXml } from '../../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../../protocol/operations/operations.ts';
import { type LegalHold, legalHold } from '../../../protocol/schemas/bucket/object-lock.ts';
import type { ReadFacts } from '../../common/body-facts.ts';
import { emptyReply, xmlReply } from '../../common/xml-reply.ts';
import { type HandlerOf, requireTarget } from '../../handler.ts';

const legalHoldIn = (body: Uint8Array): LegalHold =>
  readXml(legalHold, 'LegalHold', body, { maxBytes: bodyMaxDefault });

export const legalHoldFacts: ReadFacts = (body) => ({
  headers: { 'object-lock-legal-hold': legalHoldIn(body).Status },
});

/** A version that never had a hold differs from one whose hold was removed. */
export const GetObjectLegalHold: HandlerOf<'GetObjectLegalHold'> = async (_ctx, request) => {
  assertLockable(request.bucket);
  const held = requireTarget(request).lock?.legalHold;
  if (held === undefined) throw fail('NoSuchObjectLockConfiguration');
  return xmlReply(legalHold, 'LegalHold', { Status: held ? 'ON' : 'OFF' });
};

export const PutObjectLegalHold: HandlerOf<'PutObjectLegalHold'> = async (ctx, request) => {
  const { bucket, key, query, record, requestId } = request;
  const { Status } = legalHoldIn(request.body);
  await putLegalHold(
    ctx,
    { bucket, key, versionId: query.get('versionId'), record, requestId },
    Status === 'ON',
  );
  return emptyReply(200);
};
