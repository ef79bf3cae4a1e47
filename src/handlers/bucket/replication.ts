/** GetBucketReplication, PutBucketReplication, DeleteBucketReplication. */
import { authorize } from '../../auth/authorize.ts';
import { replicationService, roleAsker } from '../../auth/replication-role.ts';
import { fail, invalidArgument } from '../../base/errors.ts';
import type { Context } from '../../context.ts';
import { bucketReplication, type ReplicationRule } from '../../domain/configurations/families.ts';
import {
  type Destination,
  defaultPeer,
  readDestination,
} from '../../domain/configurations/replication-destination.ts';
import { readRuleFilter } from '../../domain/configurations/rule-filter.ts';
import {
  type Authorized as Allowed,
  asksOfRule,
  assertOtherSite,
  assertOwned,
  authorizeDelivery,
  NotAllowed,
  NotServed,
} from '../../domain/replication/authorize-delivery.ts';
import { openAccess } from '../../domain/replication/peers.ts';
import { resyncExisting } from '../../domain/replication/resync.ts';
import { PeerRefused, UnexpectedAnswer } from '../../domain/replication/send-content.ts';
import { askSite, type PeerSite } from '../../domain/replication/send-replica.ts';
import { findReplicationPeer } from '../../metadata/background/replication.ts';
import type { ReplicationPeerRow } from '../../metadata/records/replication-peers.ts';
import { findSite } from '../../metadata/site.ts';
import type { BucketRow } from '../../metadata/tables.ts';
import { PeerSilent } from '../../ports/peer-requests.ts';
import { findStorageClassName } from '../../ports/storage-classes.ts';
import {
  accountMax,
  keyIdMax,
  replicationConfiguration,
  roleMax,
} from '../../protocol/schemas/replication.ts';
import { checkFilterTags, checkPrefix, withIds } from '../common/checks.ts';
import { type Configuring, document } from '../common/document.ts';

const rulesMax = 1;
/** Characters of a refused text that the answer repeats. */
const echoMax = 256;
const roleArn = /^arn:[a-z0-9-]+:iam::[^:\s]*:role\/[\x21-\x7e]+$/;
const visible = /^[\x21-\x7e]+$/;
/** The values of Replication Time Control in the public API; others are refused. */
const minutes = 15;

const failMissing = (element: string) =>
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
  if (Priority === undefined) throw failMissing('Priority');
  if (DeleteMarkerReplication === undefined) throw failMissing('DeleteMarkerReplication');
  const { prefix, ofVersion, besideKey } = readRuleFilter({ Filter });
  checkPrefix(prefix);
  checkFilterTags(ofVersion.Tag ?? []);
  const [about] = besideKey;
  if (about !== undefined && DeleteMarkerReplication.Status === 'Enabled')
    throw fail(
      'InvalidRequest',
      `Delete marker replication is not supported if any ${about === 'Tags' ? 'Tag' : about} filter is specified. Please refer to S3 Developer Guide for more information.`,
    );
}

function checkText(
  text: string | undefined,
  { name, lengthMax }: { readonly name: string; readonly lengthMax: number },
): void {
  if (text !== undefined && (text.length > lengthMax || !visible.test(text)))
    throw invalidArgument(
      name,
      text.slice(0, echoMax),
      `${name} must be 1 to ${lengthMax} visible ASCII characters`,
    );
}

function checkDestination({ Destination, SourceSelectionCriteria }: ReplicationRule): void {
  const { Bucket, Account, AccessControlTranslation, EncryptionConfiguration } = Destination;
  if (readDestination(Bucket) === undefined)
    throw invalidArgument(
      'Bucket',
      Bucket,
      'The destination must be the ARN of a bucket, arn:aws:s3:::<bucket> or arn:sluice:replication::<peer>:<bucket>',
    );
  if (Destination.StorageClass !== undefined && findStorageClassName(Destination.StorageClass) === undefined)
    throw fail('MalformedXML', `${Destination.StorageClass} is not a storage class`);
  if (AccessControlTranslation !== undefined && Account === undefined)
    throw fail('InvalidRequest', 'Account must be specified if AccessControlTranslation is present.');
  checkText(Account, { name: 'Account', lengthMax: accountMax });
  checkText(EncryptionConfiguration?.ReplicaKmsKeyID, { name: 'ReplicaKmsKeyID', lengthMax: keyIdMax });
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

/** What the public API answers, and what would be right. */
const failNoBucket = (right: string) => fail('InvalidRequest', `Destination bucket must exist. ${right}`);

/**
 * The peer must exist, serve the bucket's account, and have the bucket, which must be that account's. The permission to pass the role comes
 * first: a caller without it learns nothing about peers.
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
  await assertMayPass(ctx, request, role);
  const peer = (await findReplicationPeer(ctx.metadata, destination.peer))?.row;
  if (peer === undefined) throw failNoPeer(bucket, Destination, destination);
  try {
    const asks = asksOfRule(bucket, { rule, destination });
    const about = { peer, destination, rule: Destination, account: bucket.owner, bucket: bucket.name };
    const allowed = await authorizeDelivery(
      { credentials: ctx.credentials, askRole: roleAsker(ctx) },
      { ...about, role, asks },
    );
    await askPeer(ctx, { allowed, destination, peer }, signal);
  } catch (cause) {
    if (cause instanceof NotServed) throw failNoPeer(bucket, Destination, destination);
    if (cause instanceof NotAllowed) throw invalidArgument('Bucket', Destination.Bucket, cause.message);
    throw cause;
  }
}

/** The same where the peer does not exist and where it does not serve the account, which therefore cannot find out what peers there are. */
function failNoPeer(
  { owner }: Pick<BucketRow, 'owner'>,
  { Bucket }: Pick<ReplicationRule['Destination'], 'Bucket'>,
  { peer }: Destination,
) {
  const right = `its operator lists accounts in \`accounts\` of PUT /admin/v1/replication/peers/${peer}.`;
  if (peer === defaultPeer)
    return failNoBucket(
      `The ARN ${Bucket} stands for a bucket at the replication peer ${peer}, which does not exist, or does not serve account ${owner}: use arn:sluice:replication::<peer>:<bucket>, or ask the operator for that peer; ${right}`,
    );
  return invalidArgument(
    'Bucket',
    Bucket,
    `There is no replication peer ${peer}. If there is one, it does not serve account ${owner}: ${right}`,
  );
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

/**
 * Asks the peer for its bucket, whose it is, and for the id of the site. A peer that is not reached, or does not tell, is asked again at each delivery.
 * @throws NotAllowed; InvalidRequest for a bucket that the peer does not have
 */
async function askPeer(
  ctx: Context,
  {
    allowed,
    destination,
    peer,
  }: { readonly allowed: Allowed; readonly destination: Destination; readonly peer: ReplicationPeerRow },
  signal: AbortSignal,
): Promise<void> {
  const access = await openAccess(ctx, peer);
  if (ctx.peers === undefined || access === undefined) return;
  let site: PeerSite | undefined;
  try {
    site = await askSite({ peers: ctx.peers }, access, destination.bucket, signal);
  } catch (cause) {
    if (cause instanceof PeerRefused && cause.code === 'NoSuchBucket')
      throw failNoBucket(
        `The replication peer ${destination.peer} has no bucket ${destination.bucket}: create it there first.`,
      );
    if (cause instanceof PeerSilent || cause instanceof PeerRefused || cause instanceof UnexpectedAnswer)
      return;
    throw cause;
  }
  assertOwned(allowed, destination, site?.owner);
  assertOtherSite(destination, { site: site?.id, own: await findSite(ctx) });
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
      if (value.Role.length > roleMax || !roleArn.test(value.Role))
        throw invalidArgument('Role', value.Role, 'Invalid Role specified in replication configuration');
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
