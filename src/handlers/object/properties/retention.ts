/** GetObjectRetention and PutObjectRetention. */
import { putRetention } from '../../../domain/objects/lock/change-lock.ts';
import { assertLockable } from '../../../domain/objects/lock/object-lock.ts';
import { fail } from '../../../errors/refusal.ts';
import { readXml } from '../../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../../protocol/operations/operations.ts';
import { type Retention, retention } from '../../../protocol/schemas/bucket/object-lock.ts';
import type { ReadFacts } from '../../common/body-facts.ts';
import { emptyReply, xmlReply } from '../../common/xml-reply.ts';
import { type HandlerOf, requireTarget } from '../../handler.ts';
import { asksBypass, futureRetention } from '../headers/lock-headers.ts';

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
  const wanted =
    Mode === undefined || RetainUntilDate === undefined
      ? undefined
      : futureRetention(ctx, { mode: Mode, until: RetainUntilDate }, 'RetainUntilDate');
  await putRetention(
    ctx,
    { bucket, key, versionId: query.get('versionId'), record, requestId },
    { wanted, bypass: asksBypass(request) },
  );
  return emptyReply(200);
};
