/** GetBucketLogging, PutBucketLogging. */
import { fail } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { readDocument } from '../../domain/configurations/documents.ts';
import { bucketLogging, type Logging, ownershipControls } from '../../domain/configurations/families.ts';
import { findBucket } from '../../metadata/buckets/buckets.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { bucketLoggingStatus } from '../../protocol/schemas/bucket.ts';
import { readGrantee } from '../common/acl.ts';
import { checkPrefix, convertEach } from '../common/checks.ts';
import { type Configuring, document } from '../common/document.ts';

const refused = (TargetBucket: string, message: string) =>
  fail('InvalidTargetBucketForLogging', { message, elements: { TargetBucket } });

/** The log writer acts for the bucket's owner, so the target bucket must have the same owner. */
async function openTarget(ctx: Context, bucket: BucketRow, name: string): Promise<BucketRow> {
  const found = /^[a-z0-9.-]{3,63}$/.test(name) ? await findBucket(ctx.metadata, name) : undefined;
  if (found === undefined) throw refused(name, 'The target bucket for logging does not exist');
  const { row } = found;
  if (row.owner !== bucket.owner)
    throw refused(name, 'The owner for the bucket to be logged and the target bucket must be the same.');
  if (row.region !== bucket.region)
    throw refused(name, 'The bucket to be logged and the target bucket must be in the same region.');
  if (row.objectLock) throw refused(name, 'Buckets with Object Lock cannot be targets of logging.');
  return row;
}

/** @returns the configuration, with accounts in place of e-mail addresses */
async function checkLogging(
  ctx: Context,
  { bucket, checks }: Pick<Configuring, 'bucket' | 'checks'>,
  input: Logging,
): Promise<Logging> {
  const { LoggingEnabled } = input;
  if (LoggingEnabled === undefined) return input;
  const { TargetBucket, TargetPrefix, TargetGrants = [] } = LoggingEnabled;
  await checks.at({ path: 'LoggingEnabled.TargetPrefix' }, () => checkPrefix(TargetPrefix));
  const right = 'a bucket of the same owner and region, without Object Lock';
  const target = await checks.at({ path: 'LoggingEnabled.TargetBucket', right }, () =>
    openTarget(ctx, bucket, TargetBucket),
  );
  if (TargetGrants.length === 0) return input;
  const path = 'LoggingEnabled.TargetGrants';
  const resolved = await convertEach(
    checks,
    { path },
    { members: TargetGrants, convert: (grant) => resolveGrant(ctx, grant) },
  );
  await checks.at({ path, right: 'none: the ACLs of the target bucket are disabled' }, async () => {
    const ownership = target && (await readDocument(ctx, target, ownershipControls));
    if (ownership?.Rule[0]?.ObjectOwnership === 'BucketOwnerEnforced')
      throw fail(
        'InvalidArgument',
        'TargetGrants cannot be used where the target bucket has ObjectOwnership BucketOwnerEnforced.',
      );
  });
  return { LoggingEnabled: { ...LoggingEnabled, TargetGrants: resolved } };
}

type TargetGrant = NonNullable<NonNullable<Logging['LoggingEnabled']>['TargetGrants']>[number];

async function resolveGrant(ctx: Context, { Grantee, Permission }: TargetGrant): Promise<TargetGrant> {
  const { grantee } = await readGrantee(ctx, Grantee, Permission);
  const byId = grantee.is === 'user' ? ({ type: 'CanonicalUser', ID: grantee.id } as const) : Grantee;
  return { Grantee: Grantee.type === 'AmazonCustomerByEmail' ? byId : Grantee, Permission };
}

const configuration = document({
  family: bucketLogging,
  schema: bucketLoggingStatus,
  unset: {},
  isEmpty: ({ LoggingEnabled }) => LoggingEnabled === undefined,
  validate: checkLogging,
});

export const logging = configuration.configuration;
export const GetBucketLogging = configuration.get;
export const PutBucketLogging = configuration.put;
