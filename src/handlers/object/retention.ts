/** GetObjectRetention and PutObjectRetention (spec "Object Lock"). */
import { putRetention } from '../../domain/change-lock.ts';
import { assertLockable } from '../../domain/object-lock.ts';
import { fail } from '../../errors/refusal.ts';
import { readXml } from '../../protocol/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations.ts';
import { type Retention, retention } from '../../protocol/schemas/object-lock.ts';
import { type HandlerOf, targetOf } from '../call.ts';
import { emptyReply, xmlReply } from '../xml-reply.ts';
import { asksBypass, futureRetention } from './lock-headers.ts';

export const retentionIn = (body: Uint8Array): Retention =>
  readXml(retention, 'Retention', body, { maxBytes: bodyMaxDefault });

export const GetObjectRetention: HandlerOf<'GetObjectRetention'> = async (_ctx, call) => {
  assertLockable(call.bucket);
  const { mode, retainUntil } = targetOf(call).lock ?? {};
  if (mode === undefined || retainUntil === undefined) throw fail('NoSuchObjectLockConfiguration');
  return xmlReply(retention, 'Retention', {
    Mode: mode,
    RetainUntilDate: new Date(retainUntil).toISOString(),
  });
};

export const PutObjectRetention: HandlerOf<'PutObjectRetention'> = async (ctx, call) => {
  const { bucket, key, query, record, requestId } = call;
  const { Mode, RetainUntilDate } = retentionIn(call.body);
  const wanted =
    Mode === undefined || RetainUntilDate === undefined
      ? undefined
      : futureRetention(ctx, { mode: Mode, until: RetainUntilDate }, 'RetainUntilDate');
  await putRetention(
    ctx,
    { bucket, key, versionId: query.get('versionId'), record, requestId },
    { wanted, bypass: asksBypass(call) },
  );
  return emptyReply(200);
};
