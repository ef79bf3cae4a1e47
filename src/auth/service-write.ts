/**
 * Whether a service of the gateway may write into a bucket. The policy and the ACL of the target bucket authorize log delivery and
 * inventories, as in the public service (public API "Enabling server access logging", "Configuring inventory").
 * `domain/deliveries/service-write.ts` writes. The role of a replication rule is evaluated with the same facts (`replication-role.ts`).
 */
import type { BucketRow, ObjectRow } from '../metadata/tables.ts';
import type { Clock } from '../ports/clock.ts';
import { type AuthorizationContext, bucketSide, resourceArn } from './authorize.ts';
import { type NamedFacts, standingFacts } from './facts.ts';
import { decide } from './policy/decision.ts';
import type { Facts, Principal } from './policy/request.ts';

/** The bucket that a service acts for, and the account of that bucket. */
interface ActingFor {
  readonly bucket: string;
  readonly account: string;
}

interface ServiceWriteQuestion {
  /** Such as `logging.s3.amazonaws.com`. */
  readonly service: string;
  readonly bucket: BucketRow;
  readonly key: string;
  readonly source: ActingFor;
}

export const servicePrincipal = (service: string): Principal => ({
  kind: 'service',
  account: '',
  arn: '',
  userid: '',
  service,
});

/** The keys by which the policy of a target names the source, so that no other bucket uses the service as its deputy. */
export const actingFor = ({ bucket, account }: ActingFor): NamedFacts => [
  ['aws:SourceArn', `arn:aws:s3:::${bucket}`],
  ['aws:SourceAccount', account],
];

/** The facts of a service: every key that needs no request, and those that it names. */
export const serviceFacts = (
  { clock, config }: Pick<AuthorizationContext, 'config'> & { readonly clock: Pick<Clock, 'now'> },
  about: { readonly bucket?: BucketRow | undefined; readonly target?: ObjectRow | undefined },
  named: NamedFacts,
): Facts =>
  standingFacts({ ...about, now: clock.now(), region: config.SVC_REGION, account: undefined }, [
    // The service is this gateway: nothing is sent over a network.
    ['aws:SecureTransport', 'true'],
    ...named,
  ]);

export async function mayServiceWrite(
  ctx: AuthorizationContext,
  { service, bucket, key, source }: ServiceWriteQuestion,
): Promise<boolean> {
  const action = 's3:PutObject';
  const request = {
    principal: servicePrincipal(service),
    action,
    resource: resourceArn({ action, bucketName: bucket.name, key }),
    context: serviceFacts(ctx, { bucket }, [
      ...actingFor(source),
      // The bucket's owner has full control of everything that a service writes.
      ['s3:x-amz-acl', 'bucket-owner-full-control'],
      ['s3:ObjectCreationOperation', 'true'],
    ]),
  };
  const side = await bucketSide(ctx, bucket, {});
  return decide({ request, identity: [], bucket: side }).allowed;
}
