/**
 * The condition keys that a policy may use: global and `s3:` ones, with their types and whether they may have several values. An
 * unknown key is refused when the policy is put, because a condition that is not evaluated would fail open.
 *
 * Keys of features that do not exist here (VPCs, organisations) are included: no request has them, as a request from outside of a
 * VPC or an organisation has none on AWS.
 */
import type { Fact, PolicyRequest, Principal } from './request.ts';

/** `epoch` compares as a number and as a date; `any` is free text of the user's (tags), which every operator may read. */
export type KeyType = 'text' | 'number' | 'date' | 'epoch' | 'bool' | 'ip' | 'arn' | 'any';

interface Row {
  readonly type: KeyType;
  /** The key may have several values, so a condition on it needs `ForAllValues:` or `ForAnyValue:`. */
  readonly multivalued?: true;
  /** Taken from the caller and never from the request's context. */
  readonly of?: (principal: Principal) => string | undefined;
}

const rows = (type: KeyType, names: string, more: Omit<Row, 'type'> = {}): readonly [string, Row][] =>
  names.split(' ').map((name) => [name, { type, ...more }]);

const principalTypes: Readonly<Record<Principal['kind'], string | undefined>> = {
  anonymous: 'Anonymous',
  root: 'Account',
  user: 'User',
  session: 'AssumedRole',
  service: undefined,
};
const present = (text: string | undefined): string | undefined => text || undefined;

const fromPrincipal: readonly [string, Row][] = [
  ['aws:username', { type: 'text', of: (principal) => principal.username }],
  ['aws:userid', { type: 'text', of: (principal) => present(principal.userid) }],
  ['aws:PrincipalArn', { type: 'arn', of: (principal) => present(principal.arn) }],
  ['aws:PrincipalAccount', { type: 'text', of: (principal) => present(principal.account) }],
  ['aws:PrincipalType', { type: 'text', of: (principal) => principalTypes[principal.kind] }],
  ['aws:PrincipalIsAWSService', { type: 'bool', of: ({ kind }) => String(kind === 'service') }],
  ['aws:PrincipalServiceName', { type: 'text', of: (principal) => principal.service }],
  // No service calls another one on behalf of a user here.
  ['aws:ViaAWSService', { type: 'bool', of: () => 'false' }],
];

export const conditionKeys: ReadonlyMap<string, Row> = new Map<string, Row>([
  ...fromPrincipal,
  ...rows('ip', 'aws:SourceIp aws:VpcSourceIp'),
  ...rows('date', 'aws:CurrentTime aws:TokenIssueTime s3:object-lock-retain-until-date'),
  ...rows('epoch', 'aws:EpochTime'),
  ...rows('bool', 'aws:SecureTransport aws:MultiFactorAuthPresent s3:ObjectCreationOperation'),
  ...rows('number', 'aws:MultiFactorAuthAge s3:signatureAge s3:TlsVersion s3:max-keys'),
  ...rows('number', 's3:object-lock-remaining-retention-days'),
  ...rows('arn', 'aws:SourceArn aws:SourceVpcArn s3:DataAccessPointArn'),
  ...rows('arn', 'iam:PolicyARN iam:PermissionsBoundary'),
  ...rows('arn', 's3:x-amz-server-side-encryption-aws-kms-key-id'),
  ...rows('text', 'aws:UserAgent aws:Referer aws:RequestedRegion aws:ResourceAccount aws:FederatedProvider'),
  ...rows('text', 'aws:SourceIdentity aws:SourceAccount aws:SourceOwner aws:SourceVpc aws:SourceVpce'),
  ...rows(
    'text',
    'aws:PrincipalOrgID aws:ResourceOrgID aws:SourceOrgID aws:CalledViaFirst aws:CalledViaLast',
  ),
  ...rows('text', 's3:authType s3:signatureversion s3:ResourceAccount s3:prefix s3:delimiter s3:VersionId'),
  ...rows('text', 's3:LocationConstraint s3:DataAccessPointAccount s3:AccessPointNetworkOrigin'),
  ...rows('text', 's3:object-lock-mode s3:object-lock-legal-hold s3:if-match s3:if-none-match'),
  ...rows('text', 's3:x-amz-content-sha256 s3:x-amz-acl s3:x-amz-copy-source'),
  ...rows(
    'text',
    's3:x-amz-grant-read s3:x-amz-grant-write s3:x-amz-grant-read-acp s3:x-amz-grant-write-acp',
  ),
  ...rows('text', 's3:x-amz-grant-full-control s3:x-amz-metadata-directive s3:x-amz-object-ownership'),
  ...rows('text', 's3:x-amz-server-side-encryption s3:x-amz-server-side-encryption-customer-algorithm'),
  ...rows('text', 's3:x-amz-storage-class s3:x-amz-website-redirect-location'),
  ...rows('text', 'sts:ExternalId sts:RoleSessionName sts:SourceIdentity iam:PassedToService'),
  ...rows('text', 'aws:TagKeys s3:RequestObjectTagKeys sts:TransitiveTagKeys', { multivalued: true }),
  ...rows('text', 'aws:PrincipalServiceNamesList aws:CalledVia', { multivalued: true }),
  ...rows('text', 'aws:PrincipalOrgPaths aws:ResourceOrgPaths aws:SourceOrgPaths', { multivalued: true }),
  ...rows('text', 's3:InventoryAccessibleOptionalFields', { multivalued: true }),
]);

/** Families whose key ends in the name of a tag. */
export const tagKeys = [
  'aws:PrincipalTag',
  'aws:RequestTag',
  'aws:ResourceTag',
  'iam:ResourceTag',
  's3:ExistingObjectTag',
  's3:RequestObjectTag',
  's3:BucketTag',
  's3:AccessPointTag',
] as const;

/** Services whose actions are evaluated here: their condition keys are the ones in the tables above. */
const ownServices = new Set(['aws', 's3', 'iam', 'sts', 'admin']);
const otherServiceKey = /^([a-z][a-z0-9.-]{0,127}):[\w.:/=+@ -]{1,256}$/i;

/**
 * A condition key of another service in a policy of an identity, which may be written for several services: no request here has it.
 * `kms:` keys are accepted in an Allow only, because here a Deny of `kms:` actions would not apply where it does on AWS.
 */
export function findOtherServiceKey(input: string, effect: 'Allow' | 'Deny'): ConditionKey | undefined {
  const service = otherServiceKey.exec(input)?.[1]?.toLowerCase();
  if (service === undefined || ownServices.has(service)) return undefined;
  if (service === 'kms' && effect === 'Deny') return undefined;
  return { name: input, type: 'any', multivalued: false, valueIn: () => undefined };
}

export interface ConditionKey {
  /** The name in the table; for a tag key followed by a slash and the tag's name. */
  readonly name: string;
  readonly type: KeyType;
  readonly multivalued: boolean;
  valueIn(request: PolicyRequest): Fact;
}

const byLowerCase = new Map([...conditionKeys].map(([name, row]) => [name.toLowerCase(), { name, row }]));
const familyByLowerCase = new Map<string, string>(tagKeys.map((name) => [name.toLowerCase(), name]));
const tagNameMax = 128;

function principalTag(principal: Principal, name: string): string | undefined {
  const exact = principal.tags?.get(name);
  if (exact !== undefined) return exact;
  const lowered = name.toLowerCase();
  for (const [each, value] of principal.tags ?? []) if (each.toLowerCase() === lowered) return value;
  return undefined;
}

/** The key that a policy names (names compare without regard to case), or undefined when there is none. */
export function findKey(input: string): ConditionKey | undefined {
  const slash = input.indexOf('/');
  if (slash >= 0) {
    const family = familyByLowerCase.get(input.slice(0, slash).toLowerCase());
    const tag = input.slice(slash + 1);
    if (family === undefined || tag === '' || tag.length > tagNameMax) return undefined;
    const name = `${family}/${tag}`;
    const valueIn = ({ principal, context }: PolicyRequest): Fact =>
      family === 'aws:PrincipalTag' ? principalTag(principal, tag) : context.lookup(name);
    return { name, type: 'any', multivalued: false, valueIn };
  }
  // The neutral dialect's headers are the same headers.
  const found = byLowerCase.get(input.toLowerCase().replace(/^s3:x-store-/, 's3:x-amz-'));
  if (found === undefined) return undefined;
  const { name, row } = found;
  const of = row.of;
  return {
    name,
    type: row.type,
    multivalued: row.multivalued === true,
    valueIn: of === undefined ? ({ context }) => context.lookup(name) : ({ principal }) => of(principal),
  };
}
