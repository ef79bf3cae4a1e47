/** GetObjectRetention and PutObjectRetention. */

import { fail } from '../../base/errors.ts';
import { putLegalHold, putRetention } from '../../domain/objects/change-lock.ts';
import { assertLockable } from '../../domain/objects/object-lock.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations/operations.ts';
import { type LegalHold, legalHold, type Retention, retention } from '../../protocol/schemas/bucket.ts';
import type { ReadFacts } from '../../request/body.ts';
import { emptyReply, xmlReply } from '../common/xml-reply.ts';
import { type HandlerOf, requireTarget } from '../handler.ts';
import { asksBypass, futureRetention } from './write-headers.ts';

const retentionIn = (body: Uint8Array): Retention =>
  readXml(retention, 'Retention', body, { maxBytes: bodyMaxDefault });

export const retentionFacts: ReadFacts = (body) => {
  const { Mode, RetainUntilDate } = retentionIn(body);
  return { headers: { 'object-lock-mode': Mode, 'object-lock-retain-until-date': RetainUntilDate } };
};

export const GetObjectRetention: HandlerOf<'GetObjectRetention'> = async (_ctx, request) => {
  assertLockable(request.bucket);
  const { mode, retainUntil } = requireTarget(request).lock ?? {};
  if (mode === undefined || retainUntil === undefined) throw fail('NoSuchObjectLockConfiguration');
  return xmlReply(retention, 'Retention', {
    Mode: mode,
    RetainUntilDate: new Date(retainUntil).toISOString(),
  });
};

export const PutObjectRetention: HandlerOf<'PutObjectRetention'> = async (ctx, request) => {
  const { bucket, key, query, record, requestId } = request;
  const { Mode, RetainUntilDate } = retentionIn(request.body);
  const requested =
    Mode === undefined || RetainUntilDate === undefined
      ? undefined
      : futureRetention(ctx, { mode: Mode, until: RetainUntilDate }, 'RetainUntilDate');
  await putRetention(
    ctx,
    { bucket, key, versionId: query.get('versionId'), record, requestId },
    { requested, bypass: asksBypass(request) },
  );
  return emptyReply(200);
};

// GetObjectLegalHold and PutObjectLegalHold.

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
