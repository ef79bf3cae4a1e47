/** GetObjectLegalHold and PutObjectLegalHold (spec "Object Lock"). */
import { putLegalHold } from '../../domain/change-lock.ts';
import { assertLockable } from '../../domain/object-lock.ts';
import { fail } from '../../errors/refusal.ts';
import { readXml } from '../../protocol/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations.ts';
import { type LegalHold, legalHold } from '../../protocol/schemas/object-lock.ts';
import { type HandlerOf, targetOf } from '../call.ts';
import { emptyReply, xmlReply } from '../xml-reply.ts';

export const legalHoldIn = (body: Uint8Array): LegalHold =>
  readXml(legalHold, 'LegalHold', body, { maxBytes: bodyMaxDefault });

/** A version that never had a hold is told from one whose hold was taken off. */
export const GetObjectLegalHold: HandlerOf<'GetObjectLegalHold'> = async (_ctx, call) => {
  assertLockable(call.bucket);
  const held = targetOf(call).lock?.legalHold;
  if (held === undefined) throw fail('NoSuchObjectLockConfiguration');
  return xmlReply(legalHold, 'LegalHold', { Status: held ? 'ON' : 'OFF' });
};

export const PutObjectLegalHold: HandlerOf<'PutObjectLegalHold'> = async (ctx, call) => {
  const { bucket, key, query, record, requestId } = call;
  const { Status } = legalHoldIn(call.body);
  await putLegalHold(
    ctx,
    { bucket, key, versionId: query.get('versionId'), record, requestId },
    Status === 'ON',
  );
  return emptyReply(200);
};
