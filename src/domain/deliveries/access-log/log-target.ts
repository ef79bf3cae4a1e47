/** The bucket that takes an access log, as it is when the log is delivered. */
import type { Context } from '../../../context.ts';
import { findBucket } from '../../../metadata/buckets/buckets.ts';
import type { AccessLogTask } from '../../../metadata/records/queues.ts';
import type { BucketRow, Grant } from '../../../metadata/tables.ts';
import { type Group, groupUris, toGroup, toUser } from '../../access/acl.ts';
import { readOwnership } from '../../access/object-ownership.ts';
import { readDocument } from '../../configurations/documents.ts';
import { bucketLogging, type NamedGrantee } from '../../configurations/families.ts';

type Ctx = Pick<Context, 'metadata' | 'caches'>;

/** Why lines are not delivered now. They stay in the queue until its retention. */
export type KeptFor =
  /** The target bucket does not exist. */
  | 'no-bucket'
  /** The target belongs to another account than the logged bucket: it was deleted and made again by another owner. */
  | 'other-owner'
  | 'other-region'
  /** Log delivery cannot write locked objects (public API). */
  | 'object-lock'
  /** The prefix and the rest of the key are longer than keys may be. */
  | 'key-too-long'
  | 'quota'
  /** Neither the policy nor the ACL of the target lets log delivery write, or the account may not use the target's KMS key. */
  | 'denied'
  /** Any other failure, such as a storage that does not answer. */
  | 'error';

export async function openLogTarget(
  ctx: Ctx,
  { name, account, region }: { readonly name: string; readonly account: string; readonly region: string },
): Promise<BucketRow | KeptFor> {
  const row = (await findBucket(ctx.metadata, name))?.row;
  if (row === undefined) return 'no-bucket';
  if (row.owner !== account) return 'other-owner';
  if (row.region !== region) return 'other-region';
  if (row.objectLock) return 'object-lock';
  return row;
}

/** The grants on a log object: those of the logged bucket's present configuration, while it names the same target. */
export async function readLogGrants(
  ctx: Ctx,
  {
    source,
    to,
    target,
  }: {
    readonly source: { readonly bucketId: string; readonly bucket: string };
    readonly to: AccessLogTask['target'];
    readonly target: BucketRow;
  },
): Promise<readonly Grant[]> {
  const bucket = (await findBucket(ctx.metadata, source.bucket))?.row;
  if (bucket === undefined || bucket.id !== source.bucketId) return [];
  const logging = (await readDocument(ctx, bucket, bucketLogging))?.LoggingEnabled;
  const { TargetGrants = [] } = logging ?? {};
  if (logging?.TargetBucket !== to.bucket || logging.TargetPrefix !== to.prefix) return [];
  if (TargetGrants.length === 0 || (await readOwnership(ctx, target)) === 'BucketOwnerEnforced') return [];
  return TargetGrants.flatMap(({ Grantee, Permission }) => grantTo(Grantee, Permission));
}

/** Grantees with an e-mail address were resolved when the configuration was stored. */
function grantTo({ ID, URI }: NamedGrantee, permission: Grant['permission']): readonly Grant[] {
  if (ID !== undefined) return [toUser(ID, permission)];
  const group = (Object.keys(groupUris) as Group[]).find((each) => groupUris[each] === URI);
  return group === undefined ? [] : [toGroup(group, permission)];
}
