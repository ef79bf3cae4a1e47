/**
 * Whether a service of the gateway may write into a bucket: log delivery and inventories are judged by the policy and the ACL of their
 * target, as the public service judges its own (public API "Enabling server access logging", "Configuring inventory").
 */
import type { BucketRow } from '../../metadata/tables.ts';
import { decide } from '../policy/decision.ts';
import type { Principal } from '../policy/request.ts';
import { type AuthorizationContext, arnOf, bucketSide } from './authorize.ts';

export interface ServiceWriteQuestion {
  /** Such as `logging.s3.amazonaws.com`. */
  readonly service: string;
  readonly bucket: BucketRow;
  readonly key: string;
  /** The bucket that the service acts for. */
  readonly source: { readonly bucket: string; readonly account: string };
}

const principalFor = (service: string): Principal => ({
  kind: 'service',
  account: '',
  arn: '',
  userid: '',
  service,
});

export async function mayServiceWrite(
  ctx: AuthorizationContext,
  { service, bucket, key, source }: ServiceWriteQuestion,
): Promise<boolean> {
  const action = 's3:PutObject';
  const now = ctx.clock.now();
  const facts: ReadonlyMap<string, string> = new Map([
    ['aws:SourceArn', `arn:aws:s3:::${source.bucket}`],
    ['aws:SourceAccount', source.account],
    ['aws:SecureTransport', 'true'],
    ['aws:CurrentTime', new Date(now).toISOString()],
    ['aws:EpochTime', String(Math.floor(now / 1000))],
    ['aws:RequestedRegion', bucket.region],
    ['aws:ResourceAccount', bucket.owner],
    ['s3:ResourceAccount', bucket.owner],
    // The bucket's owner has full control of everything that a service writes.
    ['s3:x-amz-acl', 'bucket-owner-full-control'],
    ['s3:ObjectCreationOperation', 'true'],
  ]);
  const request = {
    principal: principalFor(service),
    action,
    resource: arnOf({ action, bucketName: bucket.name, key }),
    context: { lookup: (name: string) => facts.get(name) },
  };
  const side = await bucketSide(ctx, bucket, {});
  return decide({ request, identity: [], bucket: side }).allowed;
}
