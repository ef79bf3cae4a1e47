/** GetBucketReplication, PutBucketReplication, DeleteBucketReplication. */
import { authorize } from '../../auth/authorize.ts';
import { replicationService, roleAsker } from '../../auth/replication-role.ts';
import { fail } from '../../base/errors.ts';
import { toWireClass } from '../../config/clusters.ts';
import type { Context } from '../../context.ts';
import { bucketReplication, type ReplicationRule } from '../../domain/configurations/families.ts';
import {
  type Destination,
  defaultPeer,
  readDestination,
} from '../../domain/configurations/replication-destination.ts';
import {
  type Authorized as Allowed,
  asksOfRule,
  assertOwned,
  authorizeDelivery,
  NotAllowed,
} from '../../domain/replication/authorize-delivery.ts';
import { openAccess } from '../../domain/replication/peers.ts';
import { resyncExisting } from '../../domain/replication/resync.ts';
import { PeerRefused, UnexpectedAnswer } from '../../domain/replication/send-content.ts';
import { askSite } from '../../domain/replication/send-replica.ts';
import { findReplicationPeer } from '../../metadata/background/replication.ts';
import type { ReplicationPeerRow } from '../../metadata/records/replication-peers.ts';
import { PeerSilent } from '../../ports/peer-requests.ts';
import { replicationConfiguration } from '../../protocol/schemas/replication.ts';
import { checkFilterTags, checkPrefix, withIds } from '../common/checks.ts';
import { type Configuring, document } from '../common/document.ts';

const rulesMax = 1;
const roleArn = /^arn:[a-z0-9-]+:iam::[^:\s]*:role\/\S+$/;
/** The values of Replication Time Control in the public API; others are refused. */
const minutes = 15;

const invalid = (name: string, input: string, message: string) =>
  fail('InvalidArgument', { message, elements: { ArgumentName: name, ArgumentValue: input } });
const needed = (element: string) =>
  fail(
    'InvalidRequest',
    `${element} must be specified for this version of Cross Region Replication configuration schema. Please refer to S3 Developer Guide for more information.`,
  );

/** A rule of the first version: it has no filter. */
function checkFirstVersion({ Prefix, Priority, DeleteMarkerReplication }: ReplicationRule): void {
  if (Prefix === undefined) throw fail('MalformedXML', 'A Rule must hold a Filter, or a Prefix instead');
  if (Priority !== undefined || DeleteMarkerReplication !== undefined)
    throw fail(
      'InvalidRequest',
      'Priority and DeleteMarkerReplication cannot be used for this version of Cross Region Replication configuration schema.',
    );
  checkPrefix(Prefix);
}

/** A rule with a filter demands what the first version does not know. */
function checkSecondVersion({
  Filter = {},
  Prefix,
  Priority,
  DeleteMarkerReplication,
}: ReplicationRule): void {
  if (Prefix !== undefined) throw fail('MalformedXML', 'A Rule may not hold both Filter and Prefix');
  if (Priority === undefined) throw needed('Priority');
  if (DeleteMarkerReplication === undefined) throw needed('DeleteMarkerReplication');
  const { And, Tag } = Filter;
  if (And !== undefined && And.Tag.length + (And.Prefix === undefined ? 0 : 1) < 2)
    throw fail('MalformedXML', 'And must hold at least two conditions');
  const tags = And?.Tag ?? (Tag === undefined ? [] : [Tag]);
  checkPrefix(And?.Prefix ?? Filter.Prefix);
  checkFilterTags(tags);
  if (tags.length > 0 && DeleteMarkerReplication.Status === 'Enabled')
    throw fail(
      'InvalidRequest',
      'Delete marker replication is not supported if any Tag filter is specified. Please refer to S3 Developer Guide for more information.',
    );
}

function checkDestination({ Destination, SourceSelectionCriteria }: ReplicationRule): void {
  const { Bucket, Account, AccessControlTranslation, EncryptionConfiguration } = Destination;
  if (readDestination(Bucket) === undefined)
    throw invalid(
      'Bucket',
      Bucket,
      'The destination must be the ARN of a bucket, arn:aws:s3:::<bucket> or arn:sluice:replication::<peer>:<bucket>',
    );
  if (Destination.StorageClass !== undefined && toWireClass(Destination.StorageClass) === undefined)
    throw fail('MalformedXML', `${Destination.StorageClass} is not a storage class`);
  if (AccessControlTranslation !== undefined && Account === undefined)
    throw fail('InvalidRequest', 'Account must be specified if AccessControlTranslation is present.');
  const isKmsSelected = SourceSelectionCriteria?.SseKmsEncryptedObjects?.Status === 'Enabled';
  if (isKmsSelected && EncryptionConfiguration?.ReplicaKmsKeyID === undefined)
    throw fail(
      'InvalidRequest',
      'EncryptionConfiguration must be specified if SseKmsEncryptedObjects is Enabled.',
    );
  if (!isKmsSelected && EncryptionConfiguration !== undefined)
    throw fail(
      'InvalidRequest',
      'SseKmsEncryptedObjects must be Enabled if EncryptionConfiguration is present.',
    );
  const { ReplicationTime, Metrics } = Destination;
  const times = [ReplicationTime?.Time, Metrics?.EventThreshold];
  if (times.some((time) => time !== undefined && time.Minutes !== minutes))
    throw fail('InvalidRequest', `ReplicationTime and EventThreshold must be ${minutes} minutes.`);
  if (ReplicationTime?.Status === 'Enabled' && Metrics?.Status !== 'Enabled')
    throw fail('InvalidRequest', 'Metrics must be Enabled if ReplicationTime is.');
}

/**
 * A peer that the ARN names must exist, serve the bucket's account, and its bucket be that account's. An ARN that names a bucket only waits
 * for the peer `default`.
 */
async function checkPeer(
  ctx: Context,
  request: Configuring,
  { role, rule }: { readonly role: string; readonly rule: ReplicationRule },
): Promise<void> {
  const { bucket, signal } = request;
  const { Destination } = rule;
  const destination = readDestination(Destination.Bucket);
  if (destination === undefined) return;
  const peer = (await findReplicationPeer(ctx.metadata, destination.peer))?.row;
  if (peer === undefined && destination.peer === defaultPeer) return;
  if (peer === undefined)
    throw invalid('Bucket', Destination.Bucket, `There is no replication peer ${destination.peer}.`);
  await assertMayPass(ctx, request, role);
  try {
    const asks = asksOfRule(bucket, { rule, destination });
    const about = { peer, destination, rule: Destination, account: bucket.owner, bucket: bucket.name };
    const allowed = await authorizeDelivery(
      { credentials: ctx.credentials, askRole: roleAsker(ctx) },
      { ...about, role, asks },
    );
    await askOwner(ctx, { allowed, destination, peer }, signal);
  } catch (cause) {
    if (cause instanceof NotAllowed) throw invalid('Bucket', Destination.Bucket, cause.message);
    throw cause;
  }
}

/** A caller that names a role in a configuration gives its permissions to the service (public API "iam:PassRole"). */
async function assertMayPass(ctx: Context, request: Configuring, role: string): Promise<void> {
  const { identity, bucket } = request;
  if (identity?.owner !== bucket.owner)
    throw fail('AccessDenied', 'A role can be named by users of its own account only.');
  await authorize(ctx, request, {
    action: 'iam:PassRole',
    bucketName: '',
    key: '',
    resource: role,
    named: new Map([['iam:PassedToService', replicationService]]),
  });
}

/** A peer that does not answer is asked again at each delivery. @throws NotAllowed */
async function askOwner(
  ctx: Context,
  {
    allowed,
    destination,
    peer,
  }: { readonly allowed: Allowed; readonly destination: Destination; readonly peer: ReplicationPeerRow },
  signal: AbortSignal,
): Promise<void> {
  const access = await openAccess(ctx, peer);
  if (ctx.peers === undefined || access === undefined || allowed.bucketOwner === undefined) return;
  let owner: string | undefined;
  try {
    owner = (await askSite({ peers: ctx.peers }, access, destination.bucket, signal))?.owner;
  } catch (cause) {
    if (cause instanceof PeerSilent || cause instanceof PeerRefused || cause instanceof UnexpectedAnswer)
      return;
    throw cause;
  }
  assertOwned(allowed, destination, owner);
}

const replicationDocument = document({
  family: bucketReplication,
  schema: replicationConfiguration,
  unset: 'ReplicationConfigurationNotFoundError',
  validate: async (ctx, request, value) => {
    const { checks } = request;
    await checks.at({ path: 'Rule', right: 'one rule' }, () => {
      if (value.Rule.length > rulesMax)
        throw fail(
          'InvalidRequest',
          `The number of replication rules must not exceed the allowed limit of ${rulesMax} rule.`,
        );
    });
    await checks.at({ path: 'Role', right: 'the ARN of a role: arn:aws:iam::<account>:role/<name>' }, () => {
      if (!roleArn.test(value.Role))
        throw invalid('Role', value.Role, 'Invalid Role specified in replication configuration');
    });
    for (const [index, rule] of value.Rule.entries()) {
      const path = `Rule[${index}]`;
      await checks.at({ path }, () =>
        rule.Filter === undefined ? checkFirstVersion(rule) : checkSecondVersion(rule),
      );
      await checks.at({ path: `${path}.Destination` }, () => checkDestination(rule));
      await checks.at(
        { path: `${path}.Destination.Bucket`, right: 'a bucket that the role may replicate to' },
        () => checkPeer(ctx, request, { role: value.Role, rule }),
      );
    }
    const right = 'an ID of at most 255 characters';
    const Rule = await checks.at({ path: 'Rule', right }, () => withIds(ctx, value.Rule));
    return { ...value, Rule: Rule ?? value.Rule };
  },
  amend: (row, value) => {
    if (value !== undefined && row.versioning !== 'Enabled')
      throw fail(
        'InvalidRequest',
        "Versioning must be 'Enabled' on the bucket to apply a replication configuration",
      );
    return row;
  },
  // A rule with `ExistingObjectReplication` begins a resync. Where this fails, the client repeats the request.
  after: (ctx, { bucket, requestId }) => resyncExisting(ctx, bucket.name, requestId),
});

export const replication = replicationDocument.configuration;
export const GetBucketReplication = replicationDocument.get;
export const PutBucketReplication = replicationDocument.put;
export const DeleteBucketReplication = replicationDocument.remove;
