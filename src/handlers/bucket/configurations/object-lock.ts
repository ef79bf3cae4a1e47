/** GetObjectLockConfiguration and PutObjectLockConfiguration. */

import { readDocument } from '../../../domain/configurations/documents.ts';
import { objectLock } from '../../../domain/configurations/families.ts';
import { configureObjectLock } from '../../../domain/objects/lock/change-lock.ts';
import { fail } from '../../../errors/refusal.ts';
import { readXml } from '../../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../../protocol/operations/operations.ts';
import {
  type DefaultRetention,
  objectLockConfiguration,
} from '../../../protocol/schemas/bucket/object-lock.ts';
import { emptyReply, xmlReply } from '../../common/xml-reply.ts';
import type { HandlerOf } from '../../handler.ts';

/** The longest periods of the public API. */
const periodMax = { Days: 36_500, Years: 100 } as const;

export const GetObjectLockConfiguration: HandlerOf<'GetObjectLockConfiguration'> = async (
  ctx,
  { bucket },
) => {
  if (!bucket.objectLock)
    throw fail('ObjectLockConfigurationNotFoundError', { elements: { BucketName: bucket.name } });
  const configuration = (await readDocument(ctx, bucket, objectLock)) ?? { ObjectLockEnabled: 'Enabled' };
  return xmlReply(objectLockConfiguration, 'ObjectLockConfiguration', configuration);
};

/** A configuration without a rule removes the default retention; Object Lock stays enabled. */
export const PutObjectLockConfiguration: HandlerOf<'PutObjectLockConfiguration'> = async (
  ctx,
  { bucket, body, record },
) => {
  const { ObjectLockEnabled, Rule } = readXml(objectLockConfiguration, 'ObjectLockConfiguration', body, {
    maxBytes: bodyMaxDefault,
  });
  if (ObjectLockEnabled === undefined) throw fail('MalformedXML', 'ObjectLockEnabled must be Enabled');
  if (Rule !== undefined) checkPeriod(Rule.DefaultRetention);
  await configureObjectLock(
    ctx,
    { bucket, record },
    { ObjectLockEnabled, ...(Rule === undefined ? {} : { Rule }) },
  );
  return emptyReply(200);
};

function checkPeriod(period: DefaultRetention): void {
  for (const name of ['Days', 'Years'] as const) {
    const value = period[name];
    if (value === undefined || (value >= 1 && value <= periodMax[name])) continue;
    throw fail('InvalidArgument', {
      message:
        value < 1
          ? 'Default retention period must be a positive integer value.'
          : 'Default retention period too large.',
      elements: { ArgumentName: name, ArgumentValue: value },
    });
  }
}
