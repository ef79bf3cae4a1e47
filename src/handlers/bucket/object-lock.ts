/**
 * GetObjectLockConfiguration and PutObjectLockConfiguration. Locks of versions are in `handlers/object/subresources.ts` and
 * `domain/objects/object-lock.ts`.
 */
import { fail, invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { readDocument } from '../../domain/configurations/documents.ts';
import { objectLock } from '../../domain/configurations/families.ts';
import { assertVersioned, configureObjectLock } from '../../domain/objects/amend-version.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { readXml } from '../../protocol/formats/codec.ts';
import { bodyMaxDefault } from '../../protocol/operations/operations.ts';
import {
  type DefaultRetention,
  type ObjectLockConfiguration,
  objectLockConfiguration,
} from '../../protocol/schemas/bucket.ts';
import {
  type Configuration,
  type Configuring,
  type Prepared,
  storeConfiguration,
} from '../common/document.ts';
import { emptyReply, type HandlerOf, xmlReply } from '../handler.ts';

/** The longest periods of the public API. */
const periodMax = { Days: 36_500, Years: 100 } as const;

export const GetObjectLockConfiguration: HandlerOf<'GetObjectLockConfiguration'> = async (
  ctx,
  { bucket },
) => {
  if (!bucket.objectLock)
    throw fail('ObjectLockConfigurationNotFoundError', { elements: { BucketName: bucket.name } });
  return xmlReply(objectLockConfiguration, 'ObjectLockConfiguration', await readConfiguration(ctx, bucket));
};

/** A configuration without a rule removes the default retention; Object Lock stays enabled. */
export const PutObjectLockConfiguration: HandlerOf<'PutObjectLockConfiguration'> = async (ctx, request) => {
  const value = readXml(objectLockConfiguration, 'ObjectLockConfiguration', request.body, {
    maxBytes: bodyMaxDefault,
  });
  await storeConfiguration(ctx, request, { prepare, input: { value } });
  return emptyReply(200);
};

async function prepare(
  ctx: Context,
  { bucket, record, checks }: Configuring,
  { value: { ObjectLockEnabled, Rule } }: { readonly value: ObjectLockConfiguration },
): Promise<Prepared> {
  await checks.at({ path: 'ObjectLockEnabled', right: 'Enabled' }, () => {
    if (ObjectLockEnabled === undefined) throw fail('MalformedXML', 'ObjectLockEnabled must be Enabled');
  });
  const right = `1 to ${periodMax.Days} Days, or 1 to ${periodMax.Years} Years`;
  await checks.at({ path: 'Rule.DefaultRetention', right }, () => {
    if (Rule !== undefined) checkPeriod(Rule.DefaultRetention);
  });
  await checks.at({ path: '', right: 'a bucket with versioning' }, () => assertVersioned(bucket));
  const stored = { ObjectLockEnabled: 'Enabled', ...(Rule === undefined ? {} : { Rule }) } as const;
  return { commit: () => configureObjectLock(ctx, { bucket, record }, stored) };
}

const readConfiguration = async (ctx: Context, bucket: BucketRow): Promise<ObjectLockConfiguration> =>
  (await readDocument(ctx, bucket, objectLock)) ?? { ObjectLockEnabled: 'Enabled' };

/** Object Lock, once enabled, stays. */
export const objectLocking: Configuration<ObjectLockConfiguration, 'object-lock'> = {
  family: 'object-lock',
  unset: 'ObjectLockConfigurationNotFoundError',
  read: (ctx, bucket) => (bucket.objectLock ? readConfiguration(ctx, bucket) : undefined),
  prepare,
};

function checkPeriod(period: DefaultRetention): void {
  for (const name of ['Days', 'Years'] as const) {
    const value = period[name];
    if (value === undefined || (value >= 1 && value <= periodMax[name])) continue;
    throw invalidArgument(
      name,
      value,
      value < 1
        ? 'Default retention period must be a positive integer value.'
        : 'Default retention period too large.',
    );
  }
}
