/**
 * Decides whether a request is allowed, from identity policies, session policies, bucket and access point policies, ACLs, public
 * access blocks and ownership.
 *
 * 1. An explicit Deny in any policy wins, also where it names the bucket and the request comes through an access point. One
 *    exception: the root of the bucket's own account can always read, put and delete the bucket policy, so that no policy locks its
 *    owner out (a bucket with a signing key proves no root: `auth/principal.ts`).
 * 2. Within the account of the resource one Allow is enough: in an identity policy, or in a bucket policy or ACL that names the
 *    caller. A policy that names the account delegates to the account's identity policies. The root needs no Allow.
 * 3. From another account both are required: the resource's policy, and the caller's own (its root needs none).
 * 4. Bucket policy and ACL are a union.
 * 5. Session policies and permissions boundaries intersect with all of that.
 */

import { isPublicGrant } from '../../domain/access/acl.ts';
import type { Grant } from '../../metadata/tables.ts';
import { type Decision, evaluate, type Policy, type StatementReference, type Trace } from './evaluate.ts';
import { isPublicPolicy } from './public-status.ts';
import type { PolicyRequest, Principal } from './request.ts';
import type { Reach } from './statement.ts';

interface PublicAccessBlock {
  readonly ignorePublicAcls: boolean;
  readonly restrictPublicBuckets: boolean;
}

export interface BucketSide {
  /** The account that the bucket belongs to. */
  readonly owner: string;
  readonly policy?: Policy | undefined;
  readonly acls: Acls;
  readonly ownership: 'BucketOwnerEnforced' | 'BucketOwnerPreferred' | 'ObjectWriter';
  /** The account that the object belongs to, where there is one. */
  readonly objectOwner?: string | undefined;
  /** The most restrictive combination of the bucket's and the access point's. */
  readonly publicAccess?: PublicAccessBlock | undefined;
}

/** The access point that the request came through. */
export interface AccessPointSide {
  readonly owner: string;
  /** The ARN of the resource by way of the access point. */
  readonly resource: string;
  readonly policy?: Policy | undefined;
  readonly publicAccess?: PublicAccessBlock | undefined;
}

export interface Access {
  /** `resource` is the bucket's or the object's ARN, also by way of an access point. */
  readonly request: PolicyRequest;
  /** The identity policies of the user and its groups, or of the role. */
  readonly identity: readonly Policy[];
  /** The permissions boundary; undefined when there is none. */
  readonly boundary?: readonly Policy[] | undefined;
  /** The session policies, inline and managed; undefined when there are none. */
  readonly session?: readonly Policy[] | undefined;
  /** Undefined at service scope and for a bucket that is about to be created. */
  readonly bucket?: BucketSide | undefined;
  readonly accessPoint?: AccessPointSide | undefined;
}

export type Reason =
  | 'root'
  | 'identity-policy'
  | 'bucket-policy'
  | 'trust-policy'
  | 'acl'
  | 'explicit-deny'
  | 'session-policy'
  | 'permissions-boundary'
  | 'access-point'
  | 'other-account'
  | 'nothing-allows';

/** The kind of policy that has the explicit Deny. */
export type DenyingSide = 'identity' | 'session' | 'boundary' | 'bucket' | 'accessPoint' | 'trust';

export interface Verdict {
  readonly allowed: boolean;
  readonly reason: Reason;
  /** Set for an explicit Deny only. */
  readonly denied?: DenyingSide;
  /** The statement that decided, where one did. */
  readonly by?: StatementReference | undefined;
}

const none: Decision = { effect: 'None' };
const policyActions = new Set(['s3:getbucketpolicy', 's3:putbucketpolicy', 's3:deletebucketpolicy']);

const isOwnRoot = ({ kind, account }: Principal, owner: string | undefined): boolean =>
  kind === 'root' && account === owner;

/** Evaluates the policy of a bucket or an access point. */
const evaluateOne = (
  request: PolicyRequest,
  side: Pick<BucketSide, 'owner' | 'policy'> | undefined,
  trace: Trace | undefined,
): Decision =>
  side?.policy === undefined
    ? none
    : evaluate({ ...request, resourceAccount: side.owner }, [side.policy], trace);

interface Sides {
  readonly identity: Decision;
  readonly session: Decision | undefined;
  readonly boundary: Decision | undefined;
  readonly bucket: Decision;
  readonly accessPoint: Decision;
}

function evaluateSides(
  { request, identity, session, boundary, bucket, accessPoint }: Access,
  trace: Trace | undefined,
): Sides {
  const asked = accessPoint === undefined ? request : { ...request, resource: accessPoint.resource };
  const bucketDecision = evaluateOne(request, bucket, trace);
  const { principal, action } = request;
  const isRescue =
    bucketDecision.effect === 'Deny' &&
    isOwnRoot(principal, bucket?.owner) &&
    policyActions.has(action.toLowerCase());
  const brought = (policies: readonly Policy[]): Decision => {
    const decision = evaluate(asked, policies, trace);
    if (asked === request || decision.effect === 'Deny') return decision;
    // A caller that a bucket policy denies could otherwise create an access point and use that.
    const ofBucket = evaluate(request, policies, trace);
    return ofBucket.effect === 'Deny' ? ofBucket : decision;
  };
  return {
    identity: brought(identity),
    session: session && brought(session),
    boundary: boundary && brought(boundary),
    bucket: isRescue ? none : bucketDecision,
    accessPoint: evaluateOne(asked, accessPoint, trace),
  };
}

/** How a resource policy reaches the caller. A public policy that is restricted reaches callers of the bucket's account only. */
function policyReach(
  decision: Decision,
  side: Pick<BucketSide, 'owner' | 'policy' | 'publicAccess'>,
  principal: Principal,
): Reach | undefined {
  if (decision.effect !== 'Allow') return undefined;
  const isOutside = principal.kind !== 'service' && principal.account !== side.owner;
  const isRestricted = side.publicAccess?.restrictPublicBuckets === true && isOutside;
  if (isRestricted && side.policy !== undefined && isPublicPolicy(side.policy.document)) return undefined;
  return decision.reach;
}

interface Gate {
  readonly principal: Principal;
  /** The account whose resource it is. */
  readonly owner: string;
  readonly identity: Decision;
  readonly policy: { readonly reach: Reach | undefined; readonly by: StatementReference | undefined };
  readonly acl: Reach | undefined;
}

const yes = (reason: Reason, by?: StatementReference): Verdict => ({ allowed: true, reason, by });
const no = (reason: Reason, by?: StatementReference): Verdict => ({ allowed: false, reason, by });
const denied = (side: DenyingSide, by: StatementReference): Verdict => ({
  ...no('explicit-deny', by),
  denied: side,
});
const denyingSides = ['identity', 'session', 'boundary', 'bucket', 'accessPoint'] as const;
const decidingStatement = (decision: Decision): StatementReference | undefined =>
  decision.effect === 'None' ? undefined : decision.by;

/** Rules 2 to 4 for one resource. */
function passGate({ principal, owner, identity, policy, acl }: Gate): Verdict {
  const isRoot = principal.kind === 'root';
  const own = isRoot
    ? yes('root')
    : identity.effect === 'Allow'
      ? yes('identity-policy', identity.by)
      : undefined;
  const resource =
    policy.reach === 'direct' || (policy.reach !== undefined && acl !== 'direct')
      ? { ...yes('bucket-policy', policy.by), reach: policy.reach }
      : acl === undefined
        ? undefined
        : { ...yes('acl'), reach: acl };
  const direct = resource?.reach === 'direct' ? yes(resource.reason, resource.by) : no('nothing-allows');
  if (principal.account === '') return direct;
  if (principal.account === owner) return own ?? direct;
  if (resource === undefined) return no(own === undefined ? 'nothing-allows' : 'other-account');
  return own === undefined ? no('nothing-allows') : yes(resource.reason, resource.by);
}

function bucketGate({ request }: Access, bucket: BucketSide, sides: Sides): Verdict {
  const { principal, action } = request;
  const isEnforced = bucket.ownership === 'BucketOwnerEnforced';
  const ignorePublic = bucket.publicAccess?.ignorePublicAcls === true;
  const acl = isEnforced ? undefined : reachOfAcls(request, bucket.acls, ignorePublic);
  const policy = { reach: policyReach(sides.bucket, bucket, principal), by: decidingStatement(sides.bucket) };
  const { identity } = sides;
  const { owner, objectOwner } = bucket;
  // The bucket's owner cannot allow access to an object of another account; it can only deny it.
  if (!isEnforced && objectOwner !== undefined && objectOwner !== owner && isObjectOwnerAction(action))
    return passGate({
      principal,
      owner: objectOwner,
      identity,
      policy: { reach: undefined, by: undefined },
      acl,
    });
  return passGate({ principal, owner, identity, policy, acl });
}

/** @param trace filled with the result of every statement, when given */
export function decide(access: Access, trace?: Trace): Verdict {
  const { request, bucket, accessPoint } = access;
  const { principal } = request;
  const sides = evaluateSides(access, trace);
  for (const side of denyingSides) {
    const decision = sides[side];
    if (decision?.effect === 'Deny') return denied(side, decision.by);
  }
  const isService = bucket === undefined;
  const gate = isService
    ? passGate({
        principal,
        owner: principal.account,
        identity: sides.identity,
        policy: { reach: undefined, by: undefined },
        acl: undefined,
      })
    : bucketGate(access, bucket, sides);
  if (!gate.allowed) return gate;
  if (accessPoint !== undefined) {
    const reach = policyReach(sides.accessPoint, accessPoint, principal);
    const policy = { reach, by: decidingStatement(sides.accessPoint) };
    const { identity } = sides;
    const passed = passGate({ principal, owner: accessPoint.owner, identity, policy, acl: undefined });
    if (!passed.allowed) return no('access-point');
  }
  return refusalOfLimits(sides) ?? gate;
}

/** Why the session policies or the boundary do not allow an action that is allowed otherwise, or undefined. */
function refusalOfLimits({ session, boundary }: Pick<Sides, 'session' | 'boundary'>): Verdict | undefined {
  if (session !== undefined && session.effect !== 'Allow') return no('session-policy');
  if (boundary !== undefined && boundary.effect !== 'Allow') return no('permissions-boundary');
  return undefined;
}

/**
 * Decides whether the caller may assume a role of `account`. The role's trust policy must name it. A caller that the trust policy
 * names only by its account, or that belongs to another account, also needs an identity policy that allows it.
 */
export function decideTrust(
  {
    request,
    identity,
    session,
    boundary,
    trust,
    account,
  }: Omit<Access, 'bucket' | 'accessPoint'> & { readonly trust: Policy; readonly account: string },
  trace?: Trace,
): Verdict {
  const { principal } = request;
  const trusted = evaluate({ ...request, resourceAccount: account }, [trust], trace);
  const { identity: own, ...limits } = evaluateSides({ request, identity, session, boundary }, trace);
  const answers = { identity: own, session: limits.session, boundary: limits.boundary, trust: trusted };
  for (const side of ['identity', 'session', 'boundary', 'trust'] as const) {
    const decision = answers[side];
    if (decision?.effect === 'Deny') return denied(side, decision.by);
  }
  if (trusted.effect !== 'Allow') return no('nothing-allows');
  const isOwn = principal.account === account && trusted.reach === 'direct';
  if (!isOwn && principal.kind !== 'root' && own.effect !== 'Allow') return no('nothing-allows');
  return refusalOfLimits(limits) ?? yes('trust-policy', trusted.by);
}

// The actions that the grants of an ACL allow (the public API's table of permissions and actions).

export type { Grant } from '../../metadata/tables.ts';

export type Permission = Grant['permission'];

interface Need {
  /** Whose ACL: the bucket's or the object's. */
  readonly acl: 'bucket' | 'object';
  readonly permission: Exclude<Permission, 'FULL_CONTROL'>;
}
const needs = (
  acl: Need['acl'],
  permission: Need['permission'],
  actions: string,
): readonly [string, Need][] =>
  actions.split(' ').map((action) => [`s3:${action.toLowerCase()}`, { acl, permission }]);

/** By action in lower case; an action that is not here is never granted by an ACL. */
const needByAction: ReadonlyMap<string, Need> = new Map([
  ...needs('bucket', 'READ', 'ListBucket ListBucketVersions ListBucketMultipartUploads'),
  ...needs('bucket', 'WRITE', 'PutObject DeleteObject'),
  ...needs('bucket', 'READ_ACP', 'GetBucketAcl'),
  ...needs('bucket', 'WRITE_ACP', 'PutBucketAcl'),
  ...needs('object', 'READ', 'GetObject GetObjectVersion GetObjectTorrent'),
  ...needs('object', 'READ_ACP', 'GetObjectAcl GetObjectVersionAcl'),
  ...needs('object', 'WRITE_ACP', 'PutObjectAcl PutObjectVersionAcl'),
]);

/** Actions on an object or upload that the object's owner decides, when new objects belong to their writer. */
const ownerActions = new Set(
  [
    'GetObject GetObjectVersion GetObjectTorrent GetObjectVersionTorrent GetObjectAttributes',
    'GetObjectVersionAttributes GetObjectAcl GetObjectVersionAcl PutObjectAcl PutObjectVersionAcl',
    'AbortMultipartUpload ListMultipartUploadParts',
  ]
    .join(' ')
    .split(' ')
    .map((name) => `s3:${name.toLowerCase()}`),
);
const isObjectOwnerAction = (action: string): boolean => ownerActions.has(action.toLowerCase());

const logDelivery = 'logging.s3.amazonaws.com';

function reachOfGrantee(grantee: Grant['grantee'], principal: Principal): Reach | undefined {
  if (grantee.is === 'user') {
    if (principal.account === '' || grantee.id !== principal.account) return undefined;
    return principal.kind === 'root' ? 'direct' : 'account';
  }
  if (grantee.group === 'AllUsers') return 'direct';
  if (grantee.group === 'LogDelivery') return principal.service === logDelivery ? 'direct' : undefined;
  return principal.account === '' ? undefined : 'direct';
}

interface Acls {
  readonly bucket: readonly Grant[];
  /** Undefined when the request is not about an existing object. */
  readonly object?: readonly Grant[] | undefined;
}

/** How the ACLs reach the caller for an action, or undefined. */
function reachOfAcls(
  { action, principal }: { readonly action: string; readonly principal: Principal },
  acls: Acls,
  ignorePublic: boolean,
): Reach | undefined {
  const need = needByAction.get(action.toLowerCase());
  if (need === undefined) return undefined;
  let best: Reach | undefined;
  for (const grant of acls[need.acl] ?? []) {
    if (grant.permission !== need.permission && grant.permission !== 'FULL_CONTROL') continue;
    if (ignorePublic && isPublicGrant(grant)) continue;
    const reach = reachOfGrantee(grant.grantee, principal);
    if (reach === 'direct') return reach;
    best ??= reach;
  }
  return best;
}
