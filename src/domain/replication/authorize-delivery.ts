/**
 * Whether a bucket may replicate to a destination with the operator's credentials: the peer serves the bucket's account, the bucket at the
 * peer belongs to that account, and the role of the rule is the account's and allows it. Checked when a rule is stored
 * and at each delivery, because peers, roles and owners change (docs/operations/replication.md).
 */
import type { Context } from '../../context.ts';
import type { ReplicationDestination } from '../../metadata/records/queues.ts';
import type { PeerAccount, ReplicationPeerRow } from '../../metadata/records/replication-peers.ts';
import type { BucketRow, ObjectRow } from '../../metadata/tables.ts';
import type { ReplicationRule } from '../configurations/families.ts';
import type { Destination } from '../configurations/replication-destination.ts';
import { readRuleFilter } from '../configurations/rule-filter.ts';
import type { KeyUser } from '../content/provider-key.ts';

/** Another attempt does not help, until an operator or the account changes a peer, a role or a bucket. */
export class NotAllowed extends Error {}

/** The peer serves other accounts. What it lists is for operators: the account must not learn that there is such a peer. */
export class NotServed extends NotAllowed {}

/** An action that the role must allow. */
export interface RoleAsk {
  readonly action: string;
  readonly resource: string;
  /** Of the source: its policy counts too. */
  readonly of?: { readonly bucket: BucketRow; readonly key: string; readonly target?: ObjectRow };
}

interface RoleQuestion {
  readonly account: string;
  /** The bucket that the service acts for. */
  readonly bucket: string;
  readonly role: string;
  readonly asks: readonly RoleAsk[];
}

export type RoleAnswer =
  | { readonly is: 'absent' }
  | { readonly is: 'refused'; readonly why: string }
  /** `user` is the role as a user of keys. */
  | { readonly is: 'allowed'; readonly user: KeyUser };

export type AskRole = (question: RoleQuestion) => Promise<RoleAnswer>;

interface Delivery {
  readonly peer: ReplicationPeerRow;
  readonly destination: Destination;
  readonly rule: ReplicationDestination;
  /** The account of the source bucket. */
  readonly account: string;
  readonly bucket: string;
  readonly role: string | undefined;
  readonly asks: readonly RoleAsk[];
}

export interface Authorized {
  /** The account that must own the bucket at the peer; undefined where any may. */
  readonly bucketOwner: string | undefined;
  /** The bucket was named by the operator, so that a peer need not prove whose it is. */
  readonly isListed: boolean;
  /** The operator named the owner, for any kind of service. */
  readonly isOwnerNamed: boolean;
  /** Whether a peer that does not know whose its keys are uses the key that the rule names. */
  readonly isKeyListed: boolean;
  /** Undefined: the role of an installation with one account, which does not exist. */
  readonly user: KeyUser | undefined;
}

/** @throws NotAllowed */
export async function authorizeDelivery(
  { credentials, askRole }: Pick<Context, 'credentials'> & { readonly askRole: AskRole },
  { peer, destination, rule, account, bucket, role, asks }: Delivery,
): Promise<Authorized> {
  const isImplied = peer.accounts === undefined;
  if (isImplied && credentials.soleAccount !== account) throw notServed(peer, account);
  const grant = isImplied ? undefined : findGrant(peer, account);
  const isListed = isImplied || grant?.buckets?.some((name) => matches(name, destination.bucket)) === true;
  if (grant?.buckets !== undefined && !isListed)
    throw new NotAllowed(
      `the peer ${peer.id} does not take versions of account ${account} in bucket ${destination.bucket}: its operator lists the buckets in \`accounts\``,
    );
  const bucketOwner = isImplied ? undefined : (grant?.bucketOwner ?? account);
  const { Account, AccessControlTranslation, EncryptionConfiguration } = rule;
  const keyId = EncryptionConfiguration?.ReplicaKmsKeyID;
  if (bucketOwner !== undefined && AccessControlTranslation !== undefined && Account !== bucketOwner)
    throw new NotAllowed(
      `the rule gives versions to account ${Account}, but the bucket at the peer must belong to ${bucketOwner}`,
    );
  const answer: RoleAnswer =
    role === undefined ? { is: 'absent' } : await askRole({ account, bucket, role, asks });
  if (answer.is === 'refused') throw new NotAllowed(answer.why);
  // Before peers had accounts, roles were not looked at.
  if (answer.is === 'absent' && !isImplied)
    throw new NotAllowed(
      `account ${account} has no role ${role ?? 'for this task'}: create it, and put the rule again`,
    );
  return {
    bucketOwner,
    isListed,
    isOwnerNamed: grant?.bucketOwner !== undefined,
    isKeyListed:
      isImplied || keyId === undefined || grant?.keys?.some((pattern) => matches(pattern, keyId)) === true,
    user: answer.is === 'allowed' ? answer.user : undefined,
  };
}

/** The entry of the account itself takes precedence over that of every account. */
function findGrant(peer: ReplicationPeerRow, account: string): PeerAccount {
  const { accounts = [] } = peer;
  const found =
    accounts.find((each) => each.account === account) ?? accounts.find((each) => each.account === '*');
  if (found === undefined) throw notServed(peer, account);
  return found;
}

const notServed = ({ id, accounts }: ReplicationPeerRow, account: string): NotServed =>
  new NotServed(
    `the peer ${id} does not serve account ${account}: ${
      accounts === undefined ? 'there are several accounts, and it lists none' : 'it is not listed'
    } in the \`accounts\` of PUT /admin/v1/replication/peers/${id}`,
  );

/** A name, or a prefix with `*` at its end. */
const matches = (pattern: string, name: string): boolean =>
  pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;

/**
 * A copy that was restored from a backup of this installation has its id, and so have the other buckets of this one. What such a bucket has
 * cannot be told by the ids of sites, and its versions would go around.
 * @param site as the peer says; undefined where it does not say @throws NotAllowed
 */
export function assertOtherSite(
  { peer, bucket }: Destination,
  { site, own }: { readonly site: string | undefined; readonly own: string },
): void {
  if (site === own)
    throw new NotAllowed(
      `the bucket ${bucket} at the peer ${peer} belongs to this installation, or to a copy that was restored from a backup of it: versions are replicated to other installations only`,
    );
}

/** @param owner as the peer says; undefined where it does not say, or is no gateway of this kind @throws NotAllowed */
export function assertOwned(
  { bucketOwner, isListed, isKeyListed }: Authorized,
  { peer, bucket }: Destination,
  owner: string | undefined,
): void {
  if (bucketOwner === undefined || owner === bucketOwner) return;
  if (owner !== undefined)
    throw new NotAllowed(
      `the bucket ${bucket} at the peer ${peer} does not belong to account ${bucketOwner}`,
    );
  if (!isListed)
    throw new NotAllowed(
      `the peer ${peer} does not prove whose bucket ${bucket} is: list the bucket for the account in \`accounts\` of PUT /admin/v1/replication/peers/${peer}`,
    );
  if (!isKeyListed)
    throw new NotAllowed(
      `the peer ${peer} does not use the key of the rule for account ${bucketOwner}: its operator lists the key in \`accounts\` of PUT /admin/v1/replication/peers/${peer}`,
    );
}

const objectArn = (bucket: string, key: string): string => `arn:aws:s3:::${bucket}/${key}`;

/** What the role must allow for every version of a rule; a single one may need more. */
export function asksOfRule(
  bucket: BucketRow,
  { rule, destination }: { readonly rule: ReplicationRule; readonly destination: Destination },
): readonly RoleAsk[] {
  const key = `${readRuleFilter(rule).prefix}*`;
  const resource = objectArn(destination.bucket, key);
  const sendsMarkers = rule.Filter === undefined || rule.DeleteMarkerReplication?.Status === 'Enabled';
  const removes = sendsMarkers || rule.DeleteReplication?.Status === 'Enabled';
  return [
    {
      action: 's3:GetObjectVersionForReplication',
      resource: objectArn(bucket.name, key),
      of: { bucket, key },
    },
    { action: 's3:ReplicateObject', resource },
    ...(removes ? [{ action: 's3:ReplicateDelete', resource }] : []),
  ];
}

/** What the role must allow for a version, or for its removal. */
export function listQuestions(
  {
    bucket,
    key,
    row,
  }: { readonly bucket: BucketRow | undefined; readonly key: string; readonly row?: ObjectRow },
  { destination, rule }: Pick<Delivery, 'destination' | 'rule'>,
): readonly RoleAsk[] {
  const resource = objectArn(destination.bucket, key);
  if (row === undefined || bucket === undefined || row.marker)
    return [{ action: 's3:ReplicateDelete', resource }];
  const { headers, acl, lock = {}, encryption } = row;
  const from = { resource: objectArn(bucket.name, key), of: { bucket, key, target: row } };
  const keyId = rule.EncryptionConfiguration?.ReplicaKmsKeyID;
  const hasTags = headers.tags !== undefined;
  return [
    { action: 's3:GetObjectVersionForReplication', ...from },
    ...(hasTags ? [{ action: 's3:GetObjectVersionTagging', ...from }] : []),
    ...(acl === undefined ? [] : [{ action: 's3:GetObjectVersionAcl', ...from }]),
    ...(lock.mode === undefined ? [] : [{ action: 's3:GetObjectRetention', ...from }]),
    ...(lock.legalHold === undefined ? [] : [{ action: 's3:GetObjectLegalHold', ...from }]),
    { action: 's3:ReplicateObject', resource },
    ...(hasTags ? [{ action: 's3:ReplicateTags', resource }] : []),
    ...(rule.AccessControlTranslation === undefined
      ? []
      : [{ action: 's3:ObjectOwnerOverrideToBucketOwner', resource }]),
    ...(encryption?.by === 'provider' && keyId !== undefined
      ? [
          {
            action: 'kms:Encrypt',
            resource: keyId.startsWith('arn:') ? keyId : `arn:aws:kms:*:*:key/${keyId}`,
          },
        ]
      : []),
  ];
}
